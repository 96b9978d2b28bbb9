// `npm run bench`: what the program costs, in units of what any program has to spend on the same files, and beside what else there is.
// A ratio can be compared between machines; seconds cannot. `npm run bench -- --help` lists the parts and options.
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {parseArgs} from 'node:util';
import {alternativesTable, measureAlternatives} from './alternatives.ts';
import {measureTable, tableText} from './conntrack-table.ts';
import type {ClusterSize, ProxyMode} from './cluster-size.ts';
import {measureOneService, oneServiceTable} from './one-service.ts';
import {measureOtherRules, otherRulesTable} from './other-rules.ts';
import {stagesTable, subjectTable} from './results-table.ts';
import {measureStages} from './stages.ts';
import {measureStartUp, startUpTable} from './start-up.ts';
import {measureFloor, measureSubject, type Subject, writeCluster} from './subject.ts';
import {type Cost, measure} from './measure.ts';
import {type Program, programs} from './programs.ts';
import {assertClean} from './right-report.ts';
import {say} from './say.ts';
import {measureCilium, measureNftJson, stagesBesideJson} from './beside-json.ts';

/** Its tables are those of the last release. */
const page = join(import.meta.dirname, '../../docs/dev/performance.md');

/** The parts of the benchmark, each of which can be run alone. */
const parts = {
  startup: 'what it costs to start, and to check one Service of a live cluster, beside kubectl',
  'big-node': 'check, trace, packet and diff on one node of big clusters, beside the floor',
  nftables: 'check, trace and packet on one node of nftables mode, read as JSON; parsing and comparing it beside JSON.parse',
  cilium: 'checking one node of Cilium beside JSON.parse of what its agent prints',
  'many-nodes': 'the same on bundles of many nodes; what one node costs, and a hundred of the same cluster',
  alternatives: 'what else one would look at the big node with: grep, iptables-restore --test, kubectl',
  'one-service': 'a check of one Service of a live node with 76,000 rules in the kernel, beside kubectl exec of iptables-save',
  'other-rules':
    'check of one node with 300 policies of Calico, and with 2,000 banned addresses or a set of 60,000, beside the same node without',
  stages: 'what the steps of a check of the big node take, without the rest of the program',
  conntrack: 'counting a table of 1,000,000 tracked connections, as top does, in a small heap',
} as const;

type Part = keyof typeof parts;

interface Options {
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
taken off. "page" is what docs/dev/performance.md has of the same cluster, in floors of CPU time; "worse" is more than 15 % above. Both the npm package as built (npm run build) and, where there is one, the executable (npm run release -- compile --platform
linux_amd64) are measured. All reports are checked to be right.
`;

/** Prints the help and ends where that is asked for. Throws for what cannot be meant. */
function readOptions(): Options {
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
    yield {figures, text: subjectTable(figures, readFileSync(page, 'utf8'))};
  }
  const {seed, quick, floorOnly} = options;
  if (options.parts.has('nftables') && options.size === null && !floorOnly) {
    const size = {services: quick ? 600 : 3_000, endpoints: 6, nodes: 1, seed, proxyMode: 'nftables'} as const;
    const {bundles} = await writeCluster(size, join(temp, 'nft-json'));
    const figures = await measureNftJson(bundles.before);
    yield {figures, text: stagesBesideJson('the JSON of nft of this node, API objects read', figures)};
  }
  if (options.parts.has('cilium') && options.size === null && !floorOnly) {
    const services = quick ? 2_000 : 10_000;
    const figures = measureCilium(services);
    yield {figures, text: stagesBesideJson(`a node of Cilium with ${services} Services, read`, figures)};
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
  if (options.parts.has('other-rules') && !floorOnly) {
    const size = options.size ?? {services: quick ? 300 : 1_000, endpoints: 10, nodes: 1, seed};
    const figures = await measureOtherRules(size, options.repeat ?? (quick ? 1 : 5), temp);
    yield {figures, text: otherRulesTable(figures)};
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

/** The cost to check some of the nodes of one bundle. */
interface NodeCount {
  readonly program: Program['name'] | 'floor';
  readonly nodes: number;
  readonly cost: Cost;
}

interface NodeCounts {
  readonly size: ClusterSize;
  readonly rows: readonly NodeCount[];
}

/** One node, some and all of the same bundle: what is the same for all nodes is worked out once. */
async function measureNodeCounts(size: ClusterSize, temp: string): Promise<NodeCounts> {
  const {bundles} = await writeCluster(size, join(temp, 'nodes'));
  const rows: NodeCount[] = [];
  for (const nodes of [1, Math.round(size.nodes / 10), size.nodes]) {
    say(`${nodes} of ${size.nodes} nodes`);
    rows.push({program: 'floor', nodes, cost: await measureFloor([bundles.before], nodes, temp)});
    const chosen = bundles.nodes.slice(0, nodes).flatMap(name => ['--node', name]);
    for (const {name, command} of programs()) {
      const measured = await measure([...command, 'check', '-A', ...chosen, '--from', bundles.before, '-o', 'json'], temp);
      assertClean(measured, nodes);
      rows.push({program: name, nodes, cost: measured});
    }
  }
  rmSync(join(temp, 'nodes'), {recursive: true});
  return {
    size,
    rows: rows.map(({cost: {cpuSeconds, wallSeconds, peakMebibytes}, ...row}) => ({
      ...row,
      cost: {cpuSeconds, wallSeconds, peakMebibytes},
    })),
  };
}

function nodeCountsTable({size, rows}: NodeCounts): string {
  const heading = `check -A of some nodes of one bundle of ${size.nodes}, ${size.services} Services x ${size.endpoints} endpoints`;
  return [
    heading,
    line('', ['CPU s', 'x floor', 'x one node', 'ms a node', 'MiB', 'x floor']),
    ...rows.map(row => rowText(row, rows)),
  ].join('\n');
}

function rowText({program, nodes, cost}: NodeCount, rows: readonly NodeCount[]): string {
  const floor = rows.find(row => row.program === 'floor' && row.nodes === nodes)?.cost;
  const one = rows.find(row => row.program === program && row.nodes === 1)?.cost;
  const times = (figure: 'cpuSeconds' | 'peakMebibytes', unit: Cost | undefined) =>
    (cost[figure] / (unit?.[figure] ?? Number.NaN)).toFixed(2);
  return line(`${program}: ${nodes} ${nodes === 1 ? 'node' : 'nodes'}`, [
    ...[cost.cpuSeconds.toFixed(2), times('cpuSeconds', floor), times('cpuSeconds', one), ((cost.cpuSeconds / nodes) * 1000).toFixed(1)],
    ...[cost.peakMebibytes.toFixed(0), times('peakMebibytes', floor)],
  ]);
}

function line(name: string, figures: readonly string[]): string {
  return `  ${name.padEnd(32)}${figures.map(figure => figure.replace('NaN', '-').padStart(12)).join('')}`;
}
