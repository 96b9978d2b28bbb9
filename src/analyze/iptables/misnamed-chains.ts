import {chainFound, type RulesetComparison} from '../../compare/compare-rulesets.ts';
import {endpointChainName, parseChainName} from '../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {deletesLocalChains} from '../../expect/iptables/iptables-versions.ts';
import {type Family, familyOf} from '../../model/address.ts';
import {type Chain, type ChainsByName, type Rule, type Ruleset, commentOf, optionOf, targetOptionOf} from '../../model/ruleset.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {orphanChains} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';

/**
 * Chains of endpoints whose name does not match their DNAT target: the name is a hash of the Service port, the protocol and the
 * endpoint, so kube-proxy did not write the chain in this form. Silent for chains without comments, whose Service port is
 * unknown, and for IPv6, whose addresses kube-proxy up to 1.30 hashed in any spelling.
 */
export function misnamedChains(chains: Iterable<Chain>, family: Family): readonly Misnamed[] {
  return [...chains].flatMap((chain): readonly Misnamed[] => {
    if (parseChainName(chain.name)?.role !== 'SEP') return [];
    const rule = chain.rules().find(({target}) => target?.name === 'DNAT');
    const right = rule === undefined ? null : rightName(rule);
    if (rule === undefined || right === null || right === chain.name) return [];
    const detail = `${chain.name} leads to ${targetOptionOf(rule, '--to-destination')}, but kube-proxy names that endpoint's chain ${right}: the rules were not written by kube-proxy, or were changed since`;
    const about = {kind: 'unexpected-rule', variant: 'misnamed-chain', severity: 'warning'} as const;
    return [{right, chain: chain.name, symptom: {...about, family, port: null, detail, expected: [], actual: [rule]}}];
  });
}

interface Misnamed {
  readonly chain: string;
  /** The name that it should have. */
  readonly right: string;
  readonly symptom: Symptom;
}

/** Adds the symptoms of misnamed chains in place of those that their names alone caused, unless a more severe symptom names them. */
export function withMisnamed(misnamed: readonly Misnamed[], others: readonly Symptom[]): readonly Symptom[] {
  let result = others;
  for (const {symptom, chain, right} of misnamed) {
    const about = result.filter(other => other.kind !== 'orphan-chain' && (names(other.actual, chain) || names(other.expected, right)));
    if (about.some(({severity, kind}) => severity !== 'info' && kind !== 'duplicate-rule')) continue;
    result = [...result.filter(other => !about.includes(other)), symptom];
  }
  return result;
}

function names(rules: readonly {readonly text: string}[], chain: string): boolean {
  return rules.some(({text}) => text.split(' ').includes(chain));
}

function rightName(rule: Rule): string | null {
  const servicePortName = commentOf(rule);
  const protocol = optionOf(rule, '-p');
  const destination = targetOptionOf(rule, '--to-destination');
  if (servicePortName === undefined || !/^[^/\s]+\/\S+$/.test(servicePortName) || protocol === undefined || destination === undefined)
    return null;
  return familyOf(splitHostPort(destination).address) === 'IPv4' ? endpointChainName(servicePortName, protocol, destination) : null;
}

/** Chains of Service ports and endpoints that are not expected: one symptom for those that no rule jumps to, with their number. */
export function leftoverChains(
  expected: ExpectedRuleset,
  actual: Ruleset,
  {nat: found}: Pick<RulesetComparison<unknown>, 'nat'>,
): readonly Symptom[] {
  const nat = actual.tables.get('nat');
  if (nat === undefined) return [];
  const leftovers: Chain[] = [];
  for (let place = nextUnexpected(found, 0); place >= 0; place = nextUnexpected(found, place + 1)) {
    const chain = nat.chains.at(place);
    if (chain !== undefined && isOfServices(chain, expected) && chain.ruleCount > 0) leftovers.push(chain);
  }
  return orphanChains(leftovers, {family: expected.family, inUse: targetsInUse(nat.chains, found), targetsOf: jumpsOf});
}

/** There may be thousands of chains, and nearly all are expected. */
function nextUnexpected(found: RulesetComparison<unknown>['nat'], from: number): number {
  return found.indexOf(chainFound.unexpected, from);
}

/** KUBE-XLB chains that this kube-proxy does not remove are ST502. */
function isOfServices({name}: Chain, {context}: ExpectedRuleset): boolean {
  const role = parseChainName(name)?.role;
  return role !== undefined && (role !== 'XLB' || deletesLocalChains(context.version));
}

/** Chains that read as expected lead to expected ones only. */
function* targetsInUse(chains: ChainsByName, found: RulesetComparison<unknown>['nat']): Iterable<string> {
  for (let place = 0; place < found.length; place++) {
    const how = found[place];
    const chain = how === chainFound.same ? undefined : chains.at(place);
    if (chain !== undefined && (how === chainFound.changed || parseChainName(chain.name) === null)) yield* jumpsOf(chain);
  }
}

/** There may be thousands of chains, so their rules are not parsed. */
function jumpsOf(chain: Chain): readonly string[] {
  return [...chain.text().matchAll(/ -[jg] (\S+)/g)].flatMap(([, target]) => target ?? []);
}
