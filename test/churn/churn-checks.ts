import {diagnose as diagnoseSnapshot} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {Family} from '../../src/model/address.ts';
import type {ApiObjects, NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import type {NodeLag} from '../../src/model/state-history.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {Churn} from './churn.ts';
import {nodeDump} from '../cluster.ts';
import {expectedTable} from '../nft-expectation.ts';
import {withRules} from '../rendered-dump.ts';
import {type RenderedIpvs, renderedIpvs} from '../rendered-ipvs.ts';
import {nftText} from '../rendered-nft.ts';

export interface ChurnCheck {
  /** What was found of rules that a late kube-proxy wrote: nothing is wrong with them. */
  readonly findings: readonly Finding[];
  readonly lag: NodeLag | undefined;
  /** How late its slowest stream was, in seconds. */
  readonly late: number;
  /** One rule of it is removed, and what is found then. */
  readonly broken: {readonly removed: string; readonly findings: readonly Finding[]} | null;
}

/** How the kube-proxy of the node writes its rules, and how these come to be a dump. */
export interface ChurnedMode {
  readonly mode: 'iptables' | 'nftables' | 'ipvs';
  /** What kube-proxy writes by these API objects in one family. */
  readonly write: (api: ApiObjects, family: Family, random: Random) => string;
  /** A rule or element without which some packets are misrouted in every state, of those that were written; null if there is none. */
  readonly entryOf: (written: string, random: Random) => string | null;
  /** The files of the node that hold what was written. */
  readonly files: (written: Readonly<Record<Family, string>>) => Readonly<Record<string, string>>;
}

export const iptablesMode: ChurnedMode = {
  mode: 'iptables',
  write: (api, family, random) => {
    const [dumped] = withRules({origin: '', api, problems: [], nodes: [nodeIn('iptables')]}, random).nodes;
    return dumped?.read(family === 'IPv4' ? 'iptables-save' : 'ip6tables-save')?.toString() ?? '';
  },
  entryOf: (written, random) =>
    oneOf(
      written.match(/^-A KUBE-SEP-\S+ .*-j DNAT .*\n|^-A KUBE-SERVICES .*-j KUBE-SV[CL]-\S+\n|^-A KUBE-NODEPORTS .*-j KUBE-EXT-\S+\n/gm),
      random,
    ),
  files: ({IPv4, IPv6}) => ({'iptables-save': IPv4, 'ip6tables-save': IPv6}),
};

export const nftablesMode: ChurnedMode = {
  mode: 'nftables',
  write: (api, family) => nftText(expectedTable({api, node: nodeIn('nftables'), family})),
  entryOf: (written, random) => {
    const elements = /map service-(?:ips|nodeports) \{[^}]*elements = \{ (.*) \}\n/.exec(written)?.[1]?.split(', ') ?? [];
    const rules = written.match(/^\t\tmeta l4proto tcp dnat ip6? to .*\n/gm) ?? [];
    // An only element takes its line with it.
    const removable = elements.map((text, index) =>
      index + 1 < elements.length ? `${text}, ` : index > 0 ? `, ${text}` : `\t\telements = { ${text} }\n`,
    );
    return oneOf([...removable, ...rules], random);
  },
  files: ({IPv4, IPv6}) => ({'nft.txt': `${IPv4}${IPv6}`}),
};

export const ipvsMode: ChurnedMode = {
  mode: 'ipvs',
  write: (api, family, random) => {
    const {bound, ...texts} = renderedIpvs(api, family, {node: nodeIn('ipvs'), random});
    return JSON.stringify({...texts, bound});
  },
  // A Service has its address in every state; without a real server the node would have the state in which its endpoint is not ready. The
  // address of a Service without endpoints serves nobody.
  entryOf: (written, random) => {
    const {bound, servers} = JSON.parse(written) as RenderedIpvs;
    const serving = bound.filter(address => servers.includes(`\n-a -t ${address}:`));
    const address = oneOf(serving, random);
    if (address === null || bound.length === 1) return address === null ? null : `"${address}"`;
    return bound.at(-1) === address ? `,"${address}"` : `"${address}",`;
  },
  files: written => {
    const [four, six] = [JSON.parse(written.IPv4) as RenderedIpvs, JSON.parse(written.IPv6) as RenderedIpvs];
    const addresses = [...four.bound, ...six.bound].map(local => ({
      family: local.includes(':') ? 'inet6' : 'inet',
      local,
      scope: 'global',
    }));
    return {
      ...{'ipvsadm-save': four.servers + six.servers, 'ipset-save': four.sets + six.sets},
      ...{'iptables-save': four.rules, 'ip6tables-save': six.rules},
      'kube-ipvs0.json': JSON.stringify([{ifname: 'kube-ipvs0', flags: ['BROADCAST', 'NOARP'], addr_info: addresses}]),
    };
  },
};

/** A check of a node whose kube-proxy is late by up to so many milliseconds, in each stream and each family by another time. */
export function checkUnderChurn(seed: number, maxDelay: number, churned = iptablesMode): ChurnCheck {
  const random = seededRandom(seed);
  const churn = new Churn(random, {seconds: 60, services: 6});
  const readAt = 30_000 + random.below(25_000);
  const delays = {services: random.below(maxDelay), slices: random.below(maxDelay), other: random.below(maxDelay)};
  const four = churn.stateAt({services: readAt - delays.services, slices: readAt - delays.slices});
  const six = churn.stateAt({services: readAt - delays.other, slices: readAt - delays.services});
  const written = {IPv4: churned.write(four, 'IPv4', random), IPv6: churned.write(six, 'IPv6', random)};
  const check = (texts: typeof written) => diagnose(snapshotOf(churn, {mode: churned.mode, texts: churned.files(texts), readAt}));
  const {lag, findings} = check(written);
  const removed = churned.entryOf(written.IPv4, random);
  return {
    ...{findings, lag, late: Math.max(...Object.values(delays)) / 1000},
    broken: removed === null ? null : {removed, findings: check({...written, IPv4: written.IPv4.replace(removed, '')}).findings},
  };
}

function filesIn(mode: ChurnedMode['mode']): Readonly<Record<string, string>> {
  return {
    ...{'kube-proxy-version': 'Kubernetes v1.36.2\n', 'proxy-mode': mode},
    'kube-proxy-config.yaml': `mode: ${mode}\nclusterCIDR: 10.244.0.0/16\n`,
  };
}

function nodeIn(mode: ChurnedMode['mode']): NodeDump {
  return nodeDump('node-a', filesIn(mode));
}

interface ReadNode {
  readonly mode: ChurnedMode['mode'];
  readonly texts: Readonly<Record<string, string>>;
  readonly readAt: number;
}

/** What a capture of the node would hold. */
function snapshotOf(churn: Churn, {mode, texts, readAt}: ReadNode): Snapshot {
  // The API as it is when the dump is evaluated, half a second after it was read.
  const now = readAt + 800;
  const changes = churn.changes({from: 10_000, to: now});
  return {
    ...{origin: 'churn', api: churn.stateAt({services: now, slices: now}), problems: []},
    nodes: [nodeDump('node-a', {...filesIn(mode), ...texts})],
    history: {since: 10_000, changes, nodes: {'node-a': {from: readAt, to: readAt + 300}}},
  };
}

/** A snapshot under churn, and the findings of it. */
export function snapshotUnderChurn(seed: number): Snapshot {
  const random = seededRandom(seed);
  const churn = new Churn(random, {seconds: 60, services: 6});
  const api = churn.stateAt({services: 37_000, slices: 35_000});
  const written = {IPv4: iptablesMode.write(api, 'IPv4', random), IPv6: iptablesMode.write(api, 'IPv6', random)};
  return snapshotOf(churn, {mode: 'iptables', texts: iptablesMode.files(written), readAt: 40_000});
}

function diagnose(snapshot: Snapshot) {
  const report = diagnoseSnapshot(snapshot, {toolVersion: '0.0.0', nodesOnly: true, nodes: name => name === 'node-a'});
  return {lag: report.nodes[0]?.lag, findings: report.findings.filter(({severity}) => severity !== 'info')};
}

function oneOf(texts: readonly string[] | null, random: Random): string | null {
  return texts?.[random.below(Math.max(1, texts.length))] ?? null;
}
