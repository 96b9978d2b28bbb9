import {type Address, formatAddress, parseAddress} from '../model/address.ts';
import {intersect, type Intervals, sizeOf, subtract} from '../model/intervals.ts';
import type {NftSet} from '../model/nft-ruleset.ts';
import {parseInterval} from '../parse/nftables/address-list.ts';
import {type Branch, type ChainResult, type Outlets, suppose, undecided} from './branch.ts';
import {fieldValue, isBeforeTracking} from './field-value.ts';
import type {Evaluation} from './look-up.ts';
import {choose, elementsIn, matchConditions, numberOf} from './match-conditions.ts';
import {verdictAction} from './nftables/lower-nft-rule.ts';
import {askAddress, type Environment, type HookName, type Packet} from './walked-packet.ts';
import type {Action, AssignedField, Condition, LoweredRule} from './rule-language.ts';

/** A rule, and the place at which it runs. `R` is the type of rules on the path. */
export interface RuleRun {
  readonly rule: LoweredRule;
  readonly hook: HookName | null;
  readonly priority: number;
  readonly environment: Environment;
  readonly place: Evaluation['place'];
  set(name: string): NftSet | undefined;
  /** The field by which the rules of a long chain were searched: it matches, and is asked for already. */
  readonly decided: 'saddr' | 'daddr' | undefined;
  /** Walks a chain that the rule calls; `return` at its end. Null if there is no chain of that name. */
  call(chain: string, branch: Branch): readonly ChainResult[] | null;
}

/** Runs a rule on a packet: its steps from left to right, until the conditions of one fail. */
export function runRule(run: RuleRun, branch: Branch, out: Outlets): void {
  const {sender} = run.environment;
  const isSilent = sender?.countsEndpoints === false && run.rule.isOfEndpointItself;
  runFrom(isSilent ? {...run, environment: {...run.environment, sender: undefined}} : run, 0, branch, out);
}

function runFrom(run: RuleRun, start: number, from: Branch, out: Outlets): void {
  let branch = from;
  for (let index = start; index < run.rule.steps.length; index++) {
    const step = run.rule.steps[index];
    if (step === undefined) break;
    const {action} = step;
    const rest = (next: Branch, outlets: Outlets): void => runFrom(run, index + 1, next, outlets);
    const likelihood = matchConditions(undecidedOf(run, step.conditions), evaluation(run, branch));
    if (likelihood === null) {
      const follow = (supposed: Branch, outlets: Outlets): void => {
        const next = action === null ? supposed : act(run, action, {branch: supposed, rest, out: outlets});
        if (next !== null) rest(next, outlets);
      };
      suppose(run.rule.source, branch, follow, out);
      return;
    }
    if (likelihood < 1) out.next.push(likelihood === 0 ? branch : {...branch, probability: branch.probability * (1 - likelihood)});
    if (likelihood === 0) return;
    branch = likelihood === 1 ? branch : {...branch, probability: branch.probability * likelihood};
    const next = action === null ? branch : act(run, action, {branch, rest, out});
    run.environment.sender?.commitAdded();
    if (next === null) return;
    branch = next;
  }
  out.next.push(branch);
}

/** The conditions of a rule that the search for it has not decided. */
function undecidedOf({decided, environment}: RuleRun, conditions: readonly Condition[]): readonly Condition[] {
  if (decided === undefined || environment.sender === undefined) return conditions;
  return conditions.filter(one => one.kind !== 'compare' || one.left.kind !== 'field' || one.left.field.name !== decided);
}

function evaluation({hook, priority, environment, place, set}: RuleRun, {packet}: Branch): Evaluation {
  return {packet, hook, priority, environment, place, set};
}

interface At {
  readonly branch: Branch;
  /** The steps after this one. */
  rest(branch: Branch, out: Outlets): void;
  readonly out: Outlets;
}

/** The branch that continues with the next step; null if there is none. */
function act(run: RuleRun, action: Action, at: At): Branch | null {
  const {out} = at;
  const branch = taken(run, at.branch);
  switch (action.kind) {
    case 'verdict':
      return end(out, {...branch, verdict: action.verdict});
    case 'call':
      return call(run, action, at);
    case 'verdict map':
      return runVerdictMap(run, action, at);
    case 'assign':
      return assign(run, action, at);
    case 'nat':
      return translate(run, action, at);
    case 'notrack':
      // Later it is too late, and on the loopback interface the packet keeps its connection.
      return isUntracked(run, branch) ? {...branch, packet: {...branch.packet, untracked: true}} : at.branch;
    case 'capture': {
      const captured = capture(branch, run.environment);
      return action.goesOn && captured.verdict === 'accept' ? {...branch, packet: captured.packet} : end(out, captured);
    }
    case 'queue':
      if (run.environment.readsQueue?.(action.low, action.high) === false)
        return end(out, {...branch, verdict: action.isBypassed ? 'accept' : 'drop'});
      return end(out, undecided(branch, 'the program that reads the queue of NFQUEUE decides'));
    case 'noted':
      return branch;
    case 'unknown':
      return end(out, undecided(branch, action.reason));
  }
}

