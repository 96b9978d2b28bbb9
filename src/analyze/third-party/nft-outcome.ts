import type {NftRuleset} from '../../model/nft-ruleset.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {whose} from '../outcomes/probes.ts';
import {acceptedEffect, losesPackets, type WalkedProbe} from './accepted-effect.ts';
import {decidedAt, isKubeProxys, isOfPolicy, type NodeRule, rewrites, setsMark, takesPackets, untracks} from './node-rule.ts';
import {ifUnusual, refusedByPolicy, type RuleEffect, undeterminedEffect} from './rule-effect.ts';

interface WalkedNftProbe extends WalkedProbe {
  /** kube-proxy's table. */
  readonly own: string;
  /** A dump of the node's rules is truncated, which is a finding of its own. */
  readonly isCut: boolean;
  readonly ruleset: NftRuleset;
}

/** Null when the outcome is the one of kube-proxy's table alone, or is not caused by a third-party rule. */
export function compareThirdPartyOutcome(outcome: Outcome<NodeRule>, walked: WalkedNftProbe): RuleEffect | null {
  const {own, isCut} = walked;
  const isOwn = (rule: NodeRule): boolean => isKubeProxys(rule, own);
  if (outcome.verdict === 'undecided') return undeterminedEffect(outcome, {...walked, isOwn, isCut});
  if (outcome.verdict !== 'accept') return refusal(outcome, walked);
  const thirdParty = outcome.path.filter(rule => !isOwn(rule));
  return acceptedEffect(outcome, walked, {
    redirecting: () => thirdParty.findLast(rewrites) ?? thirdParty.findLast(takesPackets) ?? null,
    intercepting: () => thirdParty.find(untracks) ?? thirdParty.find(takesPackets) ?? null,
    unmasquerading: () => thirdParty.findLast(one => takesPackets(one) || setsMark(one)) ?? null,
    masquerading: "kube-proxy's rules",
  });
}

function refusal(outcome: Outcome<NodeRule>, walked: WalkedNftProbe): RuleEffect | null {
  const {probe, own, ruleset} = walked;
  const {verdict, path, policy, destination} = outcome;
  const rule = policy === undefined ? (path.at(-1) ?? null) : null;
  if (!losesPackets(walked) || rule?.table === own || (rule === null && policy?.startsWith(`${own}/`))) return null;
  const who = whose(probe);
  const refused = verdict === 'reject' ? 'refused' : 'dropped';
  if (rule !== null && isOfPolicy(rule)) return refusedByPolicy(rule, probe, refused);
  const by = policy === undefined ? 'by a third-party rule' : `by the policy of ${policy}`;
  const hook = decidedAt(outcome, ruleset);
  const isSentOn = destination !== null && hook !== 'input' && hook !== 'output';
  const base = {probe, rule, ...(policy === undefined ? {} : {policy}), ...ifUnusual(probe)};
  if (isSentOn) return {...base, kind: 'forward-blocked', detail: `${who} are sent to an endpoint and then ${refused} ${by}`};
  return {...base, kind: 'dropped-by-other-rule', detail: `${who} are ${refused} ${by}`};
}
