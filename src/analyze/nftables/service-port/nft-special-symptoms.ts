import {entryText} from '../../../model/entry.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import {missingEndpointText} from '../../outcomes/compare-endpoints.ts';
import type {KeyedSymptom} from '../../outcomes/mode-semantics.ts';
import {describePathOutcome, type PathOutcome, type ProbeComparison} from '../../outcomes/path-outcome.ts';
import {whose} from '../../outcomes/probes.ts';
import type {NftPortCase, NftPortDifference} from '../nft-case.ts';
import {nftPolicyOf, pickingChain, targetsOf} from '../nft-outcome.ts';
import {nftEvidence} from './nft-evidence.ts';
import {elementsAt, isOwnChain, missingOf} from './nft-port-rules.ts';
import {isCheck} from './nft-rule-roles.ts';

/** Symptoms that replace all others of a probe: a broken jump, a third-party rule, a chain that leads nowhere. */
export function specialSymptoms(given: NftPortCase, comparison: ProbeComparison<RuleText>): readonly KeyedSymptom<RuleText>[] {
  const broken = brokenJumps(given, comparison);
  if (broken.length > 0) return broken;
  return intercepted(given, comparison) ?? deadEnd(given, comparison) ?? [];
}

/** A rule or element on the path leads to a chain that is missing or empty. */
function brokenJumps(given: NftPortCase, {actual, probe}: ProbeComparison<RuleText>): readonly KeyedSymptom<RuleText>[] {
  const {item, expected} = given;
  const leads = [...elementsAt(given, probe.entry), ...rulesOnPath(given, actual)];
  const broken = new Map<string, RuleText>();
  for (const rule of leads) for (const target of targetsOf(rule)) if (isEmpty(given, target)) broken.set(target, rule);
  return [...broken].map(([target, rule]) => {
    const endpoint = item.endpoints.reachable.find(one => item.names.endpoint(one) === target);
    const missing = given.actual.chain(target) === undefined;
    const detail = `a rule jumps to ${target}, which ${missing ? 'does not exist' : 'is empty'}`;
    const place = endpoint === undefined ? {entry: probe.entry} : {endpoint: endpoint.hostPort};
    const rules = expected.chain(target)?.rules().slice(0, 3) ?? [];
    return {key: `jump ${target}`, symptom: {kind: 'broken-jump', ...place, detail, expected: rules, actual: [rule]}};
  });
}

/** The rules that matched, and all rules of the Service's own chains on the path. */
function rulesOnPath(given: NftPortCase, {outcomes}: PathOutcome<RuleText>): readonly RuleText[] {
  const passed = outcomes.filter(({verdict}) => verdict !== 'undecided').flatMap(({path}) => path);
  const chains = new Set([...passed.map(({chain}) => chain), ...passed.flatMap(targetsOf)].filter(chain => isOwnChain(given, chain)));
  return [...passed, ...[...chains].flatMap(chain => given.view.chain(chain)?.rules() ?? [])].filter(({chain}) => isOwnChain(given, chain));
}

function isEmpty(given: NftPortCase, name: string): boolean {
  if (!isOwnChain(given, name)) return false;
  const chain = given.actual.chain(name);
  const empty = chain === undefined ? given.actual.complete : chain.ruleCount === 0 && chain.complete;
  return empty && (given.expected.chain(name)?.ruleCount ?? 0) > 0;
}

/** A third-party rule in a chain of the Service intercepts all packets before they reach an endpoint. */
function intercepted(given: NftPortCase, {actual, probe}: ProbeComparison<RuleText>): readonly KeyedSymptom<RuleText>[] | null {
  const takers = actual.outcomes.map(({verdict, path}) =>
    verdict === 'accept' ? path.find(rule => isThirdParty(given, rule)) : undefined,
  );
  const [rule] = takers;
  if (rule === undefined || takers.includes(undefined)) return null;
  const detail = `a rule in ${rule.chain} that kube-proxy would not have written intercepts ${whose(probe)}: they end in ${describePathOutcome(actual)}`;
  const symptom = {kind: 'unexpected-rule', severity: 'error', entry: probe.entry, detail, expected: [], actual: [rule]} as const;
  return [{key: `taken ${rule.chain} ${rule.line}`, symptom}];
}

/** An extra rule that ends the path and replaces none of kube-proxy's rules. */
function isThirdParty(given: NftPortCase, rule: RuleText): boolean {
  const isThis = ({kind, rule: other}: NftPortDifference): boolean =>
    kind === 'extra' && other.text === rule.text && other.chain === rule.chain;
  if (!/(?:^| )(?:accept|return|dnat|redirect)(?: |$)/.test(rule.text) || !given.differences.some(isThis)) return false;
  const missing = missingOf(given).filter(({name}) => name === rule.chain);
  return !missing.some(({rule: other}) => shapeOf(other.text) === shapeOf(rule.text));
}

/** The entry leads to a chain that returns packets unchanged: the rule that leads to the endpoints is missing. */
function deadEnd(given: NftPortCase, comparison: ProbeComparison<RuleText>): readonly KeyedSymptom<RuleText>[] | null {
  const {expected, actual, probe} = comparison;
  const back = actual.outcomes.every(({verdict, destination, path}) =>
    verdict === 'accept' ? destination === null : verdict !== 'undecided' && isCheck(path.at(-1)?.chain ?? ''),
  );
  const [lead] = elementsAt(given, probe.entry);
  const chain = lead === undefined ? undefined : targetsOf(lead)[0];
  if (!back || expected.destinations.size === 0 || lead === undefined || chain === undefined || !isOwnChain(given, chain)) return null;
  const rules = missingOf(given).flatMap(({name, rule}) => (name === chain ? [rule] : []));
  const picking = pickingChain([...expected.destinations.values()][0]?.path ?? []);
  if (chain === picking || actual.outcomes.some(({path}) => path.some(one => targetsOf(one).includes(picking ?? ''))))
    return withoutPick(given, comparison);
  if (given.item.port.externalPolicyLocal && nftPolicyOf(expected) === 'Cluster') {
    const detail = `${whose(probe)} do not get the bypass to all endpoints: ${chain} returns them without an endpoint`;
    const symptom = {kind: 'traffic-policy-mismatch', entry: probe.entry, detail, expected: rules, actual: [lead]} as const;
    return [{key: `policy ${entryText(probe.entry)}`, symptom}];
  }
  const detail = `packets to its ${entryText(probe.entry)} are sent to ${chain}, which returns them without an endpoint`;
  const symptom = {kind: 'missing-entry', entry: probe.entry, detail, expected: rules, actual: [lead]} as const;
  return [{key: `entry ${entryText(probe.entry)}`, symptom}];
}

/** The chain that picks the endpoint is entered and picks none. */
function withoutPick(given: NftPortCase, comparison: ProbeComparison<RuleText>): readonly KeyedSymptom<RuleText>[] {
  return [...comparison.expected.destinations.keys()].map(endpoint => {
    const detail = missingEndpointText(given.item, endpoint, comparison.probe);
    const evidence = nftEvidence(given, {kind: 'endpoint', endpoint, comparison});
    return {key: `missing ${endpoint}`, symptom: {kind: 'missing-endpoint', endpoint, detail, ...evidence}};
  });
}

/** The purpose of a rule, whatever endpoints it names. */
function shapeOf(text: string): string {
  return text
    .replace(/ comment ".*"$/, '')
    .replace(/\{.*\}/s, '{}')
    .replace(/mod \d+/, 'mod')
    .replace(/dnat to \S+/, 'dnat to')
    .replace(/goto \S+/, 'goto');
}