/** Of a connection that is there, TPROXY gives a packet to the process of the node that has it, and drops it if there is none. */
function capture(branch: Branch, {isLocal}: Environment): ChainResult {
  const {packet} = branch;
  const {connection, destination} = packet;
  if (connection === undefined) return {...branch, packet: {...packet, captured: true}, verdict: 'accept'};
  if (!connection.isTranslated && isLocal(destination) !== false) return {...branch, verdict: 'accept'};
  return {...branch, verdict: 'drop', reason: 'TPROXY takes them, and no process of the node has their connection'};
}

/** Adds the rule to those that the packet matched. */
function taken({rule: {source}}: RuleRun, branch: Branch): Branch {
  return branch.path?.rule === source ? branch : {...branch, path: {rule: source, before: branch.path}};
}

function end(out: Outlets, result: ChainResult): null {
  out.done.push(result);
  return null;
}

function call(run: RuleRun, {chain, isGoto, otherwise}: Action & {readonly kind: 'call'}, at: At): Branch | null {
  const results = run.call(chain, taken(run, at.branch));
  if (results === null) return otherwise === undefined ? taken(run, at.branch) : act(run, otherwise, at);
  // A packet that reaches the end of a chain that was entered by goto returns to where this chain was called.
  for (const result of results) (result.verdict === 'return' && !isGoto ? at.out.next : at.out.done).push(result);
  return null;
}

/** The verdict for the key, or the next rule. */
function runVerdictMap(run: RuleRun, {key, elements}: Action & {readonly kind: 'verdict map'}, at: At): null {
  const {branch, out, rest} = at;
  const give = (value: string, from: Branch, outlets: Outlets): void => {
    const next = act(run, verdictAction(value), {branch: from, rest, out: outlets});
    if (next !== null) rest(next, outlets);
  };
  const found = choose(key, elements, evaluation(run, branch));
  if (found === null) {
    const verdicts = new Set(elementsIn(elements, run).map(({value}) => value ?? ''));
    const tryAll = (supposed: Branch, outlets: Outlets): void => {
      if (verdicts.size === 0) end(outlets, undecided(taken(run, supposed), 'what the map holds is not known'));
      for (const verdict of verdicts) give(verdict, supposed, outlets);
    };
    suppose(run.rule.source, branch, tryAll, out);
    return null;
  }
  for (const {value, share} of found.choices) give(value, {...branch, probability: branch.probability * share}, out);
  if (found.rest > 0) out.next.push({...branch, probability: branch.probability * found.rest});
  return null;
}

function assign(run: RuleRun, {to, value}: Action & {readonly kind: 'assign'}, {branch, out}: At): Branch | null {
  const marked = taken(run, branch);
  const {packet} = branch;
  if (value.kind === 'map' && choose(value.key, value.elements, evaluation(run, branch))?.choices.length === 0) {
    // A map without the key: the rule does not match.
    out.next.push(branch);
    return null;
  }
  const number = numberOf(value, evaluation(run, branch));
  const drawn = value.kind === 'field' ? fieldValue(value.field, evaluation(run, branch)) : null;
  if (to === 'mark' && (drawn?.kind === 'hash' || drawn?.kind === 'random') && drawn.count > 0 && drawn.count <= maxDrawn) {
    for (let at = 0; at < drawn.count; at++)
      out.next.push({...marked, probability: branch.probability / drawn.count, packet: {...packet, mark: drawn.first + at}});
    return null;
  }
  if (to === 'mark' || to === 'ct mark') {
    if (number === null) return end(out, undecided(marked, `the value of ${to === 'mark' ? 'meta mark' : to} is unknown`));
    return {...marked, packet: to === 'mark' ? {...packet, mark: number} : {...packet, connectionMark: number}};
  }
  if (to === 'ct label') return {...marked, packet: {...packet, isLabeled: true}};
  if (number === null) return marked;
  if (to === 'hops' || to === 'tos') return {...marked, packet: {...packet, [to]: number}};
  return isUntracked(run, branch) ? {...marked, packet: {...packet, zone: zones(to, number, packet)}} : marked;
}

