import {heldIn} from '../model/once.ts';
import {type Address, joinHostPort} from '../model/address.ts';
import {holds, type Intervals} from '../model/intervals.ts';
import type {NftChain, NftSource, NftTableSource} from '../model/nft-ruleset.ts';
import type {Backend, ChainSource, Ruleset, RuleText} from '../model/ruleset.ts';
import {
  askAddress,
  type Connection,
  type ConnectionOutcome,
  type Environment,
  isLost,
  type Outcome,
  type Packet,
  stateOf,
  untouched,
} from './walked-packet.ts';
import {type ChainResult, limitsFor, noteWalk, type OutcomeEnd, startBranch, summarizeEnds} from './branch.ts';
import {balanceByIpvs, iptablesChains, type WalkContext} from './iptables/walk-packet.ts';
import {nftChains, tablesOf, undecideTruncated} from './nftables/walk-nft-packet.ts';
import {inOrder, routePacket} from './route-packet.ts';
import {type NoteCondition, senderClasses, SenderConditions} from './sender-space.ts';

/** Everything that a packet can meet on a node. */
export interface Side {
  /** The rules of one family; of both backends if both are in use. */
  readonly iptables: readonly ChainSource[];
  readonly nft: NftSource | null;
  /** Facts of the node, ipsets and virtual servers. */
  readonly environment: Environment;
  /** Tables of iptables that the list of nftables does not have are younger than its own; by default older. */
  readonly isIptablesYounger?: boolean;
}

/**
 * Walks a packet through all rules of a node, in the order of hooks, priorities and ages, as the kernel does. The probabilities of the
 * outcomes add up to 1.
 */
export function walkSide(side: Side, packet: Packet): readonly Outcome[] {
  return walkToEnds(side, packet).map(({outcome}) => outcome);
}

function walkToEnds(side: Side, packet: Packet): readonly OutcomeEnd[] {
  const {iptables, nft, environment} = side;
  const contexts = iptables.map((rules): WalkContext => ({rules, environment, limits: limitsFor(rules)}));
  const limits = limitsFor(nft ?? iptables);
  const tables = nft === null ? [] : tablesOf(nft, packet.family);
  const isShown = (table: NftTableSource, {name}: NftChain): boolean => isIptablesChain(name) && showsTable(iptables, table);
  const ofNft = nftChains({tables, environment, limits, isShown});
  const ofIptables = contexts.flatMap(context => iptablesChains(context, table => ageOf(side, context.rules, table, tables)));
  const chains = inOrder([...ofNft, ...ofIptables]);
  const route = {chains, environment, balance: balanceByIpvs(environment)};
  const ends: readonly ChainResult[] = routePacket(route, startBranch(packet));
  if (nft !== null) noteWalk(nft, limits);
  for (const context of contexts) noteWalk(context.rules, context.limits);
  return summarizeEnds(undecideTruncated(ends, tables));
}

/**
 * A table of iptables-nft stands among those of nftables; when one of iptables-legacy was made, nothing shows. `tables`: in the order of
 * their creation.
 */
function ageOf({isIptablesYounger = false}: Side, rules: ChainSource, table: string, tables: readonly NftTableSource[]): number {
  const index = isLegacy(rules) ? -1 : tables.findIndex(({id}) => isOfIptables(id, table, rules));
  if (index >= 0) return tables.length - index;
  return isIptablesYounger ? 0 : tables.length + 1;
}

/** Whether the order is known in which the chains of this table run beside those of nftables. */
export function knowsAge({iptables, nft}: Side, table: string): boolean {
  return iptables.every(
    rules => !rules.hasTable(table) || (!isLegacy(rules) && nft?.tableSources.some(({id}) => isOfIptables(id, table, rules)) === true),
  );
}

function isOfIptables(id: string, table: string, {family}: ChainSource): boolean {
  return id === `${family === 'IPv4' ? 'ip' : 'ip6'} ${table}`;
}

function isLegacy(rules: ChainSource): boolean {
  return (rules as Partial<Ruleset>).backend === 'legacy';
}

/**
 * The backend of iptables that has a rule, or a chain with the policy DROP, where the tools of the other one would not show it; null where
 * the node has rules in one alone.
 */
