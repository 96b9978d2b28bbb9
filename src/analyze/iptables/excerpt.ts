import {chainsOf, rulesetOfTables} from '../../parse/iptables/pasted-rulesets.ts';
import {heldIn} from '../../model/once.ts';
import {holdsChainsOfIpvs} from '../../expect/ipvs/infer-ipvs-config.ts';
import {plural, someOf} from '../../model/text.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {Family} from '../../model/address.ts';
import type {Chain, Rule, Ruleset, Table} from '../../model/ruleset.ts';
import {comparableRule} from '../../parse/iptables/comparable-rule.ts';
import {listChain} from './chain-texts.ts';
import {append, pushTo} from '../../model/lists.ts';

/**
 * Some rules of a node, as people paste them: the node may have more rules than they show. Listings of table nat or filter alone count too.
 * (A truncated dump does not: it is complete up to its end.)
 */
export function isExcerpt(ruleset: Ruleset): boolean {
  if (ruleset.truncation !== null) return false;
  const isListing = ruleset.toolVersion === null && !(ruleset.hasTable('nat') && ruleset.hasTable('filter'));
  return isListing || [...ruleset.tables.values()].some(({complete}) => !complete);
}

/**
 * The excerpt, completed with the expected rules: chains that it lacks, and rules missing from chains that it shows in part. The rules of
 * the excerpt stay, right or wrong. Tables count as incomplete, so that no rule is reported as missing from them.
 */
export function completeExcerpt(excerpt: Ruleset, expected: ExpectedRuleset): Ruleset {
  const tables = new Map<string, Map<string, Chain>>(
    [...excerpt.tables].map(([name, {chains}]) => [name, new Map([...chains.values()].map(chain => [chain.name, chain]))]),
  );
  for (const chain of expectedChains(expected)) {
    const chains = heldIn(tables, chain.table, () => new Map<string, Chain>());
    const shown = chains.get(chain.name);
    const {table, name, policy} = chain;
    const like = {table, name, policy: shown?.policy ?? policy, complete: true};
    chains.set(name, listChain(like, shown === undefined ? chain.rules() : merged(shown, chain)));
  }
  const whole = new Map<string, Table>(
    [...tables].map(([name, chains]) => [name, {name, chains: chainsOf([...chains.values()]), complete: false}]),
  );
  const {ruleCount, chainCount} = excerpt;
  return {...rulesetOfTables(excerpt, whole), ruleCount, chainCount};
}

/** Rules of which the excerpt shows none. */
export function emptyRuleset(family: Family): Ruleset {
  return rulesetOfTables({family, backend: null, toolVersion: null, strays: [], truncation: null}, new Map());
}

function split(place: string): readonly [table: string, chain: string] {
  const [table = '', chain = ''] = place.split('/');
  return [table, chain];
}

function expectedChains(expected: ExpectedRuleset): readonly Chain[] {
  const names = new Set<string>(['nat/KUBE-MARK-DROP', ...baseChains]);
  for (const place of expected.baseRules().keys()) names.add(place);
  for (const item of expected.ports) {
    const {shared, own} = expected.rulesOf(item);
    for (const {table, chain} of shared) names.add(`${table}/${chain}`);
    for (const chain of own.keys()) names.add(`nat/${chain}`);
    expected.materialize(item);
  }
  return [...names].flatMap(place => {
    return expected.chain(...split(place)) ?? [];
  });
}

const baseChains: readonly string[] = [
  ...['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'].map(chain => `nat/${chain}`),
  ...['INPUT', 'FORWARD', 'OUTPUT'].map(chain => `filter/${chain}`),
];

/** The rules of the excerpt, each preceded by the expected rules that come before it. */
export function merged(shown: Chain, right: Chain): readonly Rule[] {
  const actual = shown.rules();
  // A chain of a Service port or an endpoint with the expected number of rules is complete.
  if (parseChainName(shown.name) !== null && actual.length >= right.ruleCount) return actual;
  const waiting = new Map<string, number[]>();
  for (const [index, rule] of actual.entries()) {
    const key = comparableRule(rule);
    pushTo(waiting, key, index);
  }
  const rules: Rule[] = [];
  const last: Rule[] = [];
  let next = 0;
  for (const rule of right.rules()) {
    const at = waiting.get(comparableRule(rule))?.shift();
    if (at === undefined) (rule.target?.name === 'KUBE-NODEPORTS' ? last : rules).push(rule);
    else while (next <= at) append(rules, actual.slice(next, ++next));
  }
  return [...rules, ...actual.slice(next), ...last];
}

