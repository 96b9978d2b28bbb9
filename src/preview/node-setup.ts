import {proxyVersion} from '../expect/cluster/service-ports.ts';
import {readDumps, type Dumps} from '../analyze/iptables/read-dumps.ts';
import {hostFacts, type IpvsState, readIpvsState} from '../analyze/ipvs/ipvs-state.ts';
import {ipsetsOf} from '../analyze/node-input.ts';
import type {IpSet} from '../parse/ipvs/ipset-save.ts';
import {readNft} from '../analyze/nftables/read-nft.ts';
import {resolveNftVersion} from '../analyze/nftables/resolve-nft-version.ts';
import {resolveVersion} from '../analyze/iptables/resolve-version.ts';
import {seenConfig} from '../analyze/seen-config.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import {nodeFacts} from '../expect/node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../expect/proxy-config.ts';
import {families} from '../model/family.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {NodeFacts} from '../model/node-facts.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';

/** One node with everything that determines its kube-proxy's rules. Dumps are parsed on demand, and only once. */
export interface NodeSetup {
  readonly node: NodeDump;
  readonly api: ApiObjects;
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly facts: NodeFacts;
  readonly dumps: Dumps;
  readonly nft: () => NftRuleset | null;
  /** All ipsets of the node. */
  readonly sets: () => ReadonlyMap<string, IpSet>;
  readonly ipvs: () => IpvsState;
  /** The addresses bound to kube-ipvs0. */
  readonly bound: () => readonly string[];
  /** The node without kube-ipvs0. */
  readonly hostFacts: () => NodeFacts;
}

interface NodeSetupInput {
  readonly node: NodeDump;
  readonly api: ApiObjects;
  readonly view: ClusterView;
  readonly overrides: ConfigOverrides;
}

/** The settings of a node's kube-proxy; if there is no other source for them or the version, those that its rules show. */
export function nodeSetup({node, api, view, overrides}: NodeSetupInput): NodeSetup {
  const dumps = readDumps(node);
  const nft = onceAsked(() => readNft(node));
  const ipvs = onceAsked(() => readIpvsState(node));
  const {config: given} = resolveProxyConfig(node, api, overrides, () => seenConfig(dumps.current, nft));
  const facts = nodeFacts(node, api);
  const base = {node, api, view, facts, dumps, nft, ipvs, sets: onceAsked(() => ipsetsOf(node)), bound: () => ipvs().bound ?? []};
  const config = resolvedConfig({...base, config: given});
  const ports = (): readonly Parameters<typeof hostFacts>[2][number][] => {
    const proxy = proxyVersion(config);
    return families.flatMap(family => view.entries(family, proxy)).map(({port}) => port);
  };
  return {...base, config, hostFacts: onceAsked(() => hostFacts(facts, ipvs(), ports(), config.version.value))};
}

function resolvedConfig({
  node,
  api,
  view,
  config,
  facts,
  dumps,
  nft,
}: Omit<NodeSetup, 'hostFacts' | 'ipvs' | 'bound' | 'sets'>): ProxyConfig {
  if (api.services === null) return config;
  const input = {node, api, view, config, facts, dumps, nft, traces: () => false};
  if (config.mode.value === 'iptables' && dumps.current.size > 0) return resolveVersion(input, dumps.current).config;
  const ruleset = config.mode.value === 'nftables' ? nft() : null;
  return ruleset === null ? config : resolveNftVersion(input, ruleset);
}

/** Computed on the first call only. */
function onceAsked<T>(make: () => T): () => T {
  let made: {readonly value: T} | null = null;
  return () => {
    made ??= {value: make()};
    return made.value;
  };
}
