import type {NftSource, NftTableSource} from '../../model/nft-ruleset.ts';
import {once} from '../../model/once.ts';
import type {ChainSource, Rule, RuleText} from '../../model/ruleset.ts';
import type {Environment, NodeRule, Outcome, Packet} from '../../trace/packet.ts';
import {type Side, walkSide} from '../../trace/side.ts';
import type {Probe} from './probes.ts';

/** One packet walked through the expected and through the actual rules. */
export interface ProbeComparison {
  readonly probe: Probe;
  readonly expected: PathOutcome;
  readonly actual: PathOutcome;
}

/** All outcomes of one walk, grouped by where they end. */
export interface PathOutcome {
  readonly outcomes: readonly Outcome[];
  /** Endpoints by `ip:port`. */
  readonly destinations: ReadonlyMap<string, Share>;
  /** Probabilities of the outcomes that reach no endpoint. */
  readonly passed: number;
  readonly rejected: number;
  readonly dropped: number;
  readonly undecided: number;
}

export interface Share {
  readonly probability: number;
  readonly masquerade: boolean;
  /** The list (of `recent`, or an affinity set) that records the client, so that it returns to this endpoint; null if there is none. */
  readonly remembered: string | null;
  readonly path: readonly NodeRule[];
}

/** Walks a packet through one set of rules. */
export type Walk = (packet: Packet, environment: Environment) => PathOutcome;

/** The walks of the same packets through the rules that are expected, or that others are compared with, and through the actual ones. */
export interface BothWalks {
  readonly expected: Walk;
  readonly actual: Walk;
}

export function collectPathOutcome(outcomes: readonly Outcome[]): PathOutcome {
  const destinations = new Map<string, Share>();
  const other = {passed: 0, rejected: 0, dropped: 0, undecided: 0};
  for (const {verdict, destination, probability, masquerade, path} of outcomes) {
    if (verdict === 'accept' && destination !== null) {
      const before = destinations.get(destination);
      destinations.set(destination, {
        probability: (before?.probability ?? 0) + probability,
        masquerade: masquerade || (before?.masquerade ?? false),
        remembered: before?.remembered ?? rememberedIn(path),
        path: before?.path ?? path,
      });
    } else other[verdictNames[verdict]] += probability;
  }
  return {outcomes, destinations, ...other};
}

/** The list that a path enters the client into: of `recent`, by the rule that translates, or an affinity set of nftables. */
function rememberedIn(path: readonly (RuleText & Partial<Pick<Rule, 'target' | 'matches'>>)[]): string | null {
  const rule = path.findLast(({target, text}) => (target === undefined ? text.startsWith('update @') : target?.name === 'DNAT'));
  if (rule?.target === undefined) return /^update @(\S+) \{/.exec(rule?.text ?? '')?.[1] ?? null;
  const recent = rule.matches?.find(({name, options}) => name === 'recent' && options.some(({flag}) => flag === '--set'));
  return recent?.options.find(({flag}) => flag === '--name')?.values[0] ?? null;
}

/** Where a packet ends on a side. */
export function outcomeOn(side: Side, packet: Packet): PathOutcome {
  return collectPathOutcome(walkSide(side, packet));
}

/** The walk of packets through these rules of iptables. */
export function walkOf(rules: ChainSource): Walk {
  return (packet, environment) => outcomeOn({iptables: [rules], nft: null, environment}, packet);
}

/** The walk of packets through this table alone. */
export function tableWalkOf(table: NftTableSource): Walk {
  const source = sourceOf(table);
  return (packet, environment) => outcomeOn({iptables: [], nft: source, environment}, packet);
}

/** A walk caches how long the paths of each ruleset may get. */
const sourceOf = once((table: NftTableSource): NftSource => ({tableSources: [table]}));

export const verdictNames = {accept: 'passed', reject: 'rejected', drop: 'dropped', undecided: 'undecided'} as const;

/** Probabilities are printed by iptables in units of 2^-31, and by kube-proxy up to 1.16 with five decimals. */
const tolerance = 2e-5;

/** Whether two walks end in the same outcomes, shares and masquerading, and record the client alike. */
export function isSameOutcome(a: PathOutcome, b: PathOutcome): boolean {
  if (!hasSameEnds(a, b)) return false;
  for (const [destination, share] of a.destinations) {
    const other = b.destinations.get(destination);
    if (other?.masquerade !== share.masquerade || other.remembered !== share.remembered) return false;
  }
  return true;
}

/** Whether two walks end in the same outcomes with the same shares. */
export function hasSameEnds(a: PathOutcome, b: PathOutcome): boolean {
  if (a.destinations.size !== b.destinations.size) return false;
  for (const [destination, {probability}] of a.destinations)
    if (!near(b.destinations.get(destination)?.probability ?? 0, probability)) return false;
  return near(a.passed, b.passed) && near(a.rejected, b.rejected) && near(a.dropped, b.dropped) && near(a.undecided, b.undecided);
}

/** Whether two walks end in outcomes of the same kinds: an endpoint, a refusal or none, and whether packets are masqueraded. */
export function hasSameKinds(a: PathOutcome, b: PathOutcome): boolean {
  return kindsOf(a) === kindsOf(b);
}

function kindsOf({destinations, passed, rejected, dropped, undecided}: PathOutcome): string {
  const isMasqueraded = [...destinations.values()].some(({masquerade}) => masquerade);
  return [destinations.size > 0, isMasqueraded, passed > 0, rejected > 0, dropped > 0, undecided > 0].join();
}

export function near(a: number, b: number): boolean {
  return Math.abs(a - b) <= tolerance;
}

/** Where the packets of a walk end, and what their senders see of it. */
export function describeLoss(pathOutcome: PathOutcome): string {
  const {passed, destinations} = pathOutcome;
  const seen = near(passed, 0)
    ? ''
    : destinations.size > 0
      ? `: ${Math.round(passed * 100)}% of connections time out`
      : ': connections time out';
  return `${describePathOutcome(pathOutcome)}${seen}`;
}

/** Where the packets of a walk end, in a few words. */
export function describePathOutcome(pathOutcome: PathOutcome): string {
  const parts: string[] = [];
  if (pathOutcome.destinations.size > 0)
    parts.push(
      pathOutcome.destinations.size > 3 ? `${pathOutcome.destinations.size} endpoints` : [...pathOutcome.destinations.keys()].join(', '),
    );
  if (pathOutcome.rejected > 0) parts.push('a REJECT');
  if (pathOutcome.dropped > 0) parts.push('a DROP');
  if (pathOutcome.undecided > 0) parts.push('a rule that cannot be evaluated');
  if (pathOutcome.passed > 0) parts.push('no endpoint at all');
  return parts.join(' and ');
}
