import {diagnose as diagnoseSnapshot} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import type {NodeLag} from '../../src/model/state-history.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {Churn} from './churn.ts';
import {nodeDump} from '../cluster.ts';
import {withRules} from '../rendered-dump.ts';

export interface ChurnCheck {
  /** What was found of rules that a late kube-proxy wrote: nothing is wrong with them. */
  readonly findings: readonly Finding[];
  readonly lag: NodeLag | undefined;
  /** How late its slowest stream was, in seconds. */
  readonly late: number;
  /** One rule of it is removed, and what is found then. */
  readonly broken: {readonly removed: string; readonly findings: readonly Finding[]} | null;
}

/** A check of a node whose kube-proxy is late by up to so many milliseconds, in each stream and each family by another time. */
export function checkUnderChurn(seed: number, maxDelay: number): ChurnCheck {
  const random = seededRandom(seed);
  const churn = new Churn(random, {seconds: 60, services: 6});
  const readAt = 30_000 + random.below(25_000);
  const delays = {services: random.below(maxDelay), slices: random.below(maxDelay), other: random.below(maxDelay)};
  const four = churn.stateAt({services: readAt - delays.services, slices: readAt - delays.slices});
  const six = churn.stateAt({services: readAt - delays.other, slices: readAt - delays.services});
  const dumps = ([four, six] as const).map(api => withRules({origin: '', api, problems: [], nodes: [node]}, random).nodes[0]);
  const texts = {
    'iptables-save': dumps[0]?.read('iptables-save')?.toString() ?? '',
    'ip6tables-save': dumps[1]?.read('ip6tables-save')?.toString() ?? '',
  };
  const {lag, findings} = diagnose(snapshotOf(churn, texts, readAt));
  const removed = entryOf(texts['iptables-save'], random);
  const without = removed === null ? null : {...texts, 'iptables-save': texts['iptables-save'].replace(`${removed}\n`, '')};
  return {
    ...{findings, lag, late: Math.max(...Object.values(delays)) / 1000},
    broken: removed === null || without === null ? null : {removed, findings: diagnose(snapshotOf(churn, without, readAt)).findings},
  };
}

const files = {
  'kube-proxy-version': 'Kubernetes v1.36.2\n',
  'proxy-mode': 'iptables',
  'kube-proxy-config.yaml': 'mode: iptables\nclusterCIDR: 10.244.0.0/16\n',
};
const node: NodeDump = nodeDump('node-a', files);

/** What a capture of the node would hold. */
function snapshotOf(churn: Churn, texts: Readonly<Record<string, string>>, readAt: number): Snapshot {
  // The API as it is when the dump is evaluated, half a second after it was read.
  const now = readAt + 800;
  const changes = churn.changes({from: 10_000, to: now});
  return {
    ...{origin: 'churn', api: churn.stateAt({services: now, slices: now}), problems: []},
    nodes: [nodeDump('node-a', {...files, ...texts})],
    history: {since: 10_000, changes, nodes: {'node-a': {from: readAt, to: readAt + 300}}},
  };
}

/** A snapshot under churn, and the findings of it. */
export function snapshotUnderChurn(seed: number): Snapshot {
  const random = seededRandom(seed);
  const churn = new Churn(random, {seconds: 60, services: 6});
  const api = churn.stateAt({services: 37_000, slices: 35_000});
  const dump = withRules({origin: '', api, problems: [], nodes: [node]}, random).nodes[0];
  const textOf = (file: string) => dump?.read(file)?.toString() ?? '';
  return snapshotOf(churn, {'iptables-save': textOf('iptables-save'), 'ip6tables-save': textOf('ip6tables-save')}, 40_000);
}

function diagnose(snapshot: Snapshot) {
  const report = diagnoseSnapshot(snapshot, {toolVersion: '0.0.0', nodesOnly: true, nodes: name => name === 'node-a'});
  return {lag: report.nodes[0]?.lag, findings: report.findings.filter(({severity}) => severity !== 'info')};
}

/** A rule without which some packets go astray, whatever the state: an entry, or what rewrites the address of an endpoint. */
function entryOf(dump: string, random: Random): string | null {
  const lines = dump
    .split('\n')
    .filter(line => /^-A KUBE-SEP-\S+ .*-j DNAT |^-A KUBE-SERVICES .*-j KUBE-SV[CL]-|^-A KUBE-NODEPORTS .*-j KUBE-EXT-/.test(line));
  return lines[random.below(Math.max(1, lines.length))] ?? null;
}
