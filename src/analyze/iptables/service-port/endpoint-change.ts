import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {Endpoint} from '../../../model/endpoint.ts';
import type {Ruleset} from '../../../model/ruleset.ts';
import {splitHostPort} from '../../../parse/iptables/comparable-rule.ts';
import type {PortCase} from './port-differences.ts';

/**
 * Whether the node's chains of a Service port are exactly what kube-proxy writes for other endpoints, as they are where a kube-proxy has
 * stopped. Then every client that reaches an endpoint at all shows the same missing and stale endpoints, and one of them is enough. With
 * a Local policy, not all clients get the same endpoints.
 */
export function hasOtherEndpointsOnly({item, differences, expected, actual, isBesideBroadRules}: PortCase): boolean {
  const {port, endpoints} = item;
  if (isBesideBroadRules || port.internalPolicyLocal || port.externalPolicyLocal || endpoints.cluster.length === 0) return false;
  if (!differences.every(({owner, table, chain}) => owner === item && table === 'nat' && isOfEndpoints(chain))) return false;
  const found = endpointsIn(differences.map(({chain}) => chain).find(isBalancing) ?? '', actual);
  if (found === null) return false;
  const known = new Map(endpoints.cluster.map(endpoint => [endpoint.hostPort, endpoint]));
  const others = found.map(hostPort => known.get(hostPort) ?? withAddress(endpoints.cluster[0], hostPort));
  const other = {...item, endpoints: {cluster: others, local: [], reachable: others, hasAny: true}};
  return [...expected.rulesOf(other).own].every(([name, text]) => actual.chain('nat', name)?.text() === text);
}

function isBalancing(chain: string): boolean {
  return parseChainName(chain)?.role === 'SVC';
}

function isOfEndpoints(chain: string): boolean {
  return isBalancing(chain) || parseChainName(chain)?.role === 'SEP';
}

/** The endpoints that a chain picks from, by `ip:port`, in its order; null if there are none, or not every rule leads to one. */
function endpointsIn(chain: string, actual: Ruleset): readonly string[] | null {
  const rules = actual.chain('nat', chain)?.rules() ?? [];
  const targets = new Set(rules.map(({target}) => target?.name ?? '').filter(name => parseChainName(name)?.role === 'SEP'));
  const places = [...targets].map(name => / --to-destination (\S+)$/.exec(actual.chain('nat', name)?.text() ?? '')?.[1]);
  return places.length === 0 || places.includes(undefined) ? null : places.flatMap(place => place ?? []);
}

function withAddress(like: Endpoint | undefined, hostPort: string): Endpoint {
  const {address, port} = splitHostPort(hostPort);
  return {...(like as Endpoint), address, port: Number(port), hostPort, chainName: undefined};
}