export function backendOf(
  {iptables, nft}: Pick<Side, 'iptables' | 'nft'>,
  {table, chain, line, text}: Pick<RuleText, 'table' | 'chain'> & Partial<RuleText>,
): Backend | null {
  const isBesideNft = iptables.some(isLegacy) && (nft?.tableSources.length ?? 0) > 0;
  if (iptables.length < 2 && !isBesideNft) return null;
  const [holder, ...others] = iptables.filter(rules => {
    const own = rules.chain(table, chain);
    if (text === undefined) return own?.policy === 'DROP';
    return own?.rules().some(rule => rule.line === line && rule.text === text) === true;
  });
  return holder === undefined || others.length > 0 ? null : ((holder as Partial<Ruleset>).backend ?? null);
}

/** A table of iptables-nft that the iptables dump contains too, with more detail, and nothing beside it. */
export function isShownByIptables(table: NftTableSource, iptables: readonly ChainSource[]): boolean {
  return table.baseChains.every(chain => isIptablesChain(chain.name)) && showsTable(iptables, table);
}

/** Chains that nft added to a table of iptables are in no dump of iptables. */
function isIptablesChain(name: string): boolean {
  return /^[A-Z]+$/.test(name);
}

function showsTable(iptables: readonly ChainSource[], {id}: NftTableSource): boolean {
  const name = /^ip6? (raw|mangle|nat|filter|security)$/.exec(id)?.[1];
  return name !== undefined && iptables.some(rules => !isLegacy(rules) && rules.hasTable(name));
}

/** The side with walks that tell what they ask of the sender. */
export function noting<S extends Side>(side: S, note: NoteCondition): S {
  return {...side, environment: {...side.environment, sender: new SenderConditions(note)}};
}

interface Endpoints {
  /** The addresses of the node's pods. */
  readonly pods: Intervals;
  /** Endpoints that no rule tells apart have the same text; their replies are walked once. */
  readonly signature: (hostPort: string) => string;
}

/**
 * Walks the first packet of a connection; where it reaches an endpoint, also the reply, if it passes this node, and the next packet. The
 * connection is served if all three arrive.
 */
export function walkConnection(side: Side, packet: Packet, {pods, signature}: Endpoints): readonly ConnectionOutcome[] {
  const known = new Map<string, readonly Later[]>();
  const follow = ({outcome, packet: end}: OutcomeEnd): readonly ConnectionOutcome[] => {
    const {destination, port} = end;
    if (outcome.verdict !== 'accept' || (outcome.destination === null && !holds(pods, destination.value))) return [outcome];
    const source = `${end.masquerade} ${end.sourceAfter?.text ?? ''} ${end.drawnPorts?.join() ?? ''}`;
    const key = `${signature(joinHostPort(destination.text, port))} ${source} ${end.connectionMark} ${end.mark} ${end.untracked}`;
    const later = heldIn(known, key, () => laterPackets(side, packet, end, pods, isSure).map(one => withFirstPath(one, outcome, end)));
    return later.map(({share, lost}) => ({
      ...outcome,
      drawnPorts: end.drawnPorts,
      probability: outcome.probability * share,
      lost: lost === undefined ? undefined : share < 1 ? {...lost, share} : lost,
    }));
  };
  const ends = walkToEnds(side, packet);
  const isSure = !ends.some(({outcome}) => isLost(outcome));
  return ends.flatMap(end => {
    const {otherwise, ...outcome} = end.outcome;
    if (otherwise?.verdict !== 'accept') return follow(end);
    // Its replies may be lost whether or not the first packet is.
    const followed = follow({...end, outcome: otherwise});
    return followed.every(isLost) ? followed.map(one => ({...outcome, probability: one.probability, otherwise: one})) : [outcome];
  });
}

/** The outcome of the later packets of a part of the connections. */
interface Later {
  readonly share: number;
  readonly lost: ConnectionOutcome['lost'];
}

