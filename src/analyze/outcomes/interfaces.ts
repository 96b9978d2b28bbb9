import {once} from '../../expect/api-index.ts';
import {type Address, contains, parseAddress, parseCidr} from '../../model/address.ts';
import type {Family} from '../../model/family.ts';
import {type Intervals, intervalsOf, subtract} from '../../model/intervals.ts';
import type {NetworkFacts} from '../../model/node/network-facts.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import {routeOf} from '../../model/node/route-of.ts';
import {parseInterval} from '../../parse/nftables/address-list.ts';
import {type Environment, isInterfaceLike} from '../../trace/packet.ts';

/** What routes and links decide about the interfaces of packets. Where neither decides, they are unknown. */
export const interfacesOf = once((facts: NodeFacts): Interfaces => {
  const {network} = facts;
  const names = new Map<string, string | null>();
  const sets = new Map<string, Intervals | null>();
  return {
    interfaceOf: (address: Address) => {
      const name = names.has(address.text) ? names.get(address.text) : interfaceOf(facts, address);
      names.set(address.text, name ?? null);
      return name ?? null;
    },
    behind: (pattern: string, family: Family) => {
      const key = `${family} ${pattern}`;
      const found = sets.has(key) ? (sets.get(key) ?? null) : network === undefined ? null : behind(network, pattern, family);
      sets.set(key, found);
      return found;
    },
    canBe: (pattern: string) => canBe(facts, pattern),
  };
});

interface Interfaces extends Required<Pick<Environment, 'interfaceOf' | 'behind'>> {
  /** Whether an address whose route is unknown can be behind an interface of this name. */
  readonly canBe: (pattern: string) => boolean | null;
}

function interfaceOf({network, onLink = []}: NodeFacts, address: Address): string | null {
  const route = network === undefined ? 'unknown' : routeOf(network, address, {mark: 0});
  if (route !== 'unknown') return route.kind === 'unicast' ? route.dev : null;
  // Without routes, an address is on the link that has its network.
  const found = onLink
    .map(one => ({name: one.name, cidr: parseCidr(one.network)}))
    .filter(({cidr}) => cidr !== null && contains(cidr, address))
    .sort((a, b) => (b.cidr?.prefix ?? 0) - (a.cidr?.prefix ?? 0));
  return found[0]?.name ?? null;
}

/** Above this number of routes, which addresses are behind an interface is not computed. */
const maxRoutes = 2_000;

/** Only for the usual policy rules: the tables `local`, `main` and `default`. */
function behind({routes, policyRules}: NetworkFacts, pattern: string, family: Family): Intervals | null {
  const [own, rules] = [routes[family], policyRules[family]];
  if (
    own === null ||
    rules === null ||
    own.length > maxRoutes ||
    rules.some(({action}) => action.kind !== 'lookup' || !/^(?:local|main|default|25[345])$/.test(action.table))
  )
    return null;
  let found: Intervals = [];
  const main = own
    .filter(({table}) => table === 'main' || table === '254')
    .toSorted((a, b) => a.to.prefix - b.to.prefix || b.metric - a.metric);
  for (const {to, hops} of main) {
    const range = parseInterval(to.text);
    if (range === null) continue;
    const network: Intervals = [[range.low, range.high]];
    found = hops.some(({dev}) => dev !== null && isInterfaceLike(pattern, dev))
      ? intervalsOf([...found, ...network])
      : subtract(found, network);
  }
  return found;
}

/** Whether an address can be behind an interface of this name, where its route is not known: only if the node has such an interface. */
function canBe({network}: NodeFacts, pattern: string): boolean | null {
  const links = network?.links ?? null;
  return links === null || links.some(({name}) => isInterfaceLike(pattern, name)) ? null : false;
}

/** The node's own addresses of a family. */
export function ownRanges(addresses: readonly string[], family: Family): Intervals {
  const own = addresses.flatMap(text => parseAddress(text) ?? []).filter(address => address.family === family);
  const loopback = parseInterval(family === 'IPv4' ? '127.0.0.0/8' : '::1');
  return intervalsOf([
    ...own.map(({value}) => [value, value] as const),
    ...(loopback === null ? [] : [[loopback.low, loopback.high] as const]),
  ]);
}
