import type {RuleText} from '../model/ruleset.ts';
import {joinHostPort} from '../model/virtual-server.ts';
import type {ChainResult} from './branch.ts';
import type {Outcome} from './outcome.ts';
import {type Packet, pathRules} from './packet.ts';

/**
 * Merges the ends of all branches. An end that depends on a rule whose match is unknown counts only if the outcomes are the same when the
 * rule matches; otherwise it is undecided.
 */
export function summarizeBranches<R extends RuleText>(ends: readonly ChainResult<R>[]): readonly Outcome<R>[] {
  return summarizeEnds(ends).map(({outcome}) => outcome);
}

/** An outcome, and the packet at the end of its path. */
export interface OutcomeEnd<R extends RuleText> {
  readonly outcome: Outcome<R>;
  readonly packet: Packet;
}

export function summarizeEnds<R extends RuleText>(ends: readonly ChainResult<R>[]): readonly OutcomeEnd<R>[] {
  const real = ends.filter(({supposed}) => supposed === null);
  const doubtful = doubtfulRules(ends);
  return real.map(end => {
    // A rule may only seem to matter because of a later one that cannot be evaluated either.
    const doubt = end.inferred.findLast(rule => doubtful.has(rule));
    const {packet} = end;
    if (doubt === undefined) return {packet, outcome: outcomeOf(end)};
    const others = doubtful.get(doubt) ?? [];
    const other = others.find(one => samePlace(one.packet, end.packet)) ?? others[0];
    const reason = `whether this rule matches cannot be told, and it would lead to ${other === undefined ? 'something else' : pathOutcome(other)}: ${doubt.text}`;
    return {packet, outcome: {...outcomeOf({...end, verdict: 'undecided'}), reason, doubt}};
  });
}

function samePlace(a: Packet, b: Packet): boolean {
  return a.destination.text === b.destination.text && a.port === b.port;
}

/** The rules whose match would change the outcome, each with the ends that the packet would then have. */
function doubtfulRules<R extends RuleText>(ends: readonly ChainResult<R>[]): ReadonlyMap<R, readonly ChainResult<R>[]> {
  const usual = new Map<R, Set<string>>();
  for (const end of ends) if (end.supposed === null) for (const rule of end.inferred) pathOutcomesOf(usual, rule).add(pathOutcome(end));
  const supposed = new Map<R, Set<string>>();
  for (const end of ends) if (end.supposed !== null) pathOutcomesOf(supposed, end.supposed).add(pathOutcome(end));
  const doubtful = new Map<R, ChainResult<R>[]>();
  for (const end of ends) {
    const rule = end.supposed;
    if (rule === null) continue;
    const isNew = !pathOutcomesOf(usual, rule).has(pathOutcome(end));
    const isFewer = !doubtful.has(rule) && pathOutcomesOf(supposed, rule).size < pathOutcomesOf(usual, rule).size;
    if (isNew || isFewer) doubtful.set(rule, [...(doubtful.get(rule) ?? []), end]);
  }
  return doubtful;
}

function pathOutcomesOf<R extends RuleText>(map: Map<R, Set<string>>, rule: R): Set<string> {
  const pathOutcomes = map.get(rule) ?? new Set();
  map.set(rule, pathOutcomes);
  return pathOutcomes;
}

function pathOutcome({verdict, packet}: ChainResult<RuleText>): string {
  return [
    verdict,
    ...(packet.rewritten ? [joinHostPort(packet.destination.text, packet.port)] : []),
    ...(packet.masquerade && verdict === 'accept' ? ['masquerade'] : []),
  ].join(' ');
}

function outcomeOf<R extends RuleText>(end: ChainResult<R>): Outcome<R> {
  const {packet, probability, path, verdict, reason, policy} = end;
  const rewrittenTo = packet.rewritten && packet.captured !== true ? joinHostPort(packet.destination.text, packet.port) : null;
  return {
    verdict: verdict === 'return' ? 'accept' : verdict,
    destination: verdict === 'undecided' ? null : rewrittenTo,
    ...(verdict === 'undecided' && rewrittenTo !== null ? {rewrittenTo} : {}),
    probability,
    masquerade: packet.masquerade,
    ...(packet.sourceAfter === undefined ? {} : {sourceAfter: packet.sourceAfter}),
    path: pathRules(path),
    ...(reason === undefined ? {} : {reason}),
    ...(verdict === 'drop' && policy !== undefined ? {policy} : {}),
  };
}