/** Chains of the excerpt that belong to no known Service port, as text; empty if there are none. */
export function describeUnknownChains(excerpt: Ruleset, expected: ExpectedRuleset): string {
  const names = [...(excerpt.tables.get('nat')?.chains.keys() ?? [])].filter(name => {
    const parsed = parseChainName(name);
    return parsed !== null && parsed.role !== 'SEP' && expected.portOfHash(parsed.hash) === undefined;
  });
  if (names.length === 0) return '';
  return `; ${names.slice(0, 3).join(', ')} ${names.length === 1 ? 'is' : 'are'} of no Service that was given (the name is a hash of namespace, name, port name and protocol)`;
}

/**
 * Whether table nat is shown whole and kube-proxy's chain for Services is empty: a kube-proxy that runs writes a jump to the node ports. In
 * IPVS mode virtual servers serve them.
 */
export function servesNothing(shown: Ruleset | null): boolean {
  return shown !== null && isEmptyInNat(shown, 'KUBE-SERVICES') && !holdsChainsOfIpvs(shown);
}

/** Whether the rules are those of IPVS mode, and none masquerades: table nat is shown whole. */
export function masqueradesNothing(shown: Ruleset | null): boolean {
  return shown !== null && isEmptyInNat(shown, 'KUBE-POSTROUTING') && holdsChainsOfIpvs(shown);
}

export const nothingMasqueraded = 'KUBE-POSTROUTING of table nat is empty, so that nothing masquerades what Services send to other nodes';

function isEmptyInNat({tables}: Ruleset, chain: string): boolean {
  const nat = tables.get('nat');
  return nat?.complete === true && nat.chains.get(chain)?.ruleCount === 0;
}

/** Whether table nat is shown whole and kube-proxy's chain for Services has rules, to which a base chain leads by no jump. */
export function isUnhooked(shown: Ruleset | null, base: 'PREROUTING' | 'OUTPUT'): boolean {
  const nat = shown?.tables.get('nat');
  if (nat?.complete !== true || !nat.chains.has(base) || (nat.chains.get('KUBE-SERVICES')?.ruleCount ?? 0) === 0) return false;
  const reached = new Set<string>([base]);
  for (const name of reached) {
    if (name === 'KUBE-SERVICES') return false;
    for (const {target} of nat.chains.get(name)?.rules() ?? []) if (target !== null) reached.add(target.name);
  }
  return true;
}

/** How much a dump contains, and of which Service ports, in a few words. */
export function describeRules(ruleset: Ruleset): string {
  const tables = [...ruleset.tables.keys()].join(' and ');
  const {ruleCount, chainCount} = ruleset;
  const names = servicePortNames(ruleset);
  const of = names.length === 0 ? '' : ` (of ${someOf(names, {max: 4, noun: 'Service port'})})`;
  const unseen = [...ruleset.tables.values()].flatMap(({chains}) =>
    ['PREROUTING', 'OUTPUT'].flatMap(name =>
      (chains.get(name)?.rules() ?? []).flatMap(({target}) =>
        target?.name.startsWith('KUBE-') === true && !chains.has(target.name) ? target.name : [],
      ),
    ),
  );
  const lacking = unseen.length === 0 ? '' : `, which do not show ${someOf([...new Set(unseen)])}, to which they jump`;
  return `${plural(ruleCount, 'rule')} in ${plural(chainCount, 'chain')} of table ${tables}${of}${lacking}`;
}

function servicePortNames(ruleset: Ruleset): readonly string[] {
  const names = new Set<string>();
  for (const {chains} of ruleset.tables.values()) {
    for (const chain of chains.values()) {
      if (!/^KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|(?:PORTALS|NODEPORT)-\w+|(?:SVC|SEP)-.*)$/.test(chain.name)) continue;
      for (const [, name = ''] of chain.text().matchAll(/--comment "([^"/ ]+\/[^" ]+)/g)) names.add(name);
    }
  }
  return [...names].sort();
}
