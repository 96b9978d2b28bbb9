import type {RuleText} from '../../../model/ruleset.ts';
import type {Evidence, Subject} from '../../outcomes/mode-semantics.ts';
import type {PathOutcome, ProbeComparison} from '../../outcomes/path-outcome.ts';
import type {NftPortCase, NftPortDifference} from '../nft-case.ts';
import {pickingChain} from '../nft-outcome.ts';
import {elementKey, elementsAt, extraOf, isOwnChain} from './nft-port-rules.ts';
import {isEntryMap} from './nft-rule-roles.ts';

/** The missing and the unexpected rules and elements of the Service port that explain a symptom. */
export function nftEvidence(given: NftPortCase, subject: Subject<RuleText>): Evidence<RuleText> {
  switch (subject.kind) {
    case 'service':
      return pick(given, ({what}) => what === 'element', 6);
    case 'entry':
      return pick(given, ({name, key}) => key === elementKey(given, subject.entry) && isEntryMap(name));
    case 'endpoint':
      return ofEndpoint(given, subject.endpoint, subject.comparison);
    case 'shares':
      return pick(given, ({rule}) => rule.text.includes('numgen'));
    case 'affinity':
      return pick(given, ({rule, what}) => what === 'set' || rule.text.includes('@affinity-') || rule.text.includes('dnat'));
    case 'masquerade':
      return ofMasquerade(given, subject.comparison);
    case 'policy':
      return ofPolicy(given, subject.comparison);
  }
}

function ofEndpoint(given: NftPortCase, endpoint: string, {expected, actual}: ProbeComparison<RuleText>): Evidence<RuleText> {
  const {item} = given;
  const known = item.all.find(({hostPort}) => hostPort === endpoint);
  const names = known === undefined ? [] : [item.names.endpoint(known), `${known.address} . ${known.port}`, known.hostPort];
  const own = pick(given, ({rule, name}) => names.some(text => name === text || rule.text.includes(text)));
  const chain = pickingChain(expected.destinations.get(endpoint)?.path ?? []);
  const present = extraOf(given).flatMap(({name, rule}) => (name === chain ? [rule] : []));
  const path = actual.destinations.get(endpoint)?.path.filter(rule => isOwnChain(given, rule.chain)) ?? [];
  const should = expected.destinations.get(endpoint)?.path.slice(-1) ?? [];
  return {
    expected: own.expected.length > 0 ? own.expected : should,
    actual: path.length > 0 ? path.slice(-2) : [...own.actual, ...present].slice(0, 3),
  };
}

function ofMasquerade(given: NftPortCase, {expected, actual, probe}: ProbeComparison<RuleText>): Evidence<RuleText> {
  const own = pick(
    given,
    ({rule, name}) =>
      / mark|masquerade/.test(` ${rule.text}`) ||
      (name === 'hairpin-connections' && probe.endpoint !== undefined) ||
      (name === 'cluster-ips' && probe.entry.kind === 'clusterIP'),
  );
  if (own.expected.length + own.actual.length > 0) return own;
  const marks = ({destinations}: PathOutcome<RuleText>): readonly RuleText[] =>
    [...destinations.values()].flatMap(({path}) => path.filter(({text}) => / mark/.test(` ${text}`))).slice(0, 2);
  return {expected: marks(expected), actual: marks(actual)};
}

/** The rules at which the two paths of a packet diverge; the path between entry and endpoint if there are none. */
function ofPolicy(given: NftPortCase, {expected, actual, probe}: ProbeComparison<RuleText>): Evidence<RuleText> {
  const own = pick(given, ({name, key}) => name.startsWith('external-') || key === elementKey(given, probe.entry));
  const path = ({outcomes}: PathOutcome<RuleText>): readonly RuleText[] => {
    const rules = outcomes.flatMap(({path}) => path.filter(({chain}) => isOwnChain(given, chain)));
    return [...new Map(rules.map(rule => [`${rule.chain} ${rule.text}`, rule])).values()].slice(0, 4);
  };
  return {
    expected: own.expected.length > 0 ? own.expected : path(expected),
    actual: own.actual.length > 0 ? own.actual : [...elementsAt(given, probe.entry), ...path(actual)].slice(0, 4),
  };
}

function pick({differences}: NftPortCase, concerns: (difference: NftPortDifference) => boolean, most = 4): Evidence<RuleText> {
  const concerned = differences.filter(concerns);
  const rules = (missing: boolean): readonly RuleText[] =>
    concerned.flatMap(({kind, rule}) => ((kind === 'missing') === missing ? [rule] : [])).slice(0, most);
  return {expected: rules(true), actual: rules(false)};
}
