import {ClusterView} from '../src/expect/cluster/cluster-view.ts';
import {expectRuleset} from '../src/expect/iptables/expect-ruleset.ts';
import type {ExpectedRuleset} from '../src/expect/iptables/expected-ruleset.ts';
import type {EndpointSliceObject, ServiceObject} from '../src/model/api-objects.ts';
import type {Family} from '../src/model/address.ts';
import {noNetworkFacts, type NodeFacts} from '../src/model/node/node-facts.ts';
import type {KubeProxyVersion, ProxyConfig, ProxyVersion} from '../src/model/proxy-config.ts';
import type {ApiObjects} from '../src/model/snapshot.ts';
import {parseDumps} from '../src/parse/iptables/iptables-save.ts';
import {apiObjects} from './cluster.ts';

/** The settings of a kube-proxy without their sources. */
export type PlainConfig = {readonly [Name in keyof ProxyConfig]: ProxyConfig[Name]['value']};

/** A kube-proxy on node-a. What is not given is as in most clusters. */
export interface Setup {
  /** `1.36`, or `1.36.2` where the patch matters. */
  readonly version?: string;
  readonly family?: Family;
  readonly services?: readonly ServiceObject[];
  readonly slices?: readonly EndpointSliceObject[];
  readonly api?: Partial<ApiObjects>;
  readonly config?: Partial<PlainConfig> | undefined;
  readonly facts?: Partial<NodeFacts> | undefined;
  /** The kernel of the node counts with nfacct. */
  readonly nfacct?: boolean;
}

const podNetwork = '10.244.0.0/16';

/** node-a: the node under test. */
export const nodeA: NodeFacts = {
  name: 'node-a',
  addresses: ['127.0.0.1', '::1', '192.168.1.10', '10.9.9.9', 'fd00:192::10'],
  allAddresses: true,
  hostIPs: ['192.168.1.10', 'fd00:192::10'],
  podCIDRs: ['10.244.1.0/24', 'fd00:10:1::/64'],
  zone: 'zone-1',
  labels: {},
  primaryInterface: 'eth0',
  network: noNetworkFacts,
};

export function version(text: string): KubeProxyVersion {
  const [, minor = '0', patch] = text.split('.');
  return {text: `v${text}`, minor: Number(minor), patch: patch === undefined ? null : Number(patch)};
}

export function proxyVersion(text: string, gates: Readonly<Record<string, boolean>> = {}): ProxyVersion {
  return {version: version(text), gates};
}

export function proxyConfig(plain: Partial<PlainConfig> = {}): ProxyConfig {
  const values: PlainConfig = {
    version: version('1.36.2'),
    mode: 'iptables',
    clusterCIDRs: [podNetwork, 'fd00:10::/32'],
    detectLocalMode: 'ClusterCIDR',
    bridgeInterface: '',
    interfaceNamePrefix: '',
    masqueradeAll: false,
    masqueradeBit: 14,
    localhostNodePorts: true,
    nodePortAddresses: [],
    bindAddress: '0.0.0.0',
    nodeName: 'node-a',
    tcpBeLiberal: false,
    featureGates: {},
    ipvsScheduler: '',
    ipvsStrictARP: false,
    ipvsExcludeCIDRs: [],
    zone: 'zone-1',
    ...plain,
  };
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, {value, source: 'test'}])) as unknown as ProxyConfig;
}

/** What kube-proxy should have written on node-a. */
export function expectedOf(setup: Setup): ExpectedRuleset {
  const family = setup.family ?? 'IPv4';
  const config = proxyConfig({...(setup.version === undefined ? {} : {version: version(setup.version)}), ...setup.config});
  const api = apiObjects({services: setup.services ?? [], endpointSlices: setup.slices ?? [], ...setup.api});
  const [seen = null] = parseDumps(setup.nfacct ? nfacctDump : '', family);
  return expectRuleset({view: new ClusterView(api), config, facts: {...nodeA, ...setup.facts}, family, ruleset: seen});
}

const nfacctDump = `*filter
:KUBE-FORWARD - [0:0]
-A KUBE-FORWARD -m conntrack --ctstate INVALID -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j DROP
COMMIT
`;

/** The rules of a chain such as `nat/KUBE-SERVICES`, each without its `-A CHAIN `; null when there is no such chain. */
export function rulesIn(expected: ExpectedRuleset, place: string): readonly string[] | null {
  const [table = '', name = ''] = place.split('/');
  const chain = expected.chain(table, name);
  if (chain === undefined) return null;
  return chain.text() === ''
    ? []
    : chain
        .text()
        .split('\n')
        .map(line => withoutChain(line, name));
}

/**
 * All rules of the Services, chain by chain, without the base rules. The chains of a Service are called by what they are,
 * `SVC` or `EXT`, and those of endpoints by where they lead: `SEP 10.244.1.5:8080`. With several Service ports their names
 * stand behind: `SVC shop/web:http`.
 */
export function serviceRules(expected: ExpectedRuleset): Readonly<Record<string, readonly string[]>> {
  const rules: Record<string, string[]> = {};
  const names = new Map<string, string>();
  const several = expected.ports.length > 1;
  const add = (place: string, text: string): void => {
    rules[place] ??= [];
    rules[place].push(text);
  };
  const all = expected.ports.map(item => ({item, rules: expected.rulesOf(item)}));
  for (const {item, rules: own} of all) {
    const suffix = several ? ` ${item.port.servicePortName}` : '';
    for (const [name, text] of own.own) {
      const destination = / -j DNAT --to-destination (\S+)$/.exec(text)?.[1];
      const role = name.split('-')[1] ?? '';
      names.set(name, destination === undefined ? `${role}${suffix}` : `SEP ${destination}${suffix}`);
    }
    for (const role of ['SVC', 'SVL', 'EXT', 'FW', 'XLB']) names.set(`KUBE-${role}-${item.port.hash}`, `${role}${suffix}`);
  }
  const readable = (text: string): string => text.replace(/KUBE-[A-Z]{2,3}-[A-Z2-7]{16}/g, name => names.get(name) ?? name);
  for (const {rules: own} of all) {
    for (const {table, chain, text} of own.shared) add(`${table}/${chain}`, readable(text));
    for (const [name, text] of own.own) for (const line of text.split('\n')) add(readable(name), readable(withoutChain(line, name)));
  }
  return rules;
}

function withoutChain(line: string, chain: string): string {
  return line === `-A ${chain}` ? '' : line.slice(`-A ${chain} `.length);
}
