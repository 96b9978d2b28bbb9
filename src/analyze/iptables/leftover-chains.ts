import {chainFound, type RulesetComparison} from '../../compare/compare-rulesets.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {parseChainName} from '../../expect/iptables/chain-names.ts';
import {deletesLocalChains} from '../../expect/iptables/iptables-versions.ts';
import type {Chain, Ruleset} from '../../model/ruleset.ts';
import {orphanChains} from '../symptoms/orphan-chains.ts';
import type {Symptom} from '../symptoms/symptom.ts';

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
  if (leftovers.length === 0) return [];
  const reached = reachable(actual, found, leftovers);
  return orphanChains(
    leftovers.filter(chain => !reached.has(chain.name)),
    expected.family,
  );
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

/** Names of leftover chains that some chain in use leads to. Chains that read as expected lead to expected ones only. */
function reachable(actual: Ruleset, found: RulesetComparison<unknown>['nat'], leftovers: readonly Chain[]): ReadonlySet<string> {
  const names = new Set(leftovers.map(({name}) => name));
  const reached = new Set<string>();
  const queue: Chain[] = [];
  const visit = (chain: Chain): void => {
    for (const target of jumpsOf(chain.text())) {
      if (!names.has(target) || reached.has(target)) continue;
      reached.add(target);
      const next = actual.chain('nat', target);
      if (next !== undefined) queue.push(next);
    }
  };
  for (let place = 0; place < found.length; place++) {
    const how = found[place];
    const chain = how === chainFound.same ? undefined : actual.tables.get('nat')?.chains.at(place);
    if (chain !== undefined && (how === chainFound.changed || parseChainName(chain.name) === null)) visit(chain);
  }
  for (let chain = queue.pop(); chain !== undefined; chain = queue.pop()) visit(chain);
  return reached;
}

/** There may be thousands of chains, so their rules are not parsed. */
function jumpsOf(text: string): readonly string[] {
  return [...text.matchAll(/ -[jg] (\S+)/g)].flatMap(([, target]) => target ?? []);
}
