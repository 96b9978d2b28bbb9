import {compareRulesets} from '../compare/compare-rulesets.ts';
import type {ExpectedRuleset} from '../expect/iptables/expected-ruleset.ts';
import {parseChainName} from '../expect/iptables/names.ts';
import type {PortOnNode} from '../expect/iptables/service-rules.ts';
import type {Chain, Rule, Ruleset} from '../model/ruleset.ts';
import {asExpectation} from './expectation.ts';
import {judgeForeign} from './judge-foreign.ts';
import {judgeFrame} from './judge-frame.ts';
import {judgePort, type PortDifference} from './judge-port.ts';
import {leftoverChains} from './leftover-chains.ts';
import {PortIndex} from './port-index.ts';
import {ServiceView} from './service-view.ts';
import {staleServices} from './stale-services.ts';
import type {Symptom} from './symptom.ts';

export interface FamilyCase {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
}

/** Everything that is wrong with one family's rules on one node. A healthy node costs one comparison and no walk. */
export function judgeFamily({expected, actual}: FamilyCase): readonly Symptom[] {
  const compared = compareRulesets(asExpectation(expected), actual);
  const known = compared.differences.filter(difference => !isBeyondTheCut(difference, actual));
  if (holdsNoServiceRules(expected, actual))
    return [noServiceRules(expected), ...judgeFrame({expected, actual, differences: []}).filter(({kind}) => kind === 'canary-missing')];
  const owned = attribute(known, new PortIndex(expected));
  const view = new ServiceView(expected, actual);
  const ports = [...owned.byPort].flatMap(([item, own]) => judgePort({item, differences: own, expected, actual, view}));
  return [
    ...judgeFrame({expected, actual, differences: owned.rest}),
    ...ports,
    ...judgeForeign({expected, actual, view}),
    ...staleServices({expected, actual, rules: owned.strange}),
    ...leftoverChains(expected, actual, compared),
  ];
}

/** What a cut dump does not show may still be on the node: it is not reported as missing. */
function isBeyondTheCut({kind, table, chain}: PortDifference, actual: Ruleset): boolean {
  if (kind !== 'missing' || actual.tables.get(table)?.complete !== false) return false;
  const found: Chain | undefined = actual.chain(table, chain);
  return found === undefined || !found.complete;
}

function holdsNoServiceRules(expected: ExpectedRuleset, actual: Ruleset): boolean {
  if (!expected.ports.some(({endpoints}) => endpoints.reachable.length > 0)) return false;
  const nat = actual.tables.get('nat');
  if (nat === undefined || !nat.complete) return false;
  for (const {name, ruleCount} of nat.chains.values()) {
    const role = parseChainName(name)?.role;
    if (role !== undefined && role !== 'SEP' && ruleCount > 0) return false;
  }
  return true;
}

function noServiceRules(expected: ExpectedRuleset): Symptom {
  const {family} = expected;
  const count = expected.ports.length;
  return {
    kind: 'no-service-rules',
    family,
    port: null,
    detail: `table nat holds none of the rules of ${count} Service ${count === 1 ? 'port' : 'ports'}: every Service is dead on this node`,
    expected: [],
    actual: [],
  };
}

interface Attributed {
  readonly byPort: ReadonlyMap<PortOnNode, readonly PortDifference[]>;
  /** Rules in Service chains that belong to no Service port that is expected. */
  readonly strange: readonly Rule[];
  readonly rest: readonly PortDifference[];
}

/** Gives each difference to the Service ports that it may concern: by its owner, its target's name, its address and port. */
function attribute(differences: readonly PortDifference[], index: PortIndex): Attributed {
  const byPort = new Map<PortOnNode, PortDifference[]>();
  const strange: Rule[] = [];
  const rest: PortDifference[] = [];
  for (const difference of differences) {
    const owners = difference.owner !== null ? [difference.owner] : index.concerned(difference.rule);
    for (const owner of owners) {
      const list = byPort.get(owner);
      if (list === undefined) byPort.set(owner, [difference]);
      else list.push(difference);
    }
    if (difference.owner !== null) continue;
    if (difference.kind === 'extra' && index.isStrange(difference.rule)) strange.push(difference.rule);
    else if (owners.length === 0) rest.push(difference);
  }
  return {byPort, strange, rest};
}
