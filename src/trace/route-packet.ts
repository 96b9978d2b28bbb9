import {type Branch, type ChainResult, undecided} from './branch.ts';
import {type Environment, type HookName, type Packet, sourceBehind} from './walked-packet.ts';

/** Where the kernel calls a base chain. */
interface HookPlace {
  readonly hook: HookName;
  /** Chains of one hook run from the lowest priority to the highest; those of equal priority in this order. */
  readonly priority: number;
  /** NAT chains run once for a connection, and never for packets that are not tracked. */
  readonly isNat: boolean;
  /** NAT chains have one common priority and run in this order. */
  readonly natOrder?: number;
  /** Grows with the age of the chain's table: of chains with equal priority the kernel runs the youngest first. */
  readonly age: number;
}

export interface HookedChain extends HookPlace {
  /** Never `return`: the policy has been applied. */
  walk(branch: Branch): readonly ChainResult[];
}

/** The path through a node: its base chains, and IPVS. */
interface Route {
  readonly chains: HookedChains;
  readonly environment: Environment;
  /** What IPVS does to a packet, by real server; null if no virtual server matches. Left out without IPVS. */
  balance?(end: ChainResult): readonly ChainResult[] | null;
}

/** The base chains of each hook, in the order in which they run. */
type HookedChains = ReadonlyMap<HookName, readonly HookedChain[]>;

export function inOrder(chains: readonly HookedChain[]): HookedChains {
  return Map.groupBy(
    chains.toSorted((a, b) => a.priority - b.priority || (a.natOrder ?? a.priority) - (b.natOrder ?? b.priority) || byAge(a.age, b.age)),
    ({hook}) => hook,
  );
}

/** Ages may be infinite: their difference would be no number. */
function byAge(a: number, b: number): number {
  return Number(a > b) - Number(a < b);
}

/** Sends the first packet of a connection through the hooks that it passes. Returns all ends, including those of hypothetical branches. */
export function routePacket(route: Route, branch: Branch): readonly ChainResult[] {
  const {environment} = route;
  if (branch.packet.origin !== 'node') {
    const inInterface = branch.packet.inInterface ?? environment.arrivesBy?.(branch.packet, environment) ?? null;
    const start = {...branch, packet: {...branch.packet, inInterface}};
    return pass(route, 'prerouting', pass(route, 'ingress', [start])).flatMap(end => afterRouting(route, end));
  }
  const {ownHops} = environment;
  const own = ownHops == null || ownHops > 1 || branch.packet.family === 'IPv6' ? {} : {hops: ownHops};
  const start = {...branch, packet: withOutput({...branch.packet, ...own}, environment)};
  const refused = branch.packet.connection === undefined ? (environment.ownObstacle?.(branch.packet) ?? null) : null;
  if (refused !== null) return [lost({...start, verdict: 'drop'}, refused)];
  return pass(route, 'output', [start], isBeforeIpvs).flatMap(end => balanced(route, end) ?? sendOut(route, end));
}

/** The packet is routed: the interface by which it leaves is known if routes are. */
function withOutput(packet: Packet, {interfaceOf, isLocal}: Environment): Packet {
  if (packet.origin === 'node' && isLocal(packet.destination)) return {...packet, outInterface: 'lo'};
  const name = interfaceOf?.(packet.destination) ?? null;
  return name === null ? packet : {...packet, outInterface: name};
}

/** IPVS handles packets of the node itself after NAT and before the filters. */
const ipvsPriority = -98;
const isBeforeIpvs = ({priority}: HookPlace): boolean => priority < ipvsPriority;
const isAfterIpvs = ({priority}: HookPlace): boolean => priority >= ipvsPriority;

function sendOut(route: Route, end: ChainResult): readonly ChainResult[] {
  return end.verdict === 'accept' ? pass(route, 'output', [end], isAfterIpvs).flatMap(result => afterRouting(route, result)) : [end];
}

