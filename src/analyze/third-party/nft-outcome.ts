import type {Severity} from '../../model/finding.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {describePathOutcome, type PathOutcome} from '../outcomes/path-outcome.ts';
import {whose} from '../outcomes/compare-outcomes.ts';
import type {Probe} from '../outcomes/probes.ts';
import type {SymptomKind} from '../symptoms/symptom.ts';
import {
  asksForInterface,
  decidedAt,
  isKubeProxys,
  isOfPolicy,
  masquerades,
  type NodeRule,
  rewrites,
  setsMark,
  takesPackets,
  untracks,
} from './nft-rule.ts';

/** What is wrong with one entry from one source, and the rule that does it. */
export interface NftRuleEffect {
  readonly kind: SymptomKind;
  /** When it is not the usual one of its kind. */
  readonly severity?: Severity;
  readonly probe: Probe;
  readonly detail: string;
  /** Null when it is the policy of a chain, whose name is in `policy`. */
  readonly rule: NodeRule | null;
  readonly policy?: string;
}

/** A probe that was walked through all rules of a node. */
export interface WalkedProbe {
  readonly probe: Probe;
  /** The outcome in kube-proxy's table alone. */
  readonly alone: PathOutcome<RuleText>;
  readonly pathOutcome: PathOutcome<RuleText>;
  /** The table that is kube-proxy's. */
  readonly own: string;
  readonly ruleset: NftRuleset;
  /** A dump of the node's rules is truncated. */
  readonly isCut: boolean;
  /** Whether the packet is for one of the node's own addresses; null when the node's interfaces were not read. */
  readonly isLocal: boolean | null;
}

/** Null when the outcome is the one of kube-proxy's table alone, or is not caused by a third-party rule. */
export function compareThirdPartyOutcome(outcome: Outcome<NodeRule>, walked: WalkedProbe): NftRuleEffect | null {
  if (outcome.verdict === 'undecided') return analyzeUndecided(outcome, walked);
  if (outcome.verdict === 'accept') return analyzeAccepted(outcome, walked);
  return refusal(outcome, walked);
}

function analyzeUndecided({doubt, path, reason}: Outcome<NodeRule>, {probe, alone, own, isCut}: WalkedProbe): NftRuleEffect | null {
  const rule = doubt ?? path.at(-1);
  // A truncated dump is a finding of its own.
  if (alone.undecided > 0 || rule === undefined || (doubt === undefined && isCut)) return null;
  if (isKubeProxys(rule, own) || isOfPolicy(rule) || (doubt !== undefined && asksForInterface(doubt))) return null;
  const detail = `the outcome for ${whose(probe)} is undetermined: ${reason ?? ''}`;
  return {kind: 'undecided-path', probe, rule, detail, ...(masquerades(rule) ? {severity: 'info'} : {})};
}

function refusal(outcome: Outcome<NodeRule>, {alone, probe, own, ruleset}: WalkedProbe): NftRuleEffect | null {
  const {verdict, path, policy, destination} = outcome;
  const rule = policy === undefined ? (path.at(-1) ?? null) : null;
  if (alone.destinations.size === 0 || rule?.table === own || (rule === null && policy?.startsWith(`${own}/`))) return null;
  const who = whose(probe);
  const refused = verdict === 'reject' ? 'refused' : 'dropped';
  if (rule !== null && isOfPolicy(rule))
    return {kind: 'dropped-by-other-rule', severity: 'info', probe, rule, detail: `${who} are ${refused} by a network policy`};
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

function analyzeAccepted({path, destination}: Outcome<NodeRule>, walked: WalkedProbe): NftRuleEffect | null {
  const {probe, alone, pathOutcome, own} = walked;
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
    if (isServedByCache(rule, walked)) return servedByCache(rule, probe);
    const detail = `${who} never reach kube-proxy's rules, because a third-party rule intercepts them; they should reach ${describePathOutcome(alone)}`;
    return {kind: 'entry-taken-by-other-rule', probe, rule, detail};
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

/** NodeLocal DNSCache binds the cluster IP of the DNS Service on the node, and switches connection tracking off for it. */
function isServedByCache(rule: NodeRule, {probe, isLocal}: WalkedProbe): boolean {
  return untracks(rule) && probe.packet.port === 53 && (isLocal ?? rule.text.includes('NodeLocal DNS Cache'));
}

function servedByCache(rule: NodeRule, probe: Probe): NftRuleEffect {
  const detail = `${whose(probe)} are answered by the node itself, without kube-proxy's rules: NodeLocal DNSCache has bound the address`;
  return {kind: 'entry-taken-by-other-rule', severity: 'info', probe, rule, detail};
}
