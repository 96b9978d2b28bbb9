import type {RuleText} from '../../model/ruleset.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {describePathOutcome, near, type PathOutcome} from '../outcomes/path-outcome.ts';
import {type Probe, whose} from '../outcomes/probes.ts';
import {type NodeRule, setsMark} from './node-rule.ts';
import {interceptedEffect, type RuleEffect} from './rule-effect.ts';

/** A probe that was walked through all rules of a node. */
export interface WalkedProbe {
  readonly probe: Probe;
  /** The outcome in kube-proxy's rules alone. */
  readonly alone: PathOutcome<RuleText>;
  readonly pathOutcome: PathOutcome<RuleText>;
  /** Whether the packet is for one of the node's own addresses; null when the node's interfaces were not read. */
  readonly isLocal: boolean | null;
}

/** The third-party rule on the path of a packet that has an effect, as far as the mode can tell; null if there is none. */
export interface Causes<R extends NodeRule> {
  /** It sends the packet to another destination than kube-proxy's rules do. */
  readonly redirecting: () => R | null;
  /** It keeps the packet from kube-proxy's rules. */
  readonly intercepting: () => R | null;
  /** It keeps the packet from kube-proxy's masquerading, after an endpoint was chosen. */
  readonly unmasquerading: () => R | null;
  /** What a packet passes to be masqueraded: kube-proxy's chain or rules. */
  readonly masquerading: string;
}

/** Whether fewer packets reach the endpoints than by kube-proxy's rules alone: others are lost to a fault of these rules. */
export function losesPackets({alone, pathOutcome}: Pick<WalkedProbe, 'alone' | 'pathOutcome'>): boolean {
  for (const [destination, {probability}] of alone.destinations) {
    const left = pathOutcome.destinations.get(destination)?.probability ?? 0;
    if (left < probability && !near(left, probability)) return true;
  }
  return false;
}

/**
 * What third-party rules do to a packet that is accepted: it goes elsewhere, stays without an endpoint, or keeps its source address. The
 * same in all modes, but for the rule that causes it. Null if the outcome is that of kube-proxy's rules alone, or has no such cause.
 */
export function acceptedEffect<R extends NodeRule>(
  {destination}: Outcome<R>,
  walked: WalkedProbe,
  {redirecting, intercepting, unmasquerading, masquerading}: Causes<R>,
): RuleEffect<R> | null {
  const {probe, alone, pathOutcome, isLocal} = walked;
  const who = whose(probe);
  if (destination === null) {
    const rule = losesPackets(walked) ? intercepting() : null;
    return rule === null ? null : interceptedEffect(rule, probe, {isLocal, reached: describePathOutcome(alone)});
  }
  const share = alone.destinations.get(destination);
  if (share === undefined) {
    const rule = redirecting();
    if (rule === null) return null;
    const detail = `${who} are sent to ${destination} by a third-party rule that comes before kube-proxy's rules`;
    return {kind: 'entry-taken-by-other-rule', probe, rule, detail};
  }
  if (!share.masquerade || pathOutcome.destinations.get(destination)?.masquerade === true) return null;
  const rule = unmasquerading();
  if (rule === null) return null;
  const how = setsMark(rule) ? 'changes their mark' : `intercepts them before ${masquerading}`;
  return {kind: 'postrouting-broken', probe, rule, detail: `${who} should be masqueraded, but a third-party rule ${how}`};
}
