import type {ChainSource, Rule} from '../model/ruleset.ts';
import {realServerRule, sendTo, serverRule, sharesOf} from './balance.ts';
import type {Outcome} from './outcome.ts';
import {type Environment, type Packet, pathRules} from './packet.ts';
import {type Branch, type ChainResult, SeenRules, type WalkContext, walkChain} from './walk-chain.ts';

/**
 * Walks the first packet of a connection through a node's rules as the kernel does: raw, mangle, nat and filter in the order
 * of the hooks it passes. The probabilities of the outcomes add up to 1.
 */
export function walkPacket(rules: ChainSource, packet: Packet, environment: Environment): readonly Outcome[] {
  const context: WalkContext = {rules, environment, budget: inVain.has(rules) ? shortBudget : walkBudget, seen: new SeenRules()};
  const start: Branch = {packet, probability: 1, path: null, assumed: [], supposed: null};
  const ends =
    packet.origin === 'node'
      ? passHooks(context, outputHooks, [start]).flatMap(end => balance(context, end) ?? sendOut(context, end))
      : passHooks(context, preroutingHooks, [start]).flatMap(end => afterRouting(context, end));
  if (context.budget < 0) inVain.add(rules);
  return summarise(ends);
}

/** Rules looked at in one walk. Through a real node's rules that is a few hundred, and some dozens for each endpoint of a large Service. */
const walkBudget = 500_000;

/** Rulesets whose chains fork and meet again without end: after one long walk in vain all others through them are short. */
const inVain = new WeakSet<ChainSource>();
const shortBudget = 2_000;

type Hook = readonly [table: string, chain: string];

const preroutingHooks: readonly Hook[] = [
  ['raw', 'PREROUTING'],
  ['mangle', 'PREROUTING'],
  ['nat', 'PREROUTING'],
];
const outputHooks: readonly Hook[] = [
  ['raw', 'OUTPUT'],
  ['mangle', 'OUTPUT'],
  ['nat', 'OUTPUT'],
];
/** IPVS takes the node's own packets between these and the hooks before. */
const lateOutputHooks: readonly Hook[] = [
  ['filter', 'OUTPUT'],
  ['security', 'OUTPUT'],
];
/** What IPVS sends on passes as if the node had sent it; table nat is not asked a second time. */
const balancedHooks: readonly Hook[] = [['raw', 'OUTPUT'], ['mangle', 'OUTPUT'], ...lateOutputHooks];
const inputHooks: readonly Hook[] = [
  ['mangle', 'INPUT'],
  ['filter', 'INPUT'],
  ['security', 'INPUT'],
];
const forwardHooks: readonly Hook[] = [
  ['mangle', 'FORWARD'],
  ['filter', 'FORWARD'],
  ['security', 'FORWARD'],
];
const postroutingHooks: readonly Hook[] = [
  ['mangle', 'POSTROUTING'],
  ['nat', 'POSTROUTING'],
];
/** A packet of the node to itself leaves by the loopback interface and comes in again; nat is not asked a second time. */
const loopbackHooks: readonly Hook[] = [['raw', 'PREROUTING'], ['mangle', 'PREROUTING'], ...inputHooks];

function sendOut(context: WalkContext, end: ChainResult): readonly ChainResult[] {
  return end.verdict === 'accept' ? passHooks(context, lateOutputHooks, [end]).flatMap(result => afterRouting(context, result)) : [end];
}

/** Routing after the first hooks: to the node itself, onwards, or out. */
function afterRouting(context: WalkContext, end: ChainResult): readonly ChainResult[] {
  if (end.verdict !== 'accept') return [end];
  const {packet} = end;
  const local = context.environment.isLocal(packet.destination);
  if (packet.origin === 'node') {
    const sent = passHooks(context, postroutingHooks, [{...end, packet: {...packet, inInterface: null}}]);
    return local
      ? sent.flatMap(result => (result.verdict === 'accept' ? passHooks(context, loopbackHooks, [onLoopback(result)]) : [result]))
      : sent;
  }
  const forwarded = (): readonly ChainResult[] => passHooks(context, [...forwardHooks, ...postroutingHooks], [end]);
  if (local === false) return forwarded();
  const delivered = passHooks(context, inputHooks, [end]).flatMap(result => balance(context, result) ?? [result]);
  if (local) return delivered;
  const onwards = forwarded();
  return sameVerdicts(delivered, onwards) ? onwards : [localityUnknown(end)];
}

/** What IPVS makes of a packet; null when it is for no virtual server. */
function balance(context: WalkContext, end: ChainResult): readonly ChainResult[] | null {
  const server = end.verdict === 'accept' ? context.environment.virtualServer?.(end.packet) : undefined;
  if (server === undefined) return null;
  const picks = sharesOf(server);
  const path = {rule: serverRule(server), before: end.path};
  if (picks.length === 0) return [{...end, path, verdict: 'reject'}];
  return picks.flatMap(({real, share}) => {
    const sent = sendTo(real, {...end, probability: end.probability * share, path: {rule: realServerRule(server, real), before: path}});
    return sent.verdict === 'accept' ? deliver(context, sent) : [sent];
  });
}