/** What keeps a connection from being tracked, or its zone, may be on the path of its first packet alone. */
function withFirstPath(later: Later, {path}: Outcome, end: Packet): Later {
  const {lost} = later;
  if (lost === undefined || lost.outcome === answersItself) return later;
  if (end.zone === undefined && !(end.untracked && isAsItWas(end))) return later;
  return {...later, lost: {...lost, outcome: {...lost.outcome, path: [...path, ...lost.outcome.path]}}};
}

/** Of such a packet that is not tracked, the kernel takes the reply for one without a beginning. */
function isAsItWas({rewritten, masquerade, virtual}: Packet): boolean {
  return !rewritten && !masquerade && virtual === undefined;
}

/** What rules leave to chance is told of replies where first packets do not meet it as well (`isSure`). */
function laterPackets(side: Side, first: Packet, end: Packet, pods: Intervals, isSure: boolean): readonly Later[] {
  if (isItself(first, end, side.environment)) return [{share: 1, lost: {packet: 'reply', outcome: answersItself}}];
  const reply = replyTo(side, first, end, pods);
  const partsOf = (replies: readonly OutcomeEnd[]): readonly Later[] => {
    const lost = lostLater(side, first, end, replies);
    const refused = lost === undefined && isSure ? replies.flatMap(({outcome}) => (isLost(outcome) ? outcome : [])) : [];
    const rest = refused.reduce((left, {probability}) => left - probability, 1);
    return [...refused.map((outcome): Later => ({share: outcome.probability, lost: {packet: 'reply', outcome}})), {share: rest, lost}];
  };
  if (reply === null || end.drawnPorts === undefined) return partsOf(reply === null ? [] : walkToEnds(side, reply));
  // Rules may treat a part of the ports in another way that are drawn for the new source.
  const drawn: Packet = {...reply, isPortDrawn: true};
  const found = partsOfPorts(end.drawnPorts, (port, drawnPort) => {
    const environment: Environment = {...side.environment, drawnPort};
    return partsOf(walkToEnds({...side, environment}, {...drawn, port}));
  }).flatMap(({share: part, result}) => result.map(({share, lost}) => ({share: share * part, lost})));
  const counted = Map.groupBy(found, ({lost}) => (lost === undefined ? '' : endOf(lost)));
  const parts = [...counted.values()].map(alike => ({share: alike.reduce((sum, {share}) => sum + share, 0), lost: alike[0]?.lost}));
  const [most, ...others] = parts.toSorted((a, b) => b.share - a.share);
  const noticed = others.filter(({share}) => share >= minShare);
  const left = noticed.reduce((rest, {share}) => rest - share, 1);
  return most === undefined ? [] : [{...most, share: left}, ...noticed];
}

/** The parts of some ports that a walk tells apart, with their shares: one of each is walked. */
export function partsOfPorts<T>(ports: Intervals, walk: (port: number, note: (alike: Intervals) => void) => T) {
  const {classes} = senderClasses({
    spaces: [{address: [[0n, 0n]], port: ports}],
    most: maxDrawn,
    pick: ({port}) => ({address: 0n, port: holds(port, BigInt(anyPort)) ? anyPort : Number(port[0]?.[0] ?? 0n)}),
    walk: ({port}, note) => walk(port, alike => note('port', alike)),
  });
  return classes.map(({space, result}) => ({share: countOf(space.port) / countOf(ports), result}));
}

/** What rules say of single ports is meant for servers: a smaller share of the ports of clients is no loss of these. */
export const minShare = 0.01;

/** So many parts of the drawn ports are walked, first the one that no rule names. */
const maxDrawn = 50;

function endOf({packet, outcome: {policy, reason, path}}: NonNullable<ConnectionOutcome['lost']>): string {
  const rule = path.at(-1);
  return [packet, policy, reason, rule?.table, rule?.chain, rule?.line].join(' ');
}

function countOf(ports: Intervals): number {
  return ports.reduce((sum, [low, high]) => sum + Number(high - low) + 1, 0);
}

