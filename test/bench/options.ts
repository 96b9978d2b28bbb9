import process from 'node:process';
import {parseArgs} from 'node:util';
import type {ClusterSize} from './cluster-size.ts';

/** The parts of the benchmark, each of which can be run alone. */
const parts = {
  startup: 'what it costs to start, and to check one Service of a live cluster, beside kubectl',
  'big-node': 'check, trace, packet and diff on one node of big clusters, beside the floor',
  nftables: 'check, trace and packet on one node of nftables mode, read as JSON; parsing and comparing it beside JSON.parse',
  'many-nodes': 'the same on bundles of many nodes; what one node costs, and a hundred of the same cluster',
  alternatives: 'what else one would look at the big node with: grep, iptables-restore --test, kubectl',
  'one-service': 'a check of one Service of a live node with 76,000 rules in the kernel, beside kubectl exec of iptables-save',
  stages: 'what the steps of a check of the big node take, without the rest of the program',
  conntrack: 'counting a table of 1,000,000 tracked connections, as top does, in a small heap',
} as const;

type Part = keyof typeof parts;

export interface Options {
  readonly parts: ReadonlySet<Part>;
  /** Of the one bundle to be measured; null for the usual ones. */
  readonly size: ClusterSize | null;
  readonly seed: number;
  /** How often each command is run; null for what is usual. */
  readonly repeat: number | null;
  readonly quick: boolean;
  /** The machine's own figures only. */
  readonly floorOnly: boolean;
  readonly json: boolean;
}

const help = `usage: npm run bench -- [parts] [options]

Parts; all of them where none is named:
${Object.entries(parts)
  .map(([name, text]) => `  --${name.padEnd(16)}${text}`)
  .join('\n')}

One bundle in place of the usual ones; those that are not given are 5000, 50 and 1:
  --services N      Services, 100 or more
  --endpoints N     endpoints of each Service
  --nodes N         nodes whose rules are in the bundle

  --repeat N        rounds, in which all commands take turns; the median of them is printed
  --seed N          another cluster of the same size
  --quick           smaller clusters and one round: three minutes in place of fifteen
  --floor-only      without the product
  --json            all figures

The floor is what any program has to do with a bundle: read it, count the lines of its dumps, parse its API objects and the JSON of nft
(floor.mjs). Ratios
to it are made round by round. "growth" is the power of the size of the input with which the cost grows from a quarter of it on, start-up
taken off. Both the npm package as built (npm run build) and, where there is one, the executable (npm run release -- compile --platform
linux_amd64) are measured. All reports are checked to be right.
`;

/** Prints the help and ends where that is asked for. Throws for what cannot be meant. */
export function readOptions(): Options {
  const flag = {type: 'boolean', default: false} as const;
  const {values} = parseArgs({
    options: {
      ...(Object.fromEntries(Object.keys(parts).map(part => [part, flag])) as Record<Part, typeof flag>),
      ...{services: {type: 'string'}, endpoints: {type: 'string'}, nodes: {type: 'string'}},
      ...{repeat: {type: 'string'}, seed: {type: 'string', default: '1'}},
      ...{quick: flag, 'floor-only': flag, json: flag, help: {...flag, short: 'h'}},
    } as const,
  });
  if (values.help) {
    process.stdout.write(help);
    process.exit();
  }
  const named = (Object.keys(parts) as Part[]).filter(part => values[part]);
  const {services, endpoints, nodes} = values;
  const seed = wholeNumber('seed', values.seed, 0);
  const isSized = [services, endpoints, nodes].some(value => value !== undefined);
  return {
    parts: new Set(named.length > 0 ? named : isSized ? ['big-node'] : (Object.keys(parts) as Part[])),
    size: isSized
      ? {
          services: wholeNumber('services', services ?? '5000', 100),
          endpoints: wholeNumber('endpoints', endpoints ?? '50', 1),
          nodes: wholeNumber('nodes', nodes ?? '1', 1),
          seed,
        }
      : null,
    seed,
    repeat: values.repeat === undefined ? null : wholeNumber('repeat', values.repeat, 1),
    quick: values.quick,
    floorOnly: values['floor-only'],
    json: values.json,
  };
}

function wholeNumber(option: string, text: string, least: number): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least) throw new RangeError(`--${option} is a whole number, ${least} or more, not ${text}`);
  return value;
}
