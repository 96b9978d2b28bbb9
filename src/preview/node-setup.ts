import {readDumps} from '../analyze/iptables/node-rulesets.ts';
import {hostFacts, type IpvsState, readIpvsState} from '../analyze/ipvs/ipvs-state.ts';
import {ipsetsOf, type NodeData} from '../analyze/proxy-mode.ts';
import type {IpSet} from '../parse/ipvs/ipset-save.ts';
import {readNft} from '../analyze/nftables/nft-rules.ts';
import {resolveNftVersion} from '../analyze/nftables/resolve-nft-version.ts';
import {resolveVersion} from '../analyze/iptables/resolve-version.ts';
import {onceAsked} from '../model/once.ts';
import {seenConfig} from '../analyze/seen-config.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import {servedInAnyFamily} from '../expect/cluster/served-port.ts';
import {nodeFacts} from '../expect/node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../expect/proxy-config.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';

/** A node whose rules are to be written for other settings. Dumps are parsed once, when they are first asked for. */
export interface NodeSetup extends NodeData {
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
  const {config: given} = resolveProxyConfig(node, api, overrides, () => seenConfig(node, dumps.current, nft));
  const facts = nodeFacts(node, api);
  const base = {node, api, view, facts, dumps, nft, ipvs, sets: onceAsked(() => ipsetsOf(node)), bound: () => ipvs().bound ?? []};
  const config = resolvedConfig({...base, config: given});
  const own = (): NodeFacts => hostFacts(facts, ipvs(), servedInAnyFamily({view, config}), config.version.value);
  return {...base, config, hostFacts: onceAsked(own)};
}

function resolvedConfig(data: NodeData): ProxyConfig {
  const {api, config, dumps, nft} = data;
  if (api.services === null) return config;
  const input = {...data, traces: () => false};
  if (config.mode.value === 'iptables' && dumps.current.size > 0) return resolveVersion(input, dumps.current).config;
  const ruleset = config.mode.value === 'nftables' ? nft() : null;
  return ruleset === null ? config : resolveNftVersion(input, ruleset);
}