/** Routing after the first hooks: to the node itself, forwarded, or out. */
function afterRouting(route: Route, end: ChainResult): readonly ChainResult[] {
  if (end.verdict !== 'accept') return [end];
  const {packet} = end;
  const local = route.environment.isLocal(packet.destination);
  if (packet.origin === 'node') {
    const isRerouted = packet.rewritten || packet.virtual !== undefined || packet.connection?.isTranslated === true;
    const routed = isRerouted ? withOutput({...packet, outInterface: null}, route.environment) : packet;
    const obstacle = local === null ? null : (route.environment.obstacle?.(routed, route.environment) ?? null);
    if (obstacle !== null) return [lost({...end, packet: routed, isUnrouted: true}, obstacle)];
    const sent = doubted(route, routed, leave(route, [{...end, packet: {...routed, inInterface: null}}]));
    return local ? sent.flatMap(result => (result.verdict === 'accept' ? comeIn(route, result) : [result])) : sent;
  }
  const routed = {...end, packet: withOutput(packet, route.environment)};
  const dropped = packet.captured === true ? null : (route.environment.arrivalObstacle?.(packet, route.environment) ?? null);
  if (dropped !== null) return [lost(routed, dropped)];
  if (local === false && isLastHop(packet)) return [lost(routed, 'no hop is left for the packet, so the kernel does not forward it')];
  const obstacle =
    local !== null && packet.captured !== true ? (route.environment.obstacle?.(routed.packet, route.environment) ?? null) : null;
  if (obstacle !== null) return [lost({...routed, isUnrouted: true}, obstacle)];
  const sent = packet.hops === undefined ? routed : {...routed, packet: {...routed.packet, hops: packet.hops - 1}};
  const forwarded = (): readonly ChainResult[] => doubted(route, routed.packet, leave(route, pass(route, 'forward', [sent])));
  if (local === false && packet.captured !== true) return forwarded();
  const delivered = pass(route, 'input', [end]).flatMap(result => balanced(route, result) ?? [result]);
  if (local !== null) return delivered;
  const onwards = forwarded();
  return outcomesOf(delivered) === outcomesOf(onwards) ? onwards : [localityUnknown(end, delivered)];
}

/** Where only some networks know the way that a packet took, its source behind the node decides. */
function doubted({environment}: Route, routed: Packet, ends: readonly ChainResult[]): readonly ChainResult[] {
  const way = environment.isLocal(routed.destination) === false ? (environment.doubtedWay?.(routed, environment) ?? null) : null;
  if (way === null) return ends;
  return ends.map(end => {
    if (end.verdict !== 'accept') return end;
    const source = way.isKnown === undefined ? null : sourceBehind(end.packet, environment);
    return way.isKnown !== undefined && source !== null && way.isKnown(source) ? end : {...undecided(end, way.reason), isUnrouted: true};
  });
}

/** A packet of the node to itself leaves by the loopback interface and arrives again; NAT does not run a second time. */
function comeIn(route: Route, sent: ChainResult): readonly ChainResult[] {
  const {packet} = sent;
  const {connection} = packet;
  const source = sourceBehind({...packet, outInterface: 'lo'}, route.environment);
  const asked = connection?.direction === 'reply' && connection.rewritten ? {sourcePort: connection.first.port} : {};
  const translated = source === null ? {} : {source, sourceBefore: packet.source, ...asked};
  const onLoopback = {...sent, packet: {...packet, ...translated, inInterface: 'lo', outInterface: null}};
  return pass(route, 'input', pass(route, 'prerouting', [onLoopback], isNoNat), isNoNat);
}

function leave(route: Route, branches: readonly ChainResult[]): readonly ChainResult[] {
  return pass(route, 'egress', pass(route, 'postrouting', branches)).map(end => withHopLeft(route, end));
}

function isLastHop({hops}: Packet): boolean {
  return hops !== undefined && hops <= 1;
}

/** The next hop drops a packet that it would have to send on. */
function withHopLeft({environment}: Route, end: ChainResult): ChainResult {
  if (end.verdict !== 'accept' || !isLastHop(end.packet) || environment.isLocal(end.packet.destination) === true) return end;
  const isSentOn = environment.isSentOn?.(end.packet) ?? null;
  if (isSentOn === null) return undecided(end, `no hop is left for the packet, and what is behind the next one is not known`);
  return isSentOn ? lost(end, 'no hop is left for the packet, so the next one does not send it on') : end;
}

const isNoNat = ({isNat}: HookPlace): boolean => !isNat;

function balanced(route: Route, end: ChainResult): readonly ChainResult[] | null {
  const picks = end.verdict === 'accept' && end.packet.captured !== true ? (route.balance?.(end) ?? null) : null;
  return picks?.flatMap(sent => (sent.verdict === 'accept' ? deliver(route, sent) : [sent])) ?? null;
}

/**
 * A packet that arrived for a real server on the node itself goes no further. A packet that IPVS forwards continues as if the node had sent
 * it; table nat does not run a second time.
 */