/** A packet that arrived for a real server of the node itself goes no further; all others leave. */
function deliver(context: WalkContext, sent: ChainResult): readonly ChainResult[] {
  const {packet} = sent;
  if (packet.origin === 'arriving' && context.environment.isLocal(packet.destination) === true) return [sent];
  return passHooks(context, [...balancedHooks, ...postroutingHooks], [{...sent, packet: {...packet, inInterface: null}}]);
}

function sameVerdicts(a: readonly ChainResult[], b: readonly ChainResult[]): boolean {
  const verdicts = (results: readonly ChainResult[]): string =>
    [...new Set(results.filter(({supposed}) => supposed === null).map(({verdict}) => verdict))].sort().join();
  return verdicts(a) === verdicts(b);
}

function localityUnknown(end: ChainResult): ChainResult {
  const reason = `whether ${end.packet.destination.text} is an address of the node is not known, and INPUT and FORWARD treat the packet differently`;
  return {...end, verdict: 'undecided', reason};
}

function onLoopback(branch: Branch): Branch {
  return {...branch, packet: {...branch.packet, inInterface: 'lo', outInterface: null}};
}

function passHooks(context: WalkContext, hooks: readonly Hook[], branches: readonly Branch[]): readonly ChainResult[] {
  const ended: ChainResult[] = [];
  let live: readonly ChainResult[] = branches.map(branch => ({...branch, verdict: 'accept'}));
  for (const hook of hooks) {
    const results = live.flatMap(branch => passHook(context, hook, branch));
    for (const result of results) if (result.verdict !== 'accept') ended.push(result);
    live = results.filter(({verdict}) => verdict === 'accept');
  }
  return [...ended, ...live];
}

function passHook(context: WalkContext, [table, name]: Hook, branch: ChainResult): readonly ChainResult[] {
  const chain = context.rules.chain(table, name);
  if (chain === undefined || (table === 'nat' && branch.packet.untracked)) return [branch];
  // RETURN from a base chain ends in its policy.
  const verdict = chain.policy === 'DROP' ? 'drop' : 'accept';
  const {packet, probability, path, assumed, supposed} = branch;
  return walkChain(context, table, chain, {packet, probability, path, assumed, supposed}).map(result =>
    result.verdict === 'return' ? {...result, verdict, policy: `${table}/${name}`} : result,
  );
}

/**
 * Puts the ends together. An end that rests on a rule that could not be told stands only if the same fates had waited for the
 * packet had the rule matched; otherwise it is undecided.
 */
function summarise(ends: readonly ChainResult[]): readonly Outcome[] {
  const real = ends.filter(({supposed}) => supposed === null);
  const doubtful = doubtfulRules(ends);
  return real.map(end => {
    // A rule may only seem to matter because of one after it that cannot be told either.
    const doubt = end.assumed.findLast(rule => doubtful.has(rule));
    if (doubt === undefined) return outcome(end);
    const other = doubtful.get(doubt);
    const reason = `whether this rule matches cannot be told, and it would lead to ${other === undefined ? 'something else' : fate(other)}: ${doubt.text}`;
    return {...outcome(end), verdict: 'undecided', destination: null, reason, doubt};
  });
}

/** The rules whose match would change what may become of the packet, each with an end that it would then come to. */
function doubtfulRules(ends: readonly ChainResult[]): ReadonlyMap<Rule, ChainResult> {
  const usual = new Map<Rule, Set<string>>();
  for (const end of ends) if (end.supposed === null) for (const rule of end.assumed) fatesOf(usual, rule).add(fate(end));
  const supposed = new Map<Rule, Set<string>>();
  for (const end of ends) if (end.supposed !== null) fatesOf(supposed, end.supposed).add(fate(end));
  const doubtful = new Map<Rule, ChainResult>();
  for (const end of ends) {
    const rule = end.supposed;
    if (rule === null) continue;
    const isNew = !fatesOf(usual, rule).has(fate(end));
    const isFewer = !doubtful.has(rule) && fatesOf(supposed, rule).size < fatesOf(usual, rule).size;
    if (isNew || isFewer) doubtful.set(rule, end);
  }
  return doubtful;
}

function fatesOf(map: Map<Rule, Set<string>>, rule: Rule): Set<string> {
  const fates = map.get(rule) ?? new Set();
  map.set(rule, fates);
  return fates;
}

function fate({verdict, packet}: ChainResult): string {
  return [
    verdict,
    ...(packet.rewritten ? [hostPort(packet)] : []),
    ...(packet.masquerade && verdict === 'accept' ? ['masquerade'] : []),
  ].join(' ');
}

function outcome(end: ChainResult): Outcome {
  const {packet, probability, path, verdict, reason, policy} = end;
  return {
    verdict: verdict === 'return' ? 'accept' : verdict,
    destination: packet.rewritten && verdict !== 'undecided' ? hostPort(packet) : null,
    probability,
    masquerade: packet.masquerade,
    path: pathRules(path),
    ...(reason === undefined ? {} : {reason}),
    ...(verdict === 'drop' && policy !== undefined ? {policy} : {}),
  };
}

export function hostPort({destination, port}: {readonly destination: {readonly text: string}; readonly port: number}): string {
  return destination.text.includes(':') ? `[${destination.text}]:${port}` : `${destination.text}:${port}`;
}
