import type {NftPort} from '../../../expect/nftables/nft-port.ts';
import {parseNftName} from '../../../expect/nftables/nft-names.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import {newConnections, type PortProbe} from '../../outcomes/outcome-changes.ts';
import {sourcesNamedIn} from '../../outcomes/sources.ts';
import {constantsIn, namedEndpoints, namedFirst} from '../../outcomes/rule-constants.ts';
import type {NftCase} from '../nft-case.ts';
import {targetsOf} from '../nft-outcome.ts';

/** New connections to so many Service ports, those first that the rules name. Endpoints that they name connect to themselves, too. */
export function* namedProbes(given: NftCase, rules: readonly RuleText[], count: number): Iterable<PortProbe<NftPort>> {
  const {ports, context} = given.expected;
  const texts = textsOf(rules, given);
  const constants = constantsIn(texts);
  for (const item of namedFirst(ports, context, constants).slice(0, count)) {
    const hairpins = [...new Set([...item.endpoints.reachable.slice(0, 1), ...namedEndpoints(item, constants)])];
    yield* newConnections(item, context, hairpins, sourcesNamedIn(texts, context, given.senders));
  }
}

/** The rules, and those of unexpected chains that they lead to. */
function textsOf(rules: readonly RuleText[], {expected, actual}: NftCase): readonly string[] {
  const own = new Set(expected.baseRules.map(({name}) => name));
  const texts: string[] = [];
  const visit = (rule: RuleText): void => {
    texts.push(rule.text);
    for (const name of targetsOf(rule)) {
      if (own.has(name) || parseNftName(name) !== null) continue;
      own.add(name);
      actual.chain(name)?.rules().forEach(visit);
    }
  };
  rules.forEach(visit);
  return texts;
}
