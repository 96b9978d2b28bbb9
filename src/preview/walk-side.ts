import type {WrittenSide} from '../analyze/expected-side.ts';
import {collectPathOutcome, type PathOutcome} from '../analyze/outcomes/path-outcome.ts';
import type {RuleText} from '../model/ruleset.ts';
import type {Intervals} from '../model/intervals.ts';
import type {ConnectionOutcome, Outcome, Packet} from '../trace/packet.ts';
import {type Side, walkConnection, walkSide} from '../trace/side.ts';

/** One of the two sides of a node in one family. */
export interface WalkedSide extends Side, Pick<WrittenSide, 'context' | 'ports' | 'expected' | 'local'> {
  /** The addresses of the node's pods, where replies are walked as well; see `walksReplies`. */
  readonly pods?: Intervals;
}

/**
 * Where the first packet of a connection ends on one side. It holds no rules: outcomes are kept for other nodes, and rules would keep the
 * dumps of the node in memory.
 */
export interface SideOutcome extends Pick<PathOutcome, 'passed' | 'rejected' | 'dropped' | 'undecided'> {
  /** Endpoints by `ip:port`. */
  readonly destinations: ReadonlyMap<string, SideShare>;
  /** What drops or rejects the packet first; null if nothing does. */
  readonly refusal: Refusal | null;
}

export interface SideShare {
  readonly probability: number;
  readonly masquerade: boolean;
}

/** The chain of the last rule that the packet matched; null if it matched none. */
interface Refusal {
  readonly byPolicy: boolean;
  readonly last: {readonly table: string; readonly chain: string} | null;
}

export function sideOutcome(side: WalkedSide, packet: Packet): SideOutcome {
  const {pods, environment} = side;
  // A load balancer may put its address on the node, where the reply would come back.
  const isAnswered = packet.origin !== 'node' || environment.isLocal(packet.source) === true;
  const outcomes: readonly Outcome<RuleText>[] =
    pods === undefined || !isAnswered
      ? walkSide(side, packet)
      : walkConnection(side, packet, {pods, signature: text => text}).map(withReply);
  const {passed, rejected, dropped, undecided, destinations} = collectPathOutcome<RuleText>(outcomes, () => null);
  const shares = [...destinations].map(([name, {probability, masquerade}]) => [name, {probability, masquerade}] as const);
  return {passed, rejected, dropped, undecided, destinations: new Map(shares), refusal: refusalIn(outcomes)};
}

/** A connection whose reply a rule keeps away is not served. Whether an endpoint sees itself as its client is told by its hairpin. */
function withReply({lost, ...outcome}: ConnectionOutcome): Outcome<RuleText> {
  if (lost === undefined || lost.outcome.path.length + (lost.outcome.policy?.length ?? 0) === 0) return outcome;
  const {verdict, policy, path} = lost.outcome;
  return {...outcome, verdict, path, destination: null, ...(policy === undefined ? {} : {policy})};
}

function refusalIn(outcomes: readonly Outcome<RuleText>[]): Refusal | null {
  const found = outcomes.find(({verdict}) => verdict === 'drop' || verdict === 'reject');
  if (found === undefined) return null;
  const last = found.path.at(-1);
  return {byPolicy: found.policy !== undefined, last: last === undefined ? null : {table: last.table, chain: last.chain}};
}
