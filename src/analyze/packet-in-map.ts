import {
  type CiliumState,
  ciliumVersion,
  hasCiliumTables,
  isKnownCilium,
  leavesKubeProxy,
  oldestCilium,
  readCilium,
} from '../expect/cilium/cilium-node.ts';
import {nodeNamesByAddress} from '../expect/api-index.ts';
import {unspecified} from '../expect/cilium/promised-frontends.ts';
import {isLoopback} from '../expect/node-context.ts';
import {contains, parseAddress, parseCidr} from '../model/address.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';
import {frontendKey} from '../parse/cilium/agent-table.ts';
import type {MapEntry} from '../parse/cilium/lb-map.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';
import {isProxied} from './cilium/map-differences.ts';
import {sharesOf, slotRule} from './cilium/trace-cilium.ts';
import type {PacketAnswer} from './packet-query.ts';
import type {PacketQuery} from './packet-service.ts';
import type {PacketOutcome} from './packet-rules.ts';
import {explainUnserved} from './packet-service.ts';

interface Asked {
  readonly node: NodeDump;
  readonly facts: NodeFacts;
  readonly api: ApiObjects;
  /** The node of an address; null if it is not known. */
  readonly nodeOf: (address: string) => string | null;
  /** Whether the packet comes from a pod or a node of the cluster; null if that is not known. */
  readonly isInside: boolean | null;
}

/** What the map of a node's Cilium does to a packet; null where the rules of the node decide. */
export function askMap(query: PacketQuery, asked: Asked): PacketAnswer | null {
  const {node, api, isInside} = asked;
  if (!hasCiliumTables(node) || query.protocol === 'ICMP' || (isInside === false && leavesKubeProxy(node))) return null;
  const version = ciliumVersion(node);
  const state =
    version !== null && !isKnownCilium(version)
      ? `svc-trace reads the map of Cilium from ${oldestCilium} on, and this is ${version.text}`
      : readCilium(node, api);
  const answer = (outcomes: readonly PacketOutcome[]): PacketAnswer => ({node: node.name, query, outcomes});
  if (typeof state === 'string') return answer([end('undecided', `Cilium serves the Services of ${node.name}: ${state}`)]);
  const ends = (inside: boolean): readonly PacketOutcome[] | null => outcomesFor(query, state, {...asked, isInside: inside});
  const [inner, outer] = [ends(true), ends(false)];
  if (isInside === null && JSON.stringify(inner) !== JSON.stringify(outer)) {
    const [entry] = [inner, outer].flatMap(outcomes => outcomes?.[0]?.path ?? []);
    const why = `Cilium serves clients outside the cluster otherwise than its pods and nodes, and whether ${query.source} is outside is not known: give --source pod/NAME, or the address of an endpoint or a node`;
    return answer([{...end('undecided', why), path: entry === undefined ? [] : [entry]}]);
  }
  const outcomes = isInside === false ? outer : inner;
  return outcomes === null ? null : answer(outcomes);
}

/** Of a node whose rules were not read: what its map does not send anywhere goes on to them. */
export function notInMap(query: PacketQuery, node: string): PacketAnswer {
  const what = "the kernel's map of Cilium has no entry for it";
  const {entry} = query;
  if (entry == null)
    return {node, query, outcomes: [end('undecided', `${what}, and the rules of the node, which it meets then, were not read`)]};
  const isLost = entry.kind === 'clusterIP';
  const reason = `${what}, and only ${isLost ? 'a rule that was not read' : 'another host or a rule that was not read'} can send it on`;
  return {node, query, outcomes: [{...end('undecided', reason), noEndpointOf: entry.service}]};
}

type OfSide = Asked & {readonly isInside: boolean};

function outcomesFor(query: PacketQuery, state: CiliumState, asked: OfSide): readonly PacketOutcome[] | null {
  // Without replacement only its pods' packets meet the map, and kube-proxy's rules all others.
  if (state.settings.replacesKubeProxy !== true && (!asked.isInside || asked.facts.addresses.includes(query.source))) return null;
  const entry = entryFor(query, state, asked);
  return entry === null ? null : outcomesOf(entry, query, {state, asked});
}

