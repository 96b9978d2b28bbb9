import type {NftPort} from '../../../expect/nftables/nft-port.ts';
import type {PortObjects} from '../../../expect/nftables/port-objects.ts';
import type {Endpoint} from '../../../model/endpoint.ts';
import type {NftTable} from '../../../model/nft-ruleset.ts';
import {splitHostPort} from '../../../parse/iptables/comparable-rule.ts';
import type {NftPortCase} from '../nft-case.ts';

/**
 * Whether a Service port differs in its endpoints alone: its chains, sets and elements are exactly those that kube-proxy writes for the
 * endpoints that the node picks from, and nothing is left of the others. Then every client that reaches an endpoint at all shows the same
 * missing and stale endpoints. With a Local policy, not all clients get the same endpoints.
 */
export function hasOtherNftEndpointsOnly({item, differences, expected, actual}: NftPortCase): boolean {
  const {port, endpoints} = item;
  const [like] = endpoints.cluster;
  if (like === undefined || endpoints.reachable.length !== endpoints.cluster.length) return false;
  if (port.internalPolicyLocal || port.externalPolicyLocal || !actual.complete) return false;
  // Other elements may be at its addresses, and its own sets may have other attributes.
  if (!differences.every(({owner, what, name}) => owner === item && (what !== 'set' || actual.set(name) === undefined))) return false;
  const known = new Map(endpoints.cluster.map(endpoint => [endpoint.hostPort, endpoint]));
  const cluster = endpointsIn(item.names.service, actual).map(hostPort => known.get(hostPort) ?? withAddress(like, hostPort));
  if (cluster.length === 0) return false;
  const written: NftPort = {...item, endpoints: {cluster, local: [], reachable: cluster, hasAny: true}};
  const does = expected.objectsOf(written);
  return isWritten(does, actual) && !holdsRest(expected.objectsOf(item), does, actual);
}

/** Whether the node has everything of a Service port, chains with exactly these rules. */
function isWritten({chains, sets, elements}: PortObjects, actual: NftTable): boolean {
  return (
    [...chains].every(([name, rules]) => actual.chain(name)?.holds(rules) === true) &&
    sets.every(({name}) => actual.set(name) !== undefined) &&
    elements.every(({set, key, value}) => actual.set(set)?.elements.get(key)?.value === value)
  );
}

/** Whether the node has a chain or set of an endpoint that it does not pick. */
function holdsRest(should: PortObjects, does: PortObjects, actual: NftTable): boolean {
  const writtenSets = new Set(does.sets.map(({name}) => name));
  return (
    [...should.chains.keys()].some(name => !does.chains.has(name) && actual.chain(name) !== undefined) ||
    should.sets.some(({name}) => !writtenSets.has(name) && actual.set(name) !== undefined)
  );
}

/** The endpoints that a chain picks from, by `ip:port`, in the order of the rule that picks; none if there is no such rule. */
function endpointsIn(chain: string, actual: NftTable): readonly string[] {
  const rule = textOf(chain, actual).split('\n').at(-1) ?? '';
  const direct = / dnat to (\S+)$/.exec(rule)?.[1];
  if (direct !== undefined) return [direct];
  const chained = [...rule.matchAll(/\d+ : goto ([^\s,]+)/g)].map(([, target = '']) => target);
  if (chained.length > 0) return chained.map(target => / dnat to (\S+)$/.exec(textOf(target, actual))?.[1] ?? '');
  return [...rule.matchAll(/\d+ : (\S+) \. (\d+)/g)].map(([, address = '', port = '']) =>
    address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`,
  );
}

function textOf(chain: string, actual: NftTable): string {
  return actual.chain(chain)?.text() ?? '';
}

/** On no node: whether it is local matters only for its own connections. */
function withAddress(like: Endpoint, hostPort: string): Endpoint {
  const {address, port} = splitHostPort(hostPort);
  return {...like, address, port: Number(port), hostPort, nodeName: null, chainName: undefined};
}
