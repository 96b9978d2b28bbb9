import type {ServedPort} from '../../model/endpoint.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {entryText} from '../../model/service-port.ts';
import {shareOfPods} from './compare-endpoints.ts';
import type {Evidence, KeyedSymptom} from './mode-semantics.ts';
import {describeLoss, describePathOutcome, type ProbeComparison} from './path-outcome.ts';
import {whose} from './probes.ts';

/** Rules or elements that lead to a chain that is missing or empty, by the name of this chain. */
export function brokenJumps<R extends RuleText>(
  broken: ReadonlyMap<string, R>,
  comparison: ProbeComparison<R>,
  {
    endpointOf,
    has,
    rulesOf,
  }: {
    endpointOf(chain: string): {readonly hostPort: string} | undefined;
    has(chain: string): boolean;
    rulesOf(chain: string): readonly R[];
  },
): readonly KeyedSymptom<R>[] {
  const {actual, probe} = comparison;
  const lost = actual.passed + actual.rejected + actual.dropped;
  return [...broken].map(([target, rule]) => {
    const endpoint = endpointOf(target);
    const place = endpoint === undefined ? {entry: probe.entry} : {endpoint: endpoint.hostPort};
    const detail = `a rule jumps to ${target}, which ${has(target) ? 'is empty' : 'does not exist'}; ${whose(probe)} end in ${describeLoss(actual)}`;
    const evidence = {expected: rulesOf(target).slice(0, 3), actual: [rule]};
    return {key: `jump ${target}`, symptom: {kind: 'broken-jump', ...place, detail, ...evidence, ...shareOfPods(comparison, lost)}};
  });
}

/** A third-party rule in a chain of the Service port intercepts all packets before they reach an endpoint. */
export function interceptedBy<R extends RuleText>(rule: R, place: string, {actual, probe}: ProbeComparison<R>): KeyedSymptom<R> {
  const detail = `a rule in ${place} that kube-proxy would not have written intercepts ${whose(probe)}: they end in ${describePathOutcome(actual)}`;
  const symptom = {kind: 'unexpected-rule', severity: 'error', entry: probe.entry, detail, expected: [], actual: [rule]} as const;
  return {key: `taken ${rule.chain} ${rule.line}`, symptom};
}

/** A chain after the entry returns packets: the rule that leads to the endpoints, which are picked by the policy, is missing. */
export function deadEnd<R extends RuleText>(
  {port}: Pick<ServedPort, 'port'>,
  {probe}: ProbeComparison<R>,
  {chain, policy, evidence}: {readonly chain: string; readonly policy: 'Cluster' | 'Local' | null; readonly evidence: Evidence<R>},
): KeyedSymptom<R> {
  const {entry} = probe;
  if (port.externalPolicyLocal && policy === 'Cluster') {
    const detail = `${whose(probe)} do not get the bypass to all endpoints: ${chain} returns them without an endpoint`;
    return {
      key: `policy ${entryText(entry)}`,
      symptom: {kind: 'traffic-policy-mismatch', variant: 'bypass-missing', entry, detail, ...evidence},
    };
  }
  const detail = `packets to its ${entryText(entry)} are sent to ${chain}, which returns them without an endpoint`;
  return {key: `entry ${entryText(entry)}`, symptom: {kind: 'missing-entry', entry, detail, ...evidence}};
}
