import {parseAddress} from '../model/address.ts';
import {holds, type Intervals} from '../model/intervals.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {Ruleset, RuleText} from '../model/ruleset.ts';
import {someOf} from '../model/text.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';
import {endsOf, type Environment, type Outcome, type Packet} from '../trace/packet.ts';
import {unknownOutside} from './outcomes/environment.ts';
import {backendOf, knowsAge, type Side, walkConnection} from '../trace/side.ts';

/** An outcome; of a packet that is accepted although the connection fails, that of the reply or of the next packet. */
export interface PacketOutcome extends Outcome, Pick<Packet, 'drawnPorts'> {
  readonly lost?: 'reply' | 'next';
  /** The Service port that the packet was sent to, if it reaches none of its endpoints. */
  readonly noEndpointOf?: string;
  /** The node of the endpoint, to which the packet is sent on, and its rules on the path there; null if they were not read. */
  readonly onward?: {readonly node: string; readonly path: readonly RuleText[] | null};
  /** Of an undetermined outcome in a few words, if they are known: `dropped unless filter/DOCKER-USER decides before`. */
  readonly condition?: string;
  /** Of an undetermined outcome: how the shown rules stop the packet once it is sent on, and which doubt remains about these rules. */
  readonly stopped?: {readonly verdict: 'drop' | 'reject'; readonly unless: string | null};
}

/** A node's rules: of iptables in one family, also of the other backend, and of nftables. */
export type PacketRules =
  | {readonly iptables: Ruleset; readonly nft: NftRuleset | null; readonly others?: readonly Ruleset[]}
  | {readonly iptables: null; readonly nft: NftRuleset; readonly others?: readonly Ruleset[]};

export interface Walked {
  readonly packet: Packet;
  readonly environment: Environment;
  /** The addresses of the node's pods. */
  readonly pods: Intervals;
}

/** Walks a connection through all rules of a node: it is accepted only if the reply and the next packet arrive as well. */
export function walkRules({iptables, nft, others = []}: PacketRules, walked: Walked): readonly PacketOutcome[] {
  const {environment} = walked;
  const own = iptables === null ? [] : [iptables];
  const side: Side = {iptables: [...own, ...others], nft, environment};
  const outcomes = walkIn(side, walked);
  if (nft === null ? !others.some(ruleset => ruleset.hasTable('nat')) : knowsAge(side, 'nat')) return outcomes;
  // Nothing shows which backend's hooks were registered first.
  const swapped = walkIn({iptables: [...others, ...own], nft, environment, isIptablesYounger: true}, walked);
  const textsOf = (found: readonly PacketOutcome[]): string =>
    translatingRules(found)
      .map(({text}) => text)
      .join();
  return endsOf(swapped) === endsOf(outcomes) || textsOf(swapped) === textsOf(outcomes) ? outcomes : [contested(outcomes, swapped)];
}

function translatingRules(outcomes: readonly PacketOutcome[]): readonly RuleText[] {
  return outcomes.flatMap(({path}) => path.filter(({text}) => / -j DNAT |\bdnat /.test(text)));
}

function contested(...orders: readonly (readonly PacketOutcome[])[]): PacketOutcome {
  const texts = orders.map(outcomes => {
    const [rule] = translatingRules(outcomes);
    const tool = rule?.table.includes(' ') === true ? 'nftables' : `iptables-${rule?.backend ?? 'nft'}`;
    const ends = [...new Set(outcomes.map(({verdict, destination}) => (verdict === 'accept' ? (destination ?? 'no endpoint') : verdict)))];
    return `${someOf(ends, {max: 4})} if the hook of ${tool} runs first`;
  });
  const reason = `rules of two backends translate the packet: ${texts.join(', ')}`;
  const path = orders.flatMap(translatingRules);
  return {verdict: 'undecided', destination: null, probability: 1, masquerade: false, path: [...new Set(path)], reason};
}

function walkIn(side: Side, {packet, environment, pods}: Walked): readonly PacketOutcome[] {
  return walkConnection(side, packet, {pods, signature: text => text}).map(({lost, ...rest}, _, all) => {
    const outcome = withBackends(rest, side);
    const {sourceAfter, verdict, destination, path} = outcome;
    // The node itself and a pod of it answer through the node, whatever the address.
    const end = parseAddress(splitHostPort(destination ?? '').address) ?? packet.destination;
    const isHere = environment.isLocal(end) !== false || holds(pods, end.value);
    if (lost !== undefined) {
      const later = withBackends(lost.outcome, side);
      const {reason, policy} = later;
      return {
        ...outcome,
        verdict: later.verdict,
        lost: lost.packet,
        path: [...path, ...later.path],
        ...(reason === undefined ? {} : {reason}),
        ...(policy === undefined ? {} : {policy}),
      };
    }
    if (verdict !== 'accept' || sourceAfter === undefined || isHere || environment.isLocal(sourceAfter) === null) return outcome;
    if (environment.isLocal(sourceAfter) === true) {
      if (environment.isKnownOutside?.(sourceAfter) !== false) return outcome;
      return {...outcome, verdict: 'undecided', reason: `SNAT gave the packet ${sourceAfter.text}, ${unknownOutside}`};
    }
    const isChance = all.some(other => other.destination === destination && other.sourceAfter === undefined && other.masquerade);
    if (isChance)
      return {
        ...outcome,
        verdict: 'undecided',
        reason: `which address SNAT takes is not known, and the node does not have ${sourceAfter.text}`,
      };
    const reason = `the node does not have the address ${sourceAfter.text} that SNAT gave the packet, so the reply does not come back to it`;
    return {...outcome, verdict: 'drop', lost: 'reply', reason};
  });
}

/** Says of rules and of a policy which backend of iptables has them, where the node has rules in both. */
function withBackends({path, policy, ...outcome}: PacketOutcome, side: Side): PacketOutcome {
  const [table = '', chain = ''] = policy?.split('/', 2) ?? [];
  const holder = policy === undefined ? null : backendOf(side, {table, chain});
  return {
    ...outcome,
    path: path.map(rule => {
      const backend = backendOf(side, rule);
      return backend === null ? rule : {...rule, backend};
    }),
    ...(policy === undefined ? {} : {policy: holder === null ? policy : `${policy} in iptables-${holder}`}),
  };
}
