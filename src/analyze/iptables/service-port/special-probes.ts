import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import {entryText} from '../../../model/entry.ts';
import type {Rule} from '../../../model/ruleset.ts';
import type {Outcome} from '../../../trace/outcome.ts';
import {describePathOutcome, type ProbeComparison} from '../../outcomes/path-outcome.ts';
import type {KeyedSymptom, Misdirected} from '../../outcomes/mode-semantics.ts';
import {missingEndpointText} from '../../outcomes/compare-endpoints.ts';
import {whose} from '../../outcomes/probes.ts';
import {balancingRole} from '../iptables-outcome.ts';
import type {PortCase, PortDifferences} from './port-differences.ts';
import {balancingChain, isPick} from './rule-roles.ts';

export interface SpecialCase extends PortCase {
  readonly own: PortDifferences;
  isPassedBy(outcome: Outcome): boolean;
  misdirected(comparison: ProbeComparison): ReadonlyMap<string, Misdirected<Rule>>;
  endpointEvidence(endpoint: string, comparison: ProbeComparison): {readonly expected: readonly Rule[]; readonly actual: readonly Rule[]};
}

/** A rule on the path jumps to a chain that is missing or empty. */
export function brokenJumps(given: SpecialCase, {actual, probe}: ProbeComparison): readonly KeyedSymptom<Rule>[] {
  const {item, own} = given;
  const way = actual.outcomes.filter(({verdict}) => verdict !== 'undecided').flatMap(({path}) => path);
  const entered = new Set(way.flatMap(({target}) => (own.isOwn(target?.name ?? '') ? [target?.name ?? ''] : [])));
  // A packet returns unchanged from an empty chain, so its path does not show the chain.
  const picks = [...entered].flatMap(chain => given.actual.chain('nat', chain)?.rules().filter(isPick) ?? []);
  const broken = new Map<string, Rule>();
  for (const jump of [...way, ...picks]) if (isEmpty(given, jump.target?.name ?? '')) broken.set(jump.target?.name ?? '', jump);
  return [...broken].map(([target, jump]) => {
    const endpoint = item.endpoints.reachable.find(one => item.endpointChain(one) === target);
    const place = endpoint === undefined ? {entry: probe.entry} : {endpoint: endpoint.hostPort};
    const detail = `a rule jumps to ${target}, which ${given.actual.chain('nat', target) === undefined ? 'does not exist' : 'is empty'}`;
    const expected = given.expected.chain('nat', target)?.rules().slice(0, 3) ?? [];
    return {symptom: {kind: 'broken-jump', ...place, detail, expected, actual: [jump]}, key: `jump ${target}`};
  });
}

function isEmpty({actual, expected}: PortCase, chain: string): boolean {
  if (parseChainName(chain) === null) return false;
  const found = actual.chain('nat', chain);
  return (found === undefined || (found.ruleCount === 0 && found.complete)) && (expected.chain('nat', chain)?.ruleCount ?? 0) > 0;
}

/** A third-party rule in a chain of the Service port intercepts all packets before they reach an endpoint's chain. */
export function intercepted({own, isPassedBy}: SpecialCase, {actual, probe}: ProbeComparison): readonly KeyedSymptom<Rule>[] {
  const extra = new Set(own.extraRules().map(({text}) => text));
  const takers = actual.outcomes.map(outcome => {
    const rule = outcome.path.find(found => found.table === 'nat' && endsPath(found) && extra.has(found.text));
    const passed = outcome.destination !== null || isPassedBy(outcome);
    return passed && (outcome.destination === null || (rule !== undefined && isRewrite(rule))) ? rule : undefined;
  });
  const [rule] = takers;
  if (rule === undefined || takers.includes(undefined)) return [];
  const detail = `a rule in nat/${rule.chain} that kube-proxy would not have written intercepts ${whose(probe)}: they end in ${describePathOutcome(actual)}`;
  return [
    {
      symptom: {kind: 'unexpected-rule', severity: 'error', entry: probe.entry, detail, expected: [], actual: [rule]},
      key: `taken ${rule.line}`,
    },
  ];
}

function isRewrite({target}: Rule): boolean {
  return target?.name === 'DNAT' || target?.name === 'REDIRECT';
}

/** It ends the path. If an endpoint's own chain does so, the endpoint is missing. */
function endsPath({chain, target}: Rule): boolean {
  return ['ACCEPT', 'RETURN', 'DNAT', 'REDIRECT'].includes(target?.name ?? '') && parseChainName(chain)?.role !== 'SEP';
}

/** A chain after the entry returns the packet: the rule that leads to the endpoints is missing. */
export function isDeadEnd({item, own, isPassedBy}: SpecialCase, {expected, actual, probe}: ProbeComparison): readonly KeyedSymptom<Rule>[] {
  if (actual.destinations.size > 0 || !actual.outcomes.every(isPassedBy)) return [];
  const balancing = balancingChain(expected);
  const jumps = (actual.outcomes[0]?.path ?? []).filter(({target}) => own.isOwn(target?.name ?? ''));
  const jump = jumps.at(-1);
  const chain = jump?.target?.name ?? '';
  if (jump === undefined || parseChainName(chain)?.role !== 'EXT' || jumps.some(({target}) => target?.name === balancing)) return [];
  const evidence = {expected: own.missingRules().filter(rule => rule.chain === chain), actual: [jump]};
  const entry = entryText(probe.entry);
  if (item.port.externalPolicyLocal && balancingRole(expected) === 'SVC') {
    const detail = `${whose(probe)} do not get the bypass to all endpoints: ${chain} returns them without an endpoint`;
    return [{symptom: {kind: 'traffic-policy-mismatch', entry: probe.entry, detail, ...evidence}, key: `policy ${entry}`}];
  }
  const detail = `packets to its ${entry} are sent to ${chain}, which returns them without an endpoint`;
  return [{symptom: {kind: 'missing-entry', entry: probe.entry, detail, ...evidence}, key: `entry ${entry}`}];
}

/** The chain that picks the endpoint returns packets: whatever happens to them later is caused by it. */
export function fallsThrough(given: SpecialCase, comparison: ProbeComparison): readonly KeyedSymptom<Rule>[] {
  const {expected, actual} = comparison;
  const chain = balancingChain(expected);
  if (chain === null || !actual.outcomes.some(({path}) => isLeft(path, chain)) || given.misdirected(comparison).size > 0) return [];
  const picked = new Set(actual.outcomes.flatMap(({path, destination}) => (isLeft(path, chain) ? [] : [destination])));
  return [...expected.destinations.keys()]
    .filter(destination => !picked.has(destination))
    .map(endpoint => {
      const detail = missingEndpointText(given.item, endpoint, comparison.probe);
      return {
        symptom: {kind: 'missing-endpoint', endpoint, detail, ...given.endpointEvidence(endpoint, comparison)},
        key: `missing ${endpoint}`,
      };
    });
}

/** A path enters a chain that picks endpoints and leaves it without a DNAT to one of them. */
function isLeft(path: readonly Rule[], chain: string): boolean {
  const picked = new Set(path.flatMap(rule => (rule.chain === chain && isPick(rule) ? [rule.target?.name ?? ''] : [])));
  const taken = path.some(rule => rule.target?.name === 'DNAT' && picked.has(rule.chain));
  const stopped = path.at(-1)?.chain === chain && ['DROP', 'REJECT'].includes(path.at(-1)?.target?.name ?? '');
  return !taken && !stopped && path.some(({target}) => target?.name === chain);
}