function lostLater(side: Side, first: Packet, end: Packet, replies: readonly OutcomeEnd[]): ConnectionOutcome['lost'] {
  const isUnanswered = replies.length > 0 && replies.every(({packet}) => stateOf(packet) !== 'established');
  // A rule may mark the connection when the reply passes.
  const connectionMark = replies[0]?.packet.connectionMark ?? end.connectionMark;
  const next = nextAfter(first, {...end, connectionMark}, isUnanswered);
  const lost = lostIn('reply', replies) ?? lostIn('next', next === null ? [] : walkToEnds(side, next));
  if (lost?.packet !== 'next' || !isUnanswered) return lost;
  // What keeps the reply from being tracked is on its path.
  return {...lost, outcome: {...lost.outcome, path: [...(replies[0]?.outcome.path ?? []), ...lost.outcome.path]}};
}

function lostIn(packet: 'reply' | 'next', ends: readonly OutcomeEnd[]): ConnectionOutcome['lost'] {
  const [first] = ends;
  return first !== undefined && ends.every(({outcome}) => outcome.verdict !== 'accept') ? {packet, outcome: first.outcome} : undefined;
}

const answersItself: Outcome = {
  verdict: 'drop',
  destination: null,
  probability: 1,
  masquerade: false,
  path: [],
  reason: 'the endpoint is the client itself, and as it is not masqueraded, its reply never leaves it',
};

/** The endpoint is the client, and sees its own address as the source. */
function isItself(first: Packet, end: Packet, environment: Environment): boolean {
  const {sender} = environment;
  if (end.masquerade || first.origin === 'node' || !(end.rewritten || end.virtual !== undefined)) return false;
  const {value} = end.destination;
  if (sender?.countsEndpoints === true) askAddress([[value, value]], 'source', first, environment);
  sender?.commitAdded();
  return first.source.value === value;
}

type Tracked = Pick<Connection, 'first' | 'isTranslated' | 'rewritten' | 'masquerade' | 'sourceAfter' | 'isLabeled'>;

function trackedOf(first: Packet, end: Packet): Tracked {
  const {rewritten, masquerade, sourceAfter, isLabeled} = end;
  const tracked = {first, rewritten, masquerade, isTranslated: rewritten || masquerade};
  return {...tracked, sourceAfter, isLabeled};
}

/** Null if the reply does not pass this node: another node sends it straight to the client. */
function replyTo({environment}: Side, first: Packet, end: Packet, pods: Intervals): Packet | null {
  const isPodHere = ({value}: Address): boolean => holds(pods, value);
  const isHere = environment.isLocal(end.destination) === true;
  if (!isHere && !isPodHere(end.destination) && !end.masquerade && first.origin !== 'node') {
    askAddress(pods, 'source', first, environment);
    environment.sender?.commitAdded();
    if (!isPodHere(first.source)) return null;
  }
  if (end.untracked && (isHere || first.origin === 'node' || !isAsItWas(end))) return null;
  const clientPort = first.sourcePort ?? anyPort;
  const seen = end.masquerade
    ? (end.sourceAfter ?? environment.masqueradeAddress?.(end) ?? environment.redirectAddress(end) ?? first.source)
    : first.source;
  return {
    ...untouched,
    family: first.family,
    protocol: first.protocol,
    source: end.destination,
    sourcePort: end.port,
    destination: seen,
    port: clientPort,
    origin: isHere ? 'node' : 'arriving',
    connectionMark: end.connectionMark,
    client: end.masquerade ? undefined : clientSide(first),
    connection: {
      ...trackedOf(first, end),
      direction: 'reply',
      destination: first.source,
      port: clientPort,
      zone: end.zone?.reply ?? 0,
      client: clientSide(first),
      ...(end.untracked ? {isUnanswered: true} : {}),
    },
  };
}

/** Some port from which clients connect. */
export const anyPort = 40_000;

function clientSide({client}: Packet): Packet['client'] {
  return client === undefined ? undefined : 'destination';
}

function nextAfter(first: Packet, end: Packet, isUnanswered: boolean): Packet | null {
  if (end.untracked) return null;
  const {destination, port, connectionMark} = end;
  const isTranslated = end.rewritten && end.virtual === undefined;
  const connection = {...trackedOf(first, end), isTranslated, destination, port, zone: end.zone?.original ?? 0, client: first.client};
  return {...first, connectionMark, connection: {...connection, direction: 'original', isUnanswered}};
}