/** Of more marks, each would be walked by itself. */
const maxDrawn = 16;

/** Whether connection tracking has not seen the packet yet. */
function isUntracked(run: RuleRun, {packet}: Branch): boolean {
  return isBeforeTracking(run) && packet.inInterface !== 'lo';
}

function zones(to: AssignedField & `zone${string}`, zone: number, packet: Packet): NonNullable<Packet['zone']> {
  const {original, reply} = packet.zone ?? {original: 0, reply: 0};
  return {original: to === 'zone-reply' ? original : zone, reply: to === 'zone-orig' ? reply : zone};
}

type NatAction = Action & {readonly kind: 'nat'};

/** A translated packet leaves its base chain. */
function translate(run: RuleRun, action: NatAction, at: At): null {
  const {out} = at;
  const branch = taken(run, at.branch);
  const {packet} = branch;
  const isOfSource = run.hook === 'postrouting' || run.hook === 'input';
  const isMasquerade = action.nat === 'masquerade' || action.nat === 'snat' || (action.nat === 'netmap' && isOfSource);
  const ports = isMasquerade ? portsToDraw(action) : {};
  if (ports.drawnPorts !== undefined && sizeOf(ports.drawnPorts) < fewPorts)
    return end(out, undecided(branch, `this rule has source ports for too few connections: ${run.rule.source.text}`));
  const bare = action.nat === 'redirect' ? bareInterface(run.environment, packet) : null;
  if (bare !== null)
    return end(out, {...branch, verdict: 'drop', reason: `REDIRECT sends them to an address of ${bare}, and the interface has none`});
  const targets = isMasquerade ? sourcesOf(run, action, branch, ports) : targetsOf(run, action, branch);
  if (targets === null)
    return end(out, undecided(branch, `the destination is unknown to which this rule sends it: ${run.rule.source.text}`));
  for (const {packet: sent, share} of targets.choices)
    end(out, {...branch, packet: sent, probability: branch.probability * share, verdict: 'accept'});
  // A map without the key: the rule does not match.
  if (targets.rest > 0) out.next.push({...at.branch, probability: branch.probability * targets.rest});
  return null;
}

/** `rest`: the share for which a map has no key: the rule does not match. */
function sourcesOf(run: RuleRun, {to}: NatAction, branch: Branch, ports: Pick<Packet, 'drawnPorts'>) {
  const {packet} = branch;
  const given = to?.kind === 'map' ? choose(to.key, to.elements, evaluation(run, branch), true) : null;
  const constant = to?.kind === 'constant' ? [{value: to.text, share: 1}] : [{value: '', share: 1}];
  const choices = (given?.choices ?? constant).flatMap(({value, share}) => {
    const text = constantAddress(value.replace(/ .*/, ''), packet.source) ?? '';
    const sources = text === '' ? [{address: null, share: 1}] : newSources(text, packet, run.environment);
    return sources.map(({address, share: part}) => {
      const changed: Packet = {...packet, masquerade: true, sourceAfter: address ?? packet.sourceAfter, ...ports};
      return {packet: changed, share: part * share};
    });
  });
  return {choices, rest: given?.rest ?? 0};
}

/**
 * Of a range, the kernel takes an address by a hash of the sender: any that the node does not have stands for all such, and those that it has
 * are as that of MASQUERADE.
 */
function newSources(text: string, {family}: Packet, {localAddresses}: Environment) {
  const range = parseInterval(text);
  if (range === null || range.low === range.high) return [{address: parseAddress(text), share: 1}];
  const whole: Intervals = [[range.low, range.high]];
  const own = localAddresses?.(family);
  const [foreign] = own === undefined ? [] : subtract(whole, own);
  if (own === undefined || foreign === undefined) return [{address: null, share: 1}];
  const address: Address = {family, value: foreign[0], text: formatAddress(family, foreign[0])};
  const share = Number(sizeOf(intersect(own, whole))) / Number(sizeOf(whole));
  return [{address, share: 1 - share}, ...(share === 0 ? [] : [{address: null, share}])];
}

/**
 * The ports of which a new source port is drawn: the range that the rule names (`1000-2000`), or, for one of the ports from which clients
 * connect, all that need no rights. Source: `nf_nat_l4proto_unique_tuple`.
 */
