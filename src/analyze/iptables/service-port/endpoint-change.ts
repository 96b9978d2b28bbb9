import {chainName} from '../../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import {hasExternalChains} from '../../../expect/cluster/proxy-versions.ts';
import type {Endpoint} from '../../../model/endpoint.ts';
import type {ChainsByName, Ruleset} from '../../../model/ruleset.ts';
import type {PortCase} from './port-differences.ts';
import {endpointsByName} from '../../outcomes/probes-to-walk.ts';
import {chainText} from '../chain-texts.ts';

/** A Service port whose own chains on a node are exactly those that kube-proxy writes for other endpoints: the usual state of a kube-proxy that stopped. */
export interface EndpointChange {
  readonly item: PortOnNode;
  /** The chains that kube-proxy should have written, as text by name. */
  readonly own: ReadonlyMap<string, string>;
  /** The same Service port with the endpoints that the node's chains are for, in the order of their rules. */
  readonly written: PortOnNode;
}

/** Null unless the endpoints explain every line of the Service port's chains. Rules in shared chains are not compared here. */
export function endpointChange(
  item: PortOnNode,
  ownTexts: ReadonlyMap<string, string>,
  {expected, actual}: {readonly expected: ExpectedRuleset; readonly actual: Ruleset},
): EndpointChange | null {
  const {port, endpoints} = item;
  const chains = actual.tables.get('nat')?.chains;
  const endpointAt = endpointsByName(endpoints);
  if (chains === undefined || endpointAt === null || !hasExternalChains(expected.context.version)) return null;
  const cluster = endpointsIn(chainName('SVC', port.hash), chains)?.map(endpointAt) ?? [];
  const local = endpointsIn(chainName('SVL', port.hash), chains)?.map(endpointAt);
  if (local === undefined || cluster.length === 0) return null;
  // In 1.24 a chain of the Service port drops packets of external clients if no endpoint is local.
  if (port.externalPolicyLocal && local.length > 0 !== endpoints.local.length > 0) return null;
  const before = new Set(cluster.map(({hostPort}) => hostPort));
  const written = {...item, endpoints: {cluster, local, reachable: cluster, hasAny: true}};
  if (!local.every(({hostPort}) => before.has(hostPort)) || !hasSameOrder(item, written)) return null;
  for (const [name, text] of expected.rulesOf(written).own) if (chainText(chains, name) !== text) return null;
  // A chain that no rule reaches would be compared as well.
  const missing = endpoints.reachable.filter(({hostPort}) => !before.has(hostPort));
  return missing.some(endpoint => chains.has(item.endpointChain(endpoint))) ? null : {item, own: ownTexts, written};
}

/**
 * Whether nothing differs but that rules are missing that pick one of its endpoints, or send packets to it. All clients pass the same rules
 * that are left, so the endpoints that one of them reaches are those of all.
 */
export function lacksEndpointRulesOnly({item, differences, expected, isBesideBroadRules}: PortCase): boolean {
  const {port, endpoints, endpointChain} = item;
  if (isBesideBroadRules || port.internalPolicyLocal || port.externalPolicyLocal) return false;
  if (port.affinitySeconds !== null || !hasExternalChains(expected.context.version)) return false;
  const picking = chainName('SVC', port.hash);
  const own = new Set(endpoints.cluster.map(endpointChain));
  return differences.every(({kind, owner, rule: {table, chain, target: jump}}) => {
    const target = jump?.name ?? '';
    return (
      kind === 'missing' && owner === item && table === 'nat' && (chain === picking ? own.has(target) : own.has(chain) && target === 'DNAT')
    );
  });
}

/** The endpoints that a chain picks from, by `ip:port`, in its order; null if a rule leads elsewhere. */
function endpointsIn(chain: string, chains: ChainsByName): readonly string[] | null {
  const targets = new Set<string>();
  for (const line of (chainText(chains, chain) ?? '').split('\n')) {
    const target = lastWordAfter(' -j KUBE-SEP-', line);
    if (target !== null) targets.add(`KUBE-SEP-${target}`);
  }
  const found: string[] = [];
  for (const target of targets) {
    const hostPort = lastWordAfter(' --to-destination ', chainText(chains, target) ?? '');
    if (hostPort === null) return null;
    found.push(hostPort);
  }
  return found;
}

/** The last word of a text, if this is before it. */
function lastWordAfter(before: string, text: string): string | null {
  const at = text.lastIndexOf(before);
  const word = text.slice(at + before.length);
  return at < 0 || word === '' || /\s/.test(word) ? null : word;
}

/** Whether the endpoints of both sides have the same order, and the same of them are local: then no rule of theirs moved. */
function hasSameOrder({endpoints}: PortOnNode, written: PortOnNode): boolean {
  const common = (list: readonly Endpoint[], others: readonly Endpoint[]): string => {
    const names = new Set(others.map(({hostPort}) => hostPort));
    return list.flatMap(({hostPort}) => (names.has(hostPort) ? [hostPort] : [])).join();
  };
  const {cluster, local} = written.endpoints;
  return (
    endpoints.reachable.length === endpoints.cluster.length &&
    common(endpoints.cluster, cluster) === common(cluster, endpoints.cluster) &&
    common(endpoints.local, cluster) === common(local, endpoints.cluster)
  );
}
