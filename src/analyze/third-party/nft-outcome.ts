import type {NftRuleset} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {describePathOutcome, type PathOutcome} from '../outcomes/path-outcome.ts';
import {type Probe, whose} from '../outcomes/probes.ts';
import {decidedAt, isKubeProxys, isOfPolicy, type NodeRule, rewrites, setsMark, takesPackets, untracks} from './nft-rule.ts';
import {interceptedEffect, refusedByPolicy, type RuleEffect, type Undetermined, undeterminedEffect} from './rule-effect.ts';

/** A probe that was walked through all rules of a node. */
interface WalkedProbe extends Undetermined {
  readonly pathOutcome: PathOutcome<RuleText>;
  readonly ruleset: NftRuleset;
  /** Whether the packet is for one of the node's own addresses; null when the node's interfaces were not read. */
  readonly isLocal: boolean | null;
}

/** Null when the outcome is the one of kube-proxy's table alone, or is not caused by a third-party rule. */
export function compareThirdPartyOutcome(outcome: Outcome<NodeRule>, walked: WalkedProbe): RuleEffect | null {
  if (outcome.verdict === 'undecided') return undeterminedEffect(outcome, walked);
  if (outcome.verdict === 'accept') return analyzeAccepted(outcome, walked);
  return refusal(outcome, walked);
}

function refusal(outcome: Outcome<NodeRule>, {alone, probe, own, ruleset}: WalkedProbe): RuleEffect | null {
  const {verdict, path, policy, destination} = outcome;
  const rule = policy === undefined ? (path.at(-1) ?? null) : null;
  if (alone.destinations.size === 0 || rule?.table === own || (rule === null && policy?.startsWith(`${own}/`))) return null;
  const who = whose(probe);
  const refused = verdict === 'reject' ? 'refused' : 'dropped';
  if (rule !== null && isOfPolicy(rule)) return refusedByPolicy(rule, probe, refused);
  const by = policy === undefined ? 'by a third-party rule' : `by the policy of ${policy}`;
  const hook = decidedAt(outcome, ruleset);
  const isSentOn = destination !== null && hook !== 'input' && hook !== 'output';
  const base = {probe, rule, ...(policy === undefined ? {} : {policy}), ...(isUnusual(probe) ? {severity: 'info' as const} : {})};
  if (isSentOn) return {...base, kind: 'forward-blocked', detail: `${who} are sent to an endpoint and then ${refused} ${by}`};
  return {...base, kind: 'dropped-by-other-rule', detail: `${who} are ${refused} ${by}`};
}

/**
 * In iptables mode kube-proxy itself accepts what it masquerades, before any firewall rule. In nftables mode it leaves that to the
 * firewall, which need not expect packets from external clients to cluster IPs.
 */
function isUnusual({entry, source}: Probe): boolean {
  return entry.kind === 'clusterIP' && source.kind === 'outside';
}

function analyzeAccepted({path, destination}: Outcome<NodeRule>, walked: WalkedProbe): RuleEffect | null {
  const {probe, alone, pathOutcome, own, isLocal} = walked;
  const thirdParty = path.filter(rule => !isKubeProxys(rule, own));
  const who = whose(probe);
  if (destination !== null && !alone.destinations.has(destination)) {
    const rule = thirdParty.findLast(rewrites) ?? thirdParty.findLast(takesPackets);
    if (rule === undefined) return null;
    const detail = `${who} are sent to ${destination} by a third-party rule that comes before kube-proxy's rules`;
    return {kind: 'entry-taken-by-other-rule', probe, rule, detail};
  }
  if (destination === null && alone.destinations.size > 0) {
    const rule = thirdParty.find(untracks) ?? thirdParty.find(takesPackets);
    if (rule === undefined) return null;
    return interceptedEffect(rule, probe, {isLocal, reached: describePathOutcome(alone)});
  }
  if (
    alone.destinations.get(destination ?? '')?.masquerade !== true ||
    pathOutcome.destinations.get(destination ?? '')?.masquerade === true
  )
    return null;
  const rule = thirdParty.findLast(one => takesPackets(one) || setsMark(one));
  if (rule === undefined) return null;
  const detail = `${who} should be masqueraded, but a third-party rule intercepts them before kube-proxy's rules, or changes their mark`;
  return {kind: 'postrouting-broken', probe, rule, detail};
}