/**
 * Follows `lb4_lookup_service`: the inner scope is asked only where the outer one says that there are two, and wildcards are for clients
 * outside. Pods and nodes find node ports at the address of any node, as `sock4_wildcard_lookup` does.
 */
function entryFor({destination, port, protocol, family}: PacketQuery, {map, settings}: CiliumState, asked: OfSide): MapEntry | null {
  const {isInside, api} = asked;
  const at = (address: string): MapEntry | null => {
    const [external, internal] = [false, true].map(isInternal => map.get(frontendKey(address, {port, protocol, isInternal})));
    return (isInside && external?.flags.includes('two-scopes') === true ? internal : external) ?? null;
  };
  if (map.has(frontendKey(destination, {port, protocol, isInternal: false}))) return at(destination);
  if (!isInside) return map.get(frontendKey(destination, {port: 0, protocol: 'ANY', isInternal: false})) ?? null;
  const isOfNode = isLoopback(destination) || nodeNamesByAddress(api).has(destination);
  return isOfNode && settings.hasSocketLB ? at(unspecified[family]) : null;
}

function outcomesOf(
  entry: MapEntry,
  query: PacketQuery,
  {state, asked}: {readonly state: CiliumState; readonly asked: OfSide},
): readonly PacketOutcome[] {
  const ended = (verdict: PacketOutcome['verdict'], reason: string): readonly PacketOutcome[] => [
    {...end(verdict, reason), path: [slotRule(entry, `${entry.count} backends`)]},
  ];
  if (entry.port === 0)
    return ended('drop', `${entry.key} in the kernel's map drops what clients outside send to a port without a Service`);
  if (isProxied(entry)) return ended('undecided', 'a proxy of Cilium on the node takes the connection and decides');
  if (entry.flags.includes('46x64'))
    return ended('undecided', `${entry.key} in the kernel's map is translated between IPv4 and IPv6 (46x64)`);
  const admitted = asked.isInside || isAdmitted(entry, query.source, state);
  if (admitted === null) return ended('undecided', "the source ranges in the kernel's map were not read");
  if (!admitted) return ended('drop', `the source ranges of ${entry.key} in the kernel's map do not admit ${query.source}`);
  if (entry.count === 0)
    return ended(state.settings.dropsWithoutBackend ? 'drop' : 'reject', `${entry.key} in the kernel's map has no backend`);
  if (!asked.isInside && entry.flags.includes('non-routable'))
    return ended('drop', `Cilium serves ${entry.key} inside the cluster alone (non-routable)`);
  return [...sharesOf(entry)].map(([name, share]) => slotOutcome(entry, query, {name, share, asked}));
}

function slotOutcome(
  entry: MapEntry,
  query: PacketQuery,
  {name, share, asked}: {readonly name: string | null; readonly share: number; readonly asked: OfSide},
): PacketOutcome {
  if (name === null)
    return {...end('drop', "this slot of the kernel's map has no backend"), probability: share, path: [slotRule(entry, '→ no backend')]};
  const holder = asked.nodeOf(splitHostPort(name).address);
  // Clients outside are answered by the node that they asked, unless the other node answers itself (dsr).
  const masquerade = !asked.isInside && holder !== null && holder !== asked.node.name && !entry.flags.includes('dsr');
  const outcome = {verdict: 'accept', destination: name, probability: share, masquerade, path: [slotRule(entry, `→ ${name}`)]} as const;
  // A policy of Cilium may send the packets elsewhere.
  const told =
    query.entry == null || entry.flags.includes('LocalRedirect')
      ? outcome
      : explainUnserved(outcome, query.entry, {...query, isLocal: false});
  return {reason: 'policies of Cilium, which may drop it, were not walked', ...told};
}

function end(verdict: PacketOutcome['verdict'], reason: string): PacketOutcome {
  return {verdict, destination: null, probability: 1, masquerade: false, path: [], reason};
}

/** Null if it is not known. */
function isAdmitted({flags, id}: MapEntry, source: string, {ranges}: CiliumState): boolean | null {
  const address = parseAddress(source);
  if (!flags.includes('check source-range')) return true;
  if (ranges === null || address === null) return null;
  const isListed = (ranges.get(id) ?? []).some(text => {
    const range = parseCidr(text);
    return range !== null && contains(range, address);
  });
  return isListed !== flags.includes('deny');
}
