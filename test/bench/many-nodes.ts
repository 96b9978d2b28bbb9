// `npm run bench:nodes`: what `check` costs on many live nodes. The nodes are in memory a few at a time, so ten times as many must not
// take much more memory. Ratios can be compared between machines; seconds and mebibytes cannot.
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {assertClean} from './right-report.ts';
import {startServer} from './server-process.ts';
import type {LiveClusterReady} from './live-cluster.ts';
import {type Cost, measure} from './measure.ts';

const PRODUCT = fileURLToPath(new URL('../../bin/run.js', import.meta.url));

const {values} = parseArgs({
  options: {
    nodes: {type: 'string', default: '1000'},
    services: {type: 'string', default: '110'},
    endpoints: {type: 'string', default: '8'},
    seed: {type: 'string', default: '1'},
  },
});
const most = Number(values.nodes);
const size = {services: Number(values.services), endpoints: Number(values.endpoints), seed: Number(values.seed)};

interface Round extends LiveClusterReady {
  readonly cost: Cost;
}

async function measureNodes(nodes: number): Promise<Round> {
  process.stderr.write(`${nodes} nodes\n`);
  const temp = mkdtempSync(join(tmpdir(), 'svc-trace-bench-'));
  try {
    using server = await startServer<LiveClusterReady>('live-cluster.ts', [JSON.stringify({...size, nodes})]);
    const {ready} = server;
    const measured = await measure([process.execPath, PRODUCT, 'check', '-A', '-o', 'json', '--kubeconfig', ready.kubeconfig], temp);
    assertClean(measured, ready.nodes);
    return {...ready, cost: measured};
  } finally {
    rmSync(temp, {recursive: true});
  }
}

function row({nodes, rules, cost}: Round): string {
  const perNode = ((cost.cpuSeconds / nodes) * 1000).toFixed(1);
  return `${nodes} nodes, ${rules} rules each: ${cost.peakMebibytes.toFixed(0)} MiB at most, ${cost.wallSeconds.toFixed(1)} s, ${perNode} ms CPU a node`;
}

try {
  const few = await measureNodes(Math.round(most / 10));
  const many = await measureNodes(most);
  const ratio = (figure: (round: Round) => number) => (figure(many) / figure(few)).toFixed(2);
  process.stdout.write(`${row(few)}\n${row(many)}\n`);
  process.stdout.write(
    `ten times the nodes: memory x ${ratio(({cost}) => cost.peakMebibytes)}, CPU a node x ${ratio(({cost, nodes}) => cost.cpuSeconds / nodes)}\n`,
  );
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
