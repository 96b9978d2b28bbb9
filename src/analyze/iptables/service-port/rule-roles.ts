import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {Rule} from '../../../model/ruleset.ts';
import type {PathOutcome} from '../../outcomes/path-outcome.ts';

export function hasMatch(rule: Rule, name: string): boolean {
  return rule.matches.some(match => match.name === name);
}

/** The rule that picks an endpoint. */
export function isPick({target}: Rule): boolean {
  return parseChainName(target?.name ?? '')?.role === 'SEP';
}

/** A rule that finds or remembers a client, or the DNAT that does not remember it. */
export function isOfAffinity(rule: Rule): boolean {
  return hasMatch(rule, 'recent') || rule.target?.name === 'DNAT';
}

/** A rule of a chain that all Service ports share. */
export function isShared({chain}: Rule): boolean {
  return parseChainName(chain) === null;
}

/** The chain that picks the endpoint in the expected rules. */
export function balancingChain(expected: PathOutcome): string | null {
  for (const {path} of expected.destinations.values()) {
    const pick = path.findLast(isPick);
    if (pick !== undefined) return pick.chain;
  }
  return null;
}
