import process from 'node:process';
import {capturePath} from '../fixtures.ts';
import {isMet, kubectl} from '../require.ts';
import type {Asked, LiveBundleReady} from './live-bundle.ts';
import {type Cost, measure} from './measure.ts';
import {programs} from './programs.ts';
import {assertClean} from './right-report.ts';
import {say} from './say.ts';
import {type ServerProcess, startServer} from './server-process.ts';
import {minCost, medianCost} from './statistics.ts';

const bundle = capturePath('faults/missing-endpoint');

/** What one command line costs. */
export interface StartUp {
  readonly name: string;
  readonly median: Cost;
  readonly least: Cost;
  /** What it asked of the API server; absent where it asks none. */
  readonly asked?: Asked | undefined;
}

interface CommandLine {
  readonly name: string;
  readonly command: readonly string[];
  /** What it asks the server for: null where none is asked. */
  readonly server: ServerProcess<LiveBundleReady> | null;
  /** Throws when it did not come to what it should. */
  readonly assert: (result: {readonly exitCode: number; readonly stdout: string}) => void;
}

/** The cost to start, and to check one Service of a live cluster; measured in turns, so that a machine that slows down affects all of them. */
export async function measureStartUp(rounds: number, temp: string): Promise<readonly StartUp[]> {
  using server = await startServer<LiveBundleReady>('live-bundle.ts', [capturePath('healthy/1.36-iptables')]);
  const lines = [...startingLines(), ...liveLines(server)];
  const costs = lines.map((): Cost[] => []);
  const asked = lines.map((): Asked | undefined => undefined);
  // The first round fills caches, kubectl's of what the API server serves among them, and is not counted.
  for (let round = 0; round <= rounds; round++) {
    say(`start-up, round ${round} of ${rounds}`);
    for (const [index, line] of lines.entries()) {
      const before = await line.server?.ask<Asked>();
      const measured = await measure(line.command, temp);
      line.assert(measured);
      const after = await line.server?.ask<Asked>();
      if (before !== undefined && after !== undefined) asked[index] = difference(after, before);
      if (round > 0) costs[index]?.push(measured);
    }
  }
  return lines.map(({name}, index) => ({
    ...{name, median: medianCost(costs[index] ?? []), least: minCost(costs[index] ?? [])},
    ...(asked[index] === undefined ? {} : {asked: asked[index]}),
  }));
}

function startingLines(): readonly CommandLine[] {
  const commands = [['--version'], ['--help'], ['check', '--help'], ['explain', 'ST202'], ['check', '-A', '--from', bundle]] as const;
  const line = (name: string, command: readonly string[], exitCode = 0): CommandLine => ({
    ...{name, command, server: null},
    assert: result => assertExitCode(name, result.exitCode, exitCode),
  });
  return [
    line('node -e 0', [process.execPath, '-e', '0']),
    ...(!isMet('kubectl') ? [] : [line('kubectl version --client', [kubectl, 'version', '--client'])]),
    ...programs().flatMap(({name, command}) =>
      commands.map(args =>
        line(
          `${name}: ${args.join(' ').replace(bundle, 'BUNDLE')}`,
          [...command, ...args],
          args[0] === 'check' && args[1] === '-A' ? 1 : 0,
        ),
      ),
    ),
  ];
}

/** The same Service by kubectl, which reads one object, and by a check, which also reads its slices and the rules of the nodes. */
function liveLines(server: ServerProcess<LiveBundleReady>): readonly CommandLine[] {
  const connection = ['--kubeconfig', server.ready.kubeconfig];
  const get = (name: string, args: readonly string[]): CommandLine => ({
    ...{name: `kubectl ${name}`, command: [kubectl, ...args, ...connection], server},
    assert: result => assertExitCode(name, result.exitCode, 0),
  });
  const check = (name: string, command: readonly string[], nodes: readonly string[]): CommandLine => ({
    name: `${name}: check shop/web, ${nodes.length === 0 ? 'three nodes' : '--node node-a'}`,
    command: [...command, 'check', 'shop/web', ...nodes.flatMap(node => ['--node', node]), '-o', 'json', ...connection],
    server,
    assert: result => assertClean(result, nodes.length || 3),
  });
  return [
    ...(!isMet('kubectl')
      ? []
      : [
          get('get --raw /version', ['get', '--raw', '/version']),
          get('get service web -o json', ['get', 'service', 'web', '-n', 'shop', '-o', 'json']),
        ]),
    ...programs().flatMap(({name, command}) => [check(name, command, ['node-a']), check(name, command, [])]),
  ];
}

function assertExitCode(what: string, exitCode: number, expected: number): void {
  if (exitCode !== expected) throw new Error(`${what} ended with exit code ${exitCode}`);
}

function difference(after: Asked, before: Asked): Asked {
  return {
    requests: after.requests - before.requests,
    sessions: after.sessions - before.sessions,
    connections: after.connections - before.connections,
    received: after.received - before.received,
    sent: after.sent - before.sent,
  };
}

/** In units of what starting Node.js and kubectl costs, and of what kubectl takes to get one Service. */
export function startUpTable(results: readonly StartUp[]): string {
  const [node] = results;
  const version = results.find(({name}) => name === 'kubectl version --client');
  const get = results.find(({name}) => name === 'kubectl get service web -o json');
  const [local, live] = [results.filter(({asked}) => asked === undefined), results.filter(({asked}) => asked !== undefined)];
  const row = ({name, median, least, asked}: StartUp): string => {
    const units =
      asked === undefined
        ? [ratio(median.cpuSeconds, node?.median.cpuSeconds), ratio(median.cpuSeconds, version?.median.cpuSeconds)]
        : [ratio(median.cpuSeconds, get?.median.cpuSeconds), ratio(median.wallSeconds, get?.median.wallSeconds)];
    const times = [median.cpuSeconds, least.cpuSeconds, median.wallSeconds].map(seconds => (seconds * 1000).toFixed(0));
    const traffic =
      asked === undefined
        ? []
        : [asked.requests, asked.sessions, asked.connections, (asked.received / 1000).toFixed(1), (asked.sent / 1000).toFixed(1)].map(
            String,
          );
    return line(name, [...times, ...units, ...traffic]);
  };
  return [
    line('', ['CPU ms', 'least', 'wall ms', '/ node', '/ kubectl']),
    ...local.map(row),
    ...(live.length === 0
      ? []
      : [
          '',
          line('one Service of a live cluster', [
            'CPU ms',
            'least',
            'wall ms',
            'CPU / get',
            'wall / get',
            'requests',
            'execs',
            'conns',
            'kB to',
            'kB from',
          ]),
        ]),
    ...live.map(row),
  ].join('\n');
}

function ratio(value: number, unit: number | undefined): string {
  return unit === undefined ? '-' : (value / unit).toFixed(2);
}

function line(name: string, figures: readonly string[]): string {
  return `${name.padEnd(44)}${figures.map(figure => figure.padStart(12)).join('')}`.trimEnd();
}
