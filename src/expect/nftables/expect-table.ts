import {type Cidr, type Family, hostCidr, parseCidr} from '../../model/address.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import {nodeTopology, type PortsInput, portsOnNode} from '../cluster/served-port.ts';
import {expandNodePortAddresses, type Hypothesis, isLoopback, type NodeContext, nodeContext, nodeIP} from '../node-context.ts';
import {ExpectedTable} from './expected-table.ts';
import {portNames} from './nft-names.ts';
import {defaultNodePortAddresses, nftDropsInvalid, handlesLocalhostNodePorts} from './nft-versions.ts';

interface ExpectTableInput extends PortsInput {
  /**
   * Used only for what the API does not determine: which of two Services that claim one address has it, and the node's addresses if the
   * Node was not read.
   */
  readonly table: NftTable | null;
  /** See `NodeContext.serviceRanges`. */
  readonly serviceRanges?: readonly string[] | undefined;
}

/** What kube-proxy should have written in one family on one node in nftables mode. */
export function expectTable(input: ExpectTableInput, hypothesis: Hypothesis = {}): ExpectedTable {
  const {config, facts, family, table, serviceRanges} = input;
  const seen = table?.sets.get('nodeport-ips');
  const plain = nftContext(family, config, facts, seen === undefined ? null : [...seen.elements.keys()]);
  const {detector = plain.detector, masqueradeAll = plain.masqueradeAll} = hypothesis;
  const topology = nodeTopology(input, hypothesis);
  const isLocal = (nodeName: string | null): boolean => nodeName === topology.nodeName;
  const ports = portsOnNode(input, topology, hypothesis.picks).map(item => {
    const names = portNames(item.port);
    return {...item, names, clientList: names.affinity, isLocal};
  });
  const context = {...plain, detector, masqueradeAll, serviceRanges};
  return new ExpectedTable({context, ports, actualValue: (set, key) => table?.sets.get(set)?.elements.get(key)?.value});
}

/**
 * Everything that one family's nftables rules on one node depend on. `seen` are the addresses of node ports in its table, null without such
 * a set.
 */
export function nftContext(family: Family, config: ProxyConfig, facts: NodeFacts, seenAddresses: readonly string[] | null): NodeContext {
  return {
    ...nodeContext(family, config, facts, {nfacct: false, clearsMark: true, dropsInvalid: null}),
    nodePortCIDRs: nodePortCIDRs(family, config, {facts, addresses: seenAddresses}),
    // In this mode no rule serves node ports on loopback addresses.
    localhostNodePorts: false,
    excludesLoopback: true,
    ...localhostHandling(family, config, facts),
    mark: `0x${(2 ** config.masqueradeBit.value).toString(16).padStart(8, '0')}`,
    invalidDrop: nftDropsInvalid(config.version.value) && !config.tcpBeLiberal.value,
    nodeIP: nodeIP(family, config, facts),
  };
}

interface SeenAddresses {
  readonly facts: NodeFacts;
  readonly addresses: readonly string[] | null;
}

/** A family without a CIDR of its own uses all addresses. Follows `platformApplyDefaults` and `NewNodePortAddresses`. */
function nodePortCIDRs(family: Family, config: ProxyConfig, {facts, addresses}: SeenAddresses): readonly string[] | null {
  const given = config.nodePortAddresses.value;
  const byDefault = given.length === 0 ? defaultNodePortAddresses(config.version.value) : null;
  const own = nodeIP(family, config, facts);
  const isOwn = byDefault === 'primary' || byDefault === 'node-ip' || given.includes('primary');
  // If the Node was not read, the set on the node contains the addresses that its kube-proxy used.
  if (isOwn && facts.hostIPs.length === 0 && isLoopback(own)) return addresses?.map(address => hostCidr(address, family)) ?? null;
  if (byDefault === 'node-ip') return [hostCidr(own, family)];
  const cidrs = cidrsOf(family, config, facts);
  return cidrs.length === 0 || cidrs.some(({prefix}) => prefix === 0) ? null : cidrs.map(({text}) => text);
}

/** The CIDRs of a family in `nodePortAddresses` or its default. */
function cidrsOf(family: Family, config: ProxyConfig, facts: NodeFacts): readonly Cidr[] {
  const version = config.version.value;
  const isDefault = config.nodePortAddresses.value.length === 0 && defaultNodePortAddresses(version) === 'primary';
  const given = isDefault ? ['primary'] : config.nodePortAddresses.value;
  const expanded = expandNodePortAddresses(given, version, of => nodeIP(of, config, facts));
  return expanded.flatMap(text => parseCidr(text) ?? []).filter(cidr => cidr.family === family);
}

/** kube-proxy listens only for an entry that is a loopback network itself, not for one that contains loopback addresses. */
function localhostHandling(family: Family, config: ProxyConfig, facts: NodeFacts): Pick<NodeContext, 'listensOnLocalhost'> {
  if (!handlesLocalhostNodePorts(config.version.value, config.featureGates.value)) return {};
  return {listensOnLocalhost: cidrsOf(family, config, facts).some(({text}) => isLoopback(text.replace(/\/.*$/, '')))};
}
