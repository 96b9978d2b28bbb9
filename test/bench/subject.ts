import {mkdirSync, readFileSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {fileURLToPath} from 'node:url';
import type {ClusterSize} from './cluster-size.ts';
import {type Cost, measure, type Measured} from './measure.ts';
import {type Program, programs} from './programs.ts';
import {say} from './say.ts';
import {growthExponent, medianCost, medianRatio, minCost} from './statistics.ts';
import type {WrittenBundles} from './written-bundles.ts';
import {assertBroken, assertClean, assertDiff, assertPacket, assertPreview, assertStopped, assertTrace} from './right-report.ts';

/** A command on the bundles of one cluster, and the test that it came to what it should: a figure for a wrong answer means nothing. */
interface BenchedCommand {
  readonly name: string;
  /** Whether it reads both bundles: then the floor does too. */
  readonly readsBoth?: boolean;
  /** Whether it is run on nodes of nftables mode too, of which there is no bundle with missing rules. */
  readonly inNftables?: boolean;
  readonly args: (bundles: WrittenBundles) => readonly string[];
  /** Throws when the report is wrong. */
  readonly assert: (result: {readonly exitCode: number; readonly stdout: string}, bundles: WrittenBundles) => void;
}

const json = ['-o', 'json'];

/** Nodes that were not captured are not asked for: they would be warnings. */
const only = ({nodes}: WrittenBundles) => nodes.flatMap(name => ['--node', name]);

const benchedCommands: readonly BenchedCommand[] = [
  {
    name: 'check -A',
    inNftables: true,
    args: bundles => ['check', '-A', ...only(bundles), '--from', bundles.before, ...json],
    assert: (result, {nodes}) => assertClean(result, nodes.length),
  },
  {
    name: 'check -A, faults',
    args: bundles => ['check', '-A', ...only(bundles), '--from', bundles.after, ...json],
    assert: assertBroken,
  },
  {
    name: 'check -A, stopped',
    inNftables: true,
    args: bundles => ['check', '-A', ...only(bundles), '--from', bundles.stopped, ...json],
    assert: (result, {nodes}) => assertStopped(result, nodes.length),
  },
  {
    name: 'trace SERVICE',
    inNftables: true,
    args: bundles => ['trace', bundles.target.service, ...only(bundles), '--from', bundles.before, ...json],
    assert: assertTrace,
  },
  {
    name: 'packet',
    inNftables: true,
    args: ({before, target: {node, source, clusterIP, port}}) => [
      ...['packet', '--from', before, '--node', node, '--source', source],
      ...['--destination', clusterIP, '--port', String(port), ...json],
    ],
    assert: (result, {target}) => assertPacket(result, target),
  },
  {
    name: 'preview -A',
    args: bundles => ['preview', '-A', '--proxy-mode', 'nftables', ...only(bundles), '--from', bundles.before, ...json],
    assert: (result, {nodes}) => assertPreview(result, nodes.length),
  },
  {
    name: 'diff',
    readsBoth: true,
    args: ({before, after}) => ['diff', before, after, ...json],
    assert: (result, {broken}) => assertDiff(result, broken),
  },
];

const FLOOR = fileURLToPath(new URL('floor.mjs', import.meta.url));
const WRITE_CLUSTER = fileURLToPath(new URL('write-cluster.ts', import.meta.url));

/** What is measured on one cluster. */
export interface Subject {
  readonly size: ClusterSize;
  readonly repeat: number;
  readonly floorOnly: boolean;
}

/** What one command of one program cost. */
export interface Row {
  readonly program: Program['name'] | 'floor';
  readonly command: string;
  readonly median: Cost;
  readonly least: Cost;
  /** How many floors that is. */
  readonly ratio: Cost;
  /** The power of the input's size that it grows with; absent if the cluster is too small to measure it. */
  readonly growth?: {readonly cpu: number; readonly wall: number} | undefined;
}

export interface SubjectResult extends Contents {
  readonly size: ClusterSize;
  readonly rows: readonly Row[];
}

/** Of one bundle: of its API objects and dumps. */
interface Contents {
  readonly bytes: number;
  readonly lines: number;
}

/** A cluster on the disk. */
export interface Cluster extends Contents {
  readonly bundles: WrittenBundles;
}

/** What each thing cost, round by round, by its name. */
type Costs = Map<string, Cost[]>;

/** All commands on one cluster, and on one that is a quarter of it. */
export async function measureSubject({size, repeat, floorOnly}: Subject, temp: string): Promise<SubjectResult> {
  const large = await writeCluster(size, join(temp, 'large'));
  const small = await writeCluster(quarter(size), join(temp, 'small'));
  const ways = floorOnly ? [] : programs();
  const commands = benchedCommands.filter(({inNftables = false}) => inNftables || size.proxyMode !== 'nftables');
  const costs = {large: new Map() as Costs, small: new Map() as Costs, start: new Map() as Costs};
  for (let round = 1; round <= repeat; round++) {
    say(`round ${round} of ${repeat}`);
    await measureRound(large, {ways, commands, costs: costs.large, temp});
    await measureRound(small, {ways, commands, costs: costs.small, temp});
    await measureStart(ways, costs.start, temp);
  }
  for (const name of ['large', 'small']) rmSync(join(temp, name), {recursive: true});
  const rows = [...costs.large].map(([key, ofLarge]) => {
    const [program = '', command = ''] = key.split(': ');
    const units = costs.large.get(floorOf(command)) ?? [];
    const figures = {median: medianCost(ofLarge), least: minCost(ofLarge), ratio: medianRatio(ofLarge, units)};
    const sides = {large, small, costs: {large: figures.median, small: medianCost(costs.small.get(key) ?? [])}};
    return {
      ...{program: program as Row['program'], command, ...figures},
      growth: growth(sides, medianCost(costs.start.get(program) ?? [])),
    };
  });
  return {size, bytes: large.bytes, lines: large.lines, rows};
}

/** As many Services or, where there are many, nodes. */
function quarter(size: ClusterSize): ClusterSize {
  return size.nodes >= 40 ? {...size, nodes: Math.round(size.nodes / 4)} : {...size, services: Math.max(40, Math.round(size.services / 4))};
}

export async function writeCluster(size: ClusterSize, dir: string): Promise<Cluster> {
  say(`writing ${size.services} Services x ${size.endpoints} endpoints, ${size.nodes} ${size.nodes === 1 ? 'node' : 'nodes'}`);
  mkdirSync(dir, {recursive: true});
  succeeded(await measure([process.execPath, WRITE_CLUSTER, dir, JSON.stringify(size)], dir), 'writing the cluster');
  const bundles = JSON.parse(readFileSync(join(dir, 'bundles.json'), 'utf8')) as WrittenBundles;
  const {stdout} = await measureFloor([bundles.before], size.nodes, dir);
  return {bundles, ...(JSON.parse(stdout) as Contents)};
}

export async function measureFloor(dirs: readonly string[], nodes: number, temp: string): Promise<Measured> {
  return succeeded(await measure([process.execPath, FLOOR, String(nodes), ...dirs], temp), 'the floor');
}

function succeeded(measured: Measured, what: string): Measured {
  if (measured.exitCode !== 0) throw new Error(`${what} ended with exit code ${measured.exitCode}`);
  return measured;
}

interface Round {
  readonly ways: readonly Program[];
  readonly commands: readonly BenchedCommand[];
  readonly costs: Costs;
  readonly temp: string;
}

/** The floors and all commands by turns, so that a machine that slows down slows them all. */
async function measureRound({bundles}: Cluster, {ways, commands, costs, temp}: Round): Promise<void> {
  for (const [name, dirs] of [[one, [bundles.before]] as const, [two, [bundles.before, bundles.after]] as const])
    if (name === one || (ways.length > 0 && commands.some(({readsBoth}) => readsBoth)))
      note(costs, `floor: ${name}`, await measureFloor(dirs, bundles.nodes.length, temp));
  for (const command of commands)
    for (const {name, command: program} of ways) {
      const measured = await measure([...program, ...command.args(bundles)], temp);
      command.assert(measured, bundles);
      note(costs, `${name}: ${command.name}`, measured);
    }
}

const one = 'of one bundle';
const two = 'of two';

/** The floor that a command is compared with, by the name of the command. */
function floorOf(name: string): string {
  const command: BenchedCommand | undefined = benchedCommands.find(candidate => candidate.name === name);
  return `floor: ${command === undefined ? name : command.readsBoth ? two : one}`;
}

async function measureStart(ways: readonly Program[], costs: Costs, temp: string): Promise<void> {
  note(costs, 'floor', succeeded(await measure([process.execPath, '-e', '0'], temp), 'node'));
  for (const {name, command} of ways) note(costs, name, succeeded(await measure([...command, '--version'], temp), '--version'));
}

function note(costs: Costs, key: string, {cpuSeconds, wallSeconds, peakMebibytes}: Cost): void {
  costs.set(key, [...(costs.get(key) ?? []), {cpuSeconds, wallSeconds, peakMebibytes}]);
}

interface Sides {
  readonly large: Contents;
  readonly small: Contents;
  readonly costs: {readonly large: Cost; readonly small: Cost};
}

function growth({large, small, costs}: Sides, startup: Cost): Row['growth'] {
  // A cost that is hardly more than that of starting shows nothing.
  if (costs.large.cpuSeconds - startup.cpuSeconds < 0.2) return undefined;
  const of = (figure: 'cpuSeconds' | 'wallSeconds') =>
    growthExponent({bytes: large.bytes, seconds: costs.large[figure]}, {bytes: small.bytes, seconds: costs.small[figure]}, startup[figure]);
  return {cpu: of('cpuSeconds'), wall: of('wallSeconds')};
}
