// `npm run bench`: what the program costs, in units of what any program has to spend on the same files, and beside what else there is.
// A ratio can be compared between machines; seconds cannot. `npm run bench -- --help` lists the parts and options.
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {alternativesTable, measureAlternatives} from './alternatives.ts';
import {measureTable, tableText} from './conntrack-table.ts';
import type {ClusterSize, ProxyMode} from './cluster-size.ts';
import {measureNftJson, nftJsonTable} from './nft-json.ts';
import {measureNodeCounts, nodeCountsTable} from './node-counts.ts';
import {measureOneService, oneServiceTable} from './one-service.ts';
import {type Options, readOptions} from './options.ts';
import {stagesTable, subjectTable} from './results-table.ts';
import {measureStages} from './stages.ts';
import {measureStartUp, startUpTable} from './start-up.ts';
import {measureSubject, type Subject, writeCluster} from './subject.ts';

/** One part of the benchmark, done. */
interface Result {
  readonly figures: object;
  readonly text: string;
}

async function* results(options: Options, temp: string): AsyncGenerator<Result> {
  if (options.parts.has('startup')) {
    const figures = await measureStartUp(options.repeat ?? (options.quick ? 5 : 11), temp);
    yield {figures, text: startUpTable(figures)};
  }
  for (const subject of subjects(options)) {
    const figures = await measureSubject(subject, temp);
    yield {figures, text: subjectTable(figures)};
  }
  const {seed, quick, floorOnly} = options;
  if (options.parts.has('nftables') && options.size === null && !floorOnly) {
    const size = {services: quick ? 600 : 3_000, endpoints: 6, nodes: 1, seed, proxyMode: 'nftables'} as const;
    const {bundles} = await writeCluster(size, join(temp, 'nft-json'));
    const figures = await measureNftJson(bundles.before);
    yield {figures, text: nftJsonTable(figures)};
  }
  if (options.parts.has('many-nodes') && options.size === null && !floorOnly) {
    const figures = await measureNodeCounts({services: 110, endpoints: 8, nodes: quick ? 100 : 1000, seed}, temp);
    yield {figures, text: nodeCountsTable(figures)};
  }
  if (options.parts.has('alternatives') && !floorOnly) {
    const figures = await measureAlternatives(options.size ?? bigNode(options), temp);
    yield {figures, text: alternativesTable(figures)};
  }
  if (options.parts.has('one-service') && !floorOnly) {
    const size = options.size ?? {services: quick ? 100 : 500, endpoints: 50, nodes: 1, seed};
    const figures = await measureOneService(size, options.repeat ?? (quick ? 1 : 5), temp);
    yield {figures, text: oneServiceTable(figures)};
  }
  if (options.parts.has('conntrack') && !floorOnly) {
    const figures = await measureTable(quick ? 100_000 : 1_000_000, 16);
    yield {figures, text: tableText(figures)};
  }
  if (options.parts.has('stages') && !options.floorOnly) {
    const {bundles} = await writeCluster(options.size ?? bigNode(options), join(temp, 'stages'));
    const figures = await measureStages(bundles.before);
    yield {figures, text: stagesTable(figures)};
  }
}

function bigNode({quick, seed}: Pick<Options, 'quick' | 'seed'>): ClusterSize {
  return {services: quick ? 1_000 : 5_000, endpoints: 50, nodes: 1, seed};
}

function subjects({parts, size, seed, repeat, quick, floorOnly}: Options): readonly Subject[] {
  if (size !== null) return [{size, repeat: repeat ?? (quick ? 1 : 3), floorOnly}];
  const scale = quick ? 0.2 : 1;
  const of = (services: number, endpoints: number, nodes: number, proxyMode: ProxyMode = 'iptables'): Subject => ({
    size: {services, endpoints, nodes, seed, proxyMode},
    repeat: repeat ?? (quick || nodes > 1 ? 1 : 3),
    floorOnly,
  });
  return [
    ...(parts.has('big-node') ? [of(5_000 * scale, 50, 1), of(20_000 * scale, 5, 1)] : []),
    ...(parts.has('nftables') ? [of(3_000 * scale, 6, 1, 'nftables')] : []),
    // 3,000 rules a node.
    ...(parts.has('many-nodes') ? [of(110, 8, 300 * scale)] : []),
  ];
}

async function main(): Promise<void> {
  const options = readOptions();
  const temp = mkdtempSync(join(tmpdir(), 'svc-trace-bench-'));
  const remove = () => rmSync(temp, {recursive: true, force: true});
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      remove();
      process.exit(130);
    });
  }
  try {
    const all: object[] = [];
    for await (const {figures, text} of results(options, temp)) {
      all.push(figures);
      if (!options.json) process.stdout.write(`${text}\n\n`);
    }
    if (options.json) process.stdout.write(`${JSON.stringify(all, null, 2)}\n`);
  } finally {
    remove();
  }
}

try {
  await main();
} catch (error) {
  const isUse = error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS');
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}${isUse ? '; --help tells what there is' : ''}\n`);
  process.exitCode = 1;
}