function portsToDraw({port, isRandom}: NatAction): Pick<Packet, 'drawnPorts'> {
  const [low = '', high = low] = (port ?? '').split('-');
  if (/^\d+$/.test(low) && /^\d+$/.test(high)) return {drawnPorts: [[BigInt(low), BigInt(high)]]};
  return isRandom ? {drawnPorts} : {};
}

/** So many are taken by connections that ended in the last two minutes. */
const fewPorts = 128n;

/** The ports that need no rights. */
export const drawnPorts: Intervals = [[1024n, 65_535n]];

/** A network replaces the one of the address, and leaves the host in it. Null if it is none. */
function constantAddress(text: string, {family, value}: Address): string | null {
  const range = text.includes('/') ? parseInterval(text) : null;
  if (range === null) return text;
  return range.family === family ? formatAddress(family, range.low + (value & (range.high - range.low))) : null;
}

/** A connection gets one of these addresses, by a hash of its own; null for more than are walked. */
function membersOf(text: string): readonly string[] | null {
  const range = text.includes('-') ? parseInterval(text) : null;
  if (range === null) return [text];
  const count = Number(range.high - range.low) + 1;
  return count > maxMembers ? null : Array.from({length: count}, (_, index) => formatAddress(range.family, range.low + BigInt(index)));
}

const maxMembers = 64;

/** Null if it is unknown which of several addresses or ports is taken. */
function targetsOf(run: RuleRun, action: NatAction, branch: Branch) {
  const {to, port} = action;
  const {packet} = branch;
  if (port === null) return null;
  if (to?.kind !== 'map') {
    const text = destinationOf(run, action, packet);
    const all = text === null ? null : membersOf(text);
    const sent = all?.flatMap(address => rewritten(packet, address, port) ?? []) ?? [];
    if (all === null || sent.length < all.length || dependsOnSender(sent, run)) return null;
    return {choices: sent.map(one => ({packet: one, share: 1 / all.length})), rest: 0};
  }
  const found = choose(to.key, to.elements, evaluation(run, branch), true);
  const choices = found?.choices.flatMap(({value, share}) => {
    const [address = '', mappedPort = port] = value.split(' . ');
    const sent = rewritten(packet, constantAddress(address, packet.destination), mappedPort);
    return sent === null ? [] : [{packet: sent, share}];
  });
  if (found === null || choices?.length !== found.choices.length) return null;
  const isHashed = to.key.kind === 'field' && to.key.field.name === 'hash';
  const sent = choices.map(one => one.packet);
  return isHashed && dependsOnSender(sent, run) ? null : {choices, rest: found.rest};
}

/** One sender always gets the same of several addresses: which one matters where somebody has one of them. */
function dependsOnSender(sent: readonly Packet[], {environment: {isLocal, isKnown}}: RuleRun): boolean {
  return sent.length > 1 && sent.some(({destination}) => isLocal(destination) !== false || isKnown?.(destination) === true);
}

/** An address, or a range of them; null if it is unknown. */
function destinationOf(run: RuleRun, {nat, to}: NatAction, packet: Packet): string | null {
  if (nat === 'redirect') return redirectAddress(run, packet);
  if (to === null) return packet.destination.text;
  return to.kind === 'constant' ? constantAddress(to.text, packet.destination) : null;
}

function redirectAddress({environment}: RuleRun, packet: Packet): string | null {
  const loopback = packet.family === 'IPv4' ? '127.0.0.1' : '::1';
  return packet.origin === 'node' ? loopback : (environment.redirectAddress(packet)?.text ?? null);
}

/** The interface of an arriving packet, if it has no address; of IPv6, each has one. Source: `nf_nat_redirect` of the kernel. */
function bareInterface(environment: Environment, packet: Packet): string | null {
  const {family, inInterface, origin} = packet;
  const {bareInterfaces: bare} = environment;
  if (family !== 'IPv4' || origin === 'node' || inInterface === null || bare === undefined) return null;
  askAddress(environment.behind?.(bare, family) ?? [], 'source', packet, environment);
  return bare.has(inInterface) ? inInterface : null;
}

function rewritten(packet: Packet, address: string | null, port: string): Packet | null {
  const destination = address === null ? null : parseAddress(address);
  const toPort = port === '' ? packet.port : Number(port);
  if (destination === null || !Number.isInteger(toPort)) return null;
  const original = packet.original ?? {destination: packet.destination, port: packet.port};
  return {...packet, destination, port: toPort, rewritten: true, original};
}
