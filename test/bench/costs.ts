// `npm run bench:costs`: the bytes on the wire in a cluster of your size, for each kind of run: the tables of docs/dev/costs.md.
import process from 'node:process';
import {parseArgs} from 'node:util';
import {costTables} from './cost-tables.ts';

const {values} = parseArgs({
  options: {
    nodes: {type: 'string', default: '5000'},
    services: {type: 'string', default: '5000'},
    endpoints: {type: 'string', default: '50'},
  },
});
const tables = costTables({nodes: Number(values.nodes), services: Number(values.services), endpoints: Number(values.endpoints)});
process.stdout.write(`${tables.sizes}\n\n${tables.costs}\n`);
