import {endpointChainName, parseChainName} from '../../expect/iptables/chain-names.ts';
import type {Family} from '../../model/family.ts';
import type {Chain, Rule} from '../../model/ruleset.ts';
import {familyOf} from '../../model/address.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import type {Symptom} from '../symptoms/symptom.ts';

/**
 * Chains of endpoints whose name does not match their DNAT target: the name is a hash of the Service port, the protocol and the
 * endpoint, so kube-proxy did not write the chain in this form. Silent for chains without comments, whose Service port is
 * unknown, and for IPv6, whose addresses kube-proxy up to 1.30 hashed in any spelling.
 */
export function misnamedChains(chains: Iterable<Chain>, family: Family): readonly Symptom<Rule>[] {
  return [...chains].flatMap(chain => {
    if (parseChainName(chain.name)?.role !== 'SEP') return [];
    const rule = chain.rules().find(({target}) => target?.name === 'DNAT');
    const right = rule === undefined ? null : rightName(rule);
    if (rule === undefined || right === null || right === chain.name) return [];
    const detail = `${chain.name} leads to ${destinationOf(rule)}, but kube-proxy names that endpoint's chain ${right}: the rules were not written by kube-proxy, or were changed since`;
    return [{kind: 'unexpected-rule' as const, family, severity: 'warning' as const, port: null, detail, expected: [], actual: [rule]}];
  });
}

/** Adds the symptoms of misnamed chains in place of those that their names alone caused, unless a more severe symptom names them. */
export function withMisnamed(misnamed: readonly Symptom<Rule>[], others: readonly Symptom[]): readonly Symptom[] {
  let result = others;
  for (const symptom of misnamed) {
    const chain = symptom.actual[0]?.chain ?? '';
    const right = symptom.actual[0] === undefined ? null : rightName(symptom.actual[0]);
    const about = result.filter(other => other.kind !== 'orphan-chain' && (names(other.actual, chain) || names(other.expected, right)));
    if (about.some(({severity, kind}) => severity !== 'info' && kind !== 'duplicate-rule')) continue;
    result = [...result.filter(other => !about.includes(other)), symptom];
  }
  return result;
}

function names(rules: readonly {readonly text: string}[], chain: string | null): boolean {
  return rules.some(({text}) => chain !== null && text.split(' ').includes(chain));
}

function rightName(rule: Rule): string | null {
  const servicePortName = rule.matches.find(({name}) => name === 'comment')?.options[0]?.values[0];
  const protocol = rule.options.find(({flag}) => flag === '-p')?.values[0];
  const destination = destinationOf(rule);
  if (servicePortName === undefined || !/^[^/\s]+\/\S+$/.test(servicePortName) || protocol === undefined || destination === null)
    return null;
  return familyOf(splitHostPort(destination).address) === 'IPv4' ? endpointChainName(servicePortName, protocol, destination) : null;
}

function destinationOf({target}: Rule): string | null {
  return target?.options.find(({flag}) => flag === '--to-destination')?.values[0] ?? null;
}