function deliver(route: Route, sent: ChainResult): readonly ChainResult[] {
  const {packet} = sent;
  if (packet.origin === 'arriving' && route.environment.isLocal(packet.destination) === true) return [sent];
  const routed = withOutput({...packet, outInterface: null}, route.environment);
  const obstacle = packet.origin === 'arriving' ? (route.environment.obstacle?.(routed, route.environment) ?? null) : null;
  if (obstacle !== null) return [lost({...sent, packet: routed, isUnrouted: true}, obstacle)];
  return leave(route, pass(route, 'output', [{...sent, packet: {...routed, inInterface: null}}], isNoNat));
}

/** Each verdict and the address that packets have then, which differs where IPVS takes them. */
function outcomesOf(results: readonly ChainResult[]): string {
  const sure = results.filter(({supposed}) => supposed === null);
  return [...new Set(sure.map(({verdict, packet}) => `${verdict} ${packet.destination.text} ${packet.port}`))].sort().join();
}

function localityUnknown(end: ChainResult, delivered: readonly ChainResult[]): ChainResult {
  const {text} = end.packet.destination;
  const isForIpvs = delivered.some(({packet}) => packet.virtual !== undefined);
  const difference = isForIpvs
    ? 'IPVS takes only packets to such addresses (--local-address names those of kube-ipvs0)'
    : 'INPUT and FORWARD treat the packet differently';
  const reason = `whether ${text} is an address of the node is not known, and ${difference}`;
  return undecided(end, reason);
}

/** Runs the selected chains of a hook. Branches that ended before stay unchanged. */
function pass(
  route: Route,
  hook: HookName,
  branches: readonly (Branch | ChainResult)[],
  isWanted: (chain: HookPlace) => boolean = () => true,
): readonly ChainResult[] {
  const ended: ChainResult[] = [];
  let live: ChainResult[] = [];
  for (const branch of branches) {
    const started: ChainResult = 'verdict' in branch ? branch : {...branch, verdict: 'accept'};
    (started.verdict === 'accept' ? live : ended).push(started);
  }
  for (const chain of route.chains.get(hook) ?? []) {
    if (!isWanted(chain)) continue;
    if (chain.priority >= natPriority) live = translate(live, hook, ended);
    const passed: ChainResult[] = [];
    for (const branch of live) for (const result of passChain(chain, branch)) (result.verdict === 'accept' ? passed : ended).push(result);
    live = passed;
  }
  live = translate(live, hook, ended);
  return [...ended, ...live];
}

/** Destinations are translated at this priority of PREROUTING and OUTPUT. */
const natPriority = -100;

/** Later packets of a connection get the destination that it has, without passing `nat`. One that is not recognized as its is lost. */
function translate(live: ChainResult[], hook: HookName, ended: ChainResult[]): ChainResult[] {
  if (hook !== 'prerouting' && hook !== 'output') return live;
  return live.flatMap(branch => {
    const {packet} = branch;
    const {connection} = packet;
    if (connection === undefined) return [branch];
    if (!connection.isTranslated || packet.inInterface === 'lo') return [branch];
    if (packet.untracked || (packet.zone?.[connection.direction] ?? 0) !== connection.zone) {
      ended.push(lost(branch, 'connection tracking does not recognize the packet, so its addresses are not translated'));
      return [];
    }
    const {destination, port, direction} = connection;
    if (packet.destination.text === destination.text && packet.port === port && packet.isPortDrawn !== true) return [branch];
    const own = direction === 'reply' ? {client: connection.client, isPortDrawn: false} : {};
    return [{...branch, packet: {...packet, destination, port, ...own}}];
  });
}

/** The kernel itself loses the packet, by no rule and no policy. */
function lost({policy: _, ...branch}: ChainResult, reason: string): ChainResult {
  return {...branch, verdict: 'drop', reason};
}

/** Once one chain has translated an address, no other NAT chain runs for it. */
function passChain(chain: HookedChain, branch: ChainResult): readonly ChainResult[] {
  const {packet, probability, path, inferred, supposed} = branch;
  if (chain.isNat && (packet.untracked || packet.connection !== undefined || isTranslated(chain, branch))) return [branch];
  return chain.walk({packet, probability, path, inferred, supposed});
}

function isTranslated({hook}: HookedChain, {packet}: ChainResult): boolean {
  return hook === 'postrouting' || hook === 'input' ? packet.masquerade : packet.rewritten;
}
