// `npm run bench -- --startup`: what it costs to start, in units of `node -e 0`, beside kubectl. A ratio can be compared between machines.
import {spawnSync} from 'node:child_process';
import {join} from 'node:path';
import process from 'node:process';
import {kubectl} from '../kubectl.ts';
import {programs} from './programs.ts';
import {median} from './statistics.ts';

const root = join(import.meta.dirname, '../..');
const bundle = join(root, 'test/fixtures/captures/faults/missing-endpoint');

/** What each way to run the program is asked to do. */
const commandLines = [['--version'], ['--help'], ['check', '--help'], ['explain', 'ST202'], ['check', '-A', '--from', bundle]] as const;

/** CPU time of user and system, in milliseconds: the median and the least. */
export interface StartUp {
  readonly name: string;
  readonly median: number;
  readonly least: number;
}

/** By turns, so that a machine that slows down slows them all. */
export function measureStartUp(rounds: number): readonly StartUp[] {
  const measured = [
    {name: 'node -e 0', command: [process.execPath, '-e', '0']},
    ...(kubectl === '' ? [] : [{name: 'kubectl version --client', command: [kubectl, 'version', '--client']}]),
    ...programs().flatMap(({name, command}) =>
      commandLines.map(args => ({name: `${name}: ${args.join(' ').replace(bundle, 'BUNDLE')}`, command: [...command, ...args]})),
    ),
  ];
  const costs = measured.map((): number[] => []);
  for (let round = 0; round < rounds; round++) for (const [index, {command}] of measured.entries()) costs[index]?.push(cpuOf(command));
  return measured.map(({name}, index) => ({name, median: median(costs[index] ?? []), least: Math.min(...(costs[index] ?? []))}));
}

export function startUpTable(results: readonly StartUp[]): string {
  const [node] = results;
  const other = results.find(({name}) => name.startsWith('kubectl'));
  const ratio = (value: number, unit: StartUp | undefined) => (unit === undefined ? '-' : (value / unit.median).toFixed(2)).padStart(12);
  const rows = results.map(
    ({name, median: middle, least}) =>
      `${name.padEnd(44)}${middle.toFixed(0).padStart(8)}${least.toFixed(0).padStart(8)}${ratio(middle, node)}${ratio(middle, other)}`,
  );
  const heading = `${''.padEnd(44)}${'CPU ms'.padStart(8)}${'least'.padStart(8)}${'/ node'.padStart(12)}${'/ kubectl'.padStart(12)}`;
  return [heading, ...rows].join('\n');
}

/** The shell counts what its child used, whatever that is. */
function cpuOf(command: readonly string[]): number {
  const script = 'TIMEFORMAT="%3U %3S"; time "$@" > /dev/null 2>&1 < /dev/null';
  const {stderr, error} = spawnSync('bash', ['-c', script, 'bash', ...command], {
    encoding: 'utf8',
    env: {...process.env, NODE_OPTIONS: ''},
  });
  if (error) throw error;
  const [user = Number.NaN, system = Number.NaN] = stderr.trim().split(/\s+/).map(Number);
  return (user + system) * 1000;
}
