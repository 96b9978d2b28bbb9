import {spawnSync} from 'node:child_process';
import {rmSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {isMet, kubectl} from '../require.ts';
import type {ClusterSize} from './cluster-size.ts';
import type {LiveBundleReady} from './live-bundle.ts';
import {type Cost, measure} from './measure.ts';
import {programs} from './programs.ts';
import {assertClean} from './right-report.ts';
import {say} from './say.ts';
import {startServer} from './server-process.ts';
import {medianCost, minCost} from './statistics.ts';
import {writeCluster} from './subject.ts';
import type {Target} from './written-bundles.ts';

/** What one command costs where iptables of the node has this backend. */
interface OneServiceRow {
  readonly backend: string;
  readonly name: string;
  readonly median: Cost;
  readonly least: Cost;
  /** Units of `kubectl exec` of iptables-save, of wall time; NaN where there is no kubectl. */
  readonly timesExec: number;
}

export interface OneService {
  readonly size: ClusterSize;
  readonly rows: readonly OneServiceRow[];
}

interface CommandLine {
  readonly name: string;
  readonly command: readonly string[];
  readonly isCheck: boolean;
}

/**
 * A check of one Service of a live node whose rules are in the kernel, beside `kubectl exec` of iptables-save: the wall time of both
 * contains what the programs of the node take. Backends that this machine lacks are left out, and both where it allows no network namespace.
 */
export async function measureOneService(size: ClusterSize, rounds: number, temp: string): Promise<OneService> {
  const dir = join(temp, 'one-service');
  const {bundles} = await writeCluster(size, dir);
  const rows: OneServiceRow[] = [];
  for (const backend of ['nft', 'legacy']) {
    if (!isThere(backend)) continue;
    say(`loading the rules, ${backend} backend`);
    using server = await startServer<LiveBundleReady>('kernel-bundle.ts', [bundles.before, backend]);
    rows.push(...(await inTurns(backend, commandLines(bundles.target, server.ready.kubeconfig), rounds, temp)));
  }
  rmSync(dir, {recursive: true});
  return {size, rows};
}

function isThere(backend: string): boolean {
  const env = {...process.env, PATH: `${process.env['PATH']}:/usr/sbin:/sbin`};
  return spawnSync('unshare', ['--net', `iptables-${backend}-restore`, '--version'], {env}).status === 0;
}

function commandLines({node, service}: Target, kubeconfig: string): readonly CommandLine[] {
  const connection = ['--kubeconfig', kubeconfig];
  const exec = [kubectl, 'exec', '-n', 'kube-system', `kube-proxy-${node}`, ...connection, '--', 'iptables-save'];
  const check = ['check', service, '--node', node, '-o', 'json', ...connection];
  return [
    ...(!isMet('kubectl') ? [] : [{name: 'kubectl exec iptables-save', command: exec, isCheck: false}]),
    ...programs().flatMap(({name, command}) => [
      {name: `${name}: check SERVICE`, command: [...command, ...check], isCheck: true},
      {name: `${name}: check SERVICE, --full`, command: [...command, ...check, '--full'], isCheck: true},
    ]),
  ];
}

async function inTurns(backend: string, lines: readonly CommandLine[], rounds: number, temp: string): Promise<readonly OneServiceRow[]> {
  const costs = lines.map((): Cost[] => []);
  // The first round fills caches and is not counted.
  for (let round = 0; round <= rounds; round++) {
    say(`one Service, ${backend} backend, round ${round} of ${rounds}`);
    for (const [index, {name, command, isCheck}] of lines.entries()) {
      const measured = await measure(command, temp);
      if (isCheck) assertClean(measured, 1);
      else if (measured.exitCode !== 0) throw new Error(`${name} ended with exit code ${measured.exitCode}`);
      if (round > 0) costs[index]?.push(measured);
    }
  }
  const exec = lines.findIndex(({isCheck}) => !isCheck);
  const unit = exec === -1 ? Number.NaN : medianCost(costs[exec] ?? []).wallSeconds;
  return lines.map(({name}, index) => {
    const median = medianCost(costs[index] ?? []);
    return {...{backend, name, median}, least: minCost(costs[index] ?? []), timesExec: median.wallSeconds / unit};
  });
}

export function oneServiceTable({size, rows}: OneService): string {
  const line = (name: string, figures: readonly string[]) => `  ${name.padEnd(44)}${figures.map(figure => figure.padStart(9)).join('')}`;
  return [
    `one Service, live, of ${size.services} Services x ${size.endpoints} endpoints, one node with its rules in the kernel`,
    line('', ['CPU s', 'wall s', 'least', 'x exec']),
    ...rows.map(({backend, name, median, least, timesExec}) =>
      line(`${backend}, ${name}`, [
        ...[median.cpuSeconds, median.wallSeconds, least.wallSeconds].map(seconds => seconds.toFixed(2)),
        Number.isNaN(timesExec) ? '-' : timesExec.toFixed(2),
      ]),
    ),
  ].join('\n');
}
