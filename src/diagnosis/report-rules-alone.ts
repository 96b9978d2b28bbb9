import {readNft} from '../analyze/nftables/nft-rules.ts';
import {rulesOf, servicesInRules} from '../analyze/services-in-rules/services-in-rules.ts';
import {takenEntries} from '../analyze/services-in-rules/what-rules-say.ts';
import {staleBesideLists, whatTextSays} from '../analyze/services-in-rules/what-text-says.ts';
import {onlyRules, printedByNft, type Report} from '../model/report.ts';
import type {Finding, Observation, ServiceName} from '../model/finding.ts';
import type {EndpointTrace, PortTrace} from '../model/service-trace.ts';
import type {NodeDump, Snapshot} from '../model/snapshot.ts';
import {countTraces, type DiagnoseOptions} from './diagnose-node.ts';
import {sortFindings, toFinding} from './to-finding.ts';
import {Diagnosis} from './diagnosis.ts';
import {pushTo, uniqueBy} from '../model/lists.ts';
import {once} from '../model/once.ts';
import {entryText} from '../model/service-port.ts';
import {namespacedName, someOf} from '../model/text.ts';
import {checks} from '../checks/all-checks.ts';

/** What rules without API objects show of the requested Services: their packet paths, and the faults of the rules themselves. */
export function reportRulesAlone(
  snapshot: Snapshot,
  options: DiagnoseOptions,
  select: (traces: readonly PortTrace[]) => readonly PortTrace[],
): Report {
  const diagnosis = new Diagnosis(snapshot.api, options);
  for (const node of snapshot.nodes) diagnosis.add(node);
  const report = diagnosis.report([]);
  const shown = snapshot.nodes.flatMap(node => countTraces(select(servicesInRules(node)), node));
  const reasons = new Map(
    snapshot.nodes.map(node => [node.name, shown.length === 0 && isPrintedByNft(node) ? printedByNft : saidOf(node)] as const),
  );
  const chains = new Set(shown.flatMap(chainsOf));
  const isShown = ({name, namespace}: ServiceName): boolean =>
    shown.some(({service}) => service.name === name && service.namespace === namespace);
  const ofRules = report.findings.filter(
    ({name, service, actual = []}) =>
      ofTheNode.has(name) ||
      (name === misprinted && actual.length > 0) ||
      (name === ofFlows && service !== undefined && isShown(service)) ||
      (ofRulesAlone.has(name) && actual.some(({chain}) => chains.has(chain))),
  );
  const listed = snapshot.nodes.flatMap(node => besideLists(node, shown));
  const taken = snapshot.nodes.flatMap(node => takenByOthers(node, shown));
  const findings = sortFindings([...ofRules.map(finding => ofOneService(finding, snapshot.nodes)), ...listed, ...taken]);
  const traces = withEqualShares(withStale(shown, listed), findings);
  const count = (severity: string): number => findings.filter(finding => finding.severity === severity).length;
  const all = traces.map(({service}) => service);
  const services = uniqueBy(all, namespacedName);
  return {
    ...report,
    basis: 'rules',
    traces,
    findings,
    services,
    summary: {
      ...report.summary,
      verdict: count('error') > 0 ? 'findings' : 'incomplete',
      errors: count('error'),
      warnings: count('warning'),
      infos: count('info'),
      services: services.length,
      servicePorts: traces.length,
    },
    nodes: report.nodes.map(node => ({...node, reason: reasons.get(node.name) ?? onlyRules})),
  };
}

/** Names the Service of a finding about a chain that no other Service uses. */
function ofOneService(finding: Finding, nodes: readonly NodeDump[]): Finding {
  const [rule] = finding.actual ?? [];
  if (finding.service !== undefined || finding.affects !== undefined || rule === undefined) return finding;
  const own = nodes.filter(({name}) => name === finding.node).flatMap(node => portsByChain(node).get(rule.chain) ?? []);
  const [first, ...others] = uniqueBy(
    own.map(({service}) => service),
    namespacedName,
  );
  if (first === undefined || others.length > 0) return finding;
  return {...finding, affects: [{...first, ports: [...new Set(own.map(({port}) => port.name))]}]};
}

const portsByChain = once((node: NodeDump): ReadonlyMap<string, readonly PortTrace[]> => {
  const ports = new Map<string, PortTrace[]>();
  for (const trace of servicesInRules(node)) for (const chain of new Set(chainsOf(trace))) pushTo(ports, chain, trace);
  return ports;
});

function besideLists(node: NodeDump, traces: readonly PortTrace[]): readonly Finding[] {
  const stale = staleBesideLists(node, traces);
  return asFindings(
    'stale-endpoint',
    stale.map(({trace: {node: name, family, service, port}, endpoint: {hostPort, pick, rewrite}, listed}) => ({
      ...{node: name, family, service, port, endpoint: hostPort, expected: []},
      actual: [pick, rewrite].flatMap(rule => rule ?? []),
      message: `traffic goes to ${hostPort}, which is none of the endpoints that kubectl lists in the same text (${someOf(listed)})`,
    })),
  );
}

function takenByOthers(node: NodeDump, traces: readonly PortTrace[]): readonly Finding[] {
  const own = traces.filter(trace => trace.node === node.name);
  const taken = takenEntries(rulesOf(node), own);
  return asFindings(
    'entry-taken-by-other-rule',
    taken.map(({trace: {node: name, family, service, port}, entry, effect, sources, rule}) => ({
      ...{node: name, family, service, port, entry, expected: [], actual: [rule]},
      message: `packets${sources.length === 0 ? '' : ` from ${someOf(sources)}`} to its ${entryText(entry)} ${effect} by a rule that comes before kube-proxy's rules`,
    })),
  );
}

function asFindings(name: string, observations: readonly Observation[]): readonly Finding[] {
  const check = checks.find(each => each.name === name);
  return check === undefined ? [] : observations.map(observation => toFinding(check, observation));
}

function withStale(traces: readonly PortTrace[], findings: readonly Finding[]): readonly PortTrace[] {
  if (findings.length === 0) return traces;
  const keyOf = (node = '', service?: ServiceName, endpoint = ''): string =>
    [node, service === undefined ? '' : namespacedName(service), endpoint].join(' ');
  const stale = new Set(findings.map(({node, service, endpoint}) => keyOf(node, service, endpoint)));
  const isStale = ({node, service}: PortTrace, {hostPort}: EndpointTrace): boolean => stale.has(keyOf(node, service, hostPort));
  return withEndpoints(traces, (ends, trace) => ends.map(end => (isStale(trace, end) ? {...end, mark: 'stale'} : end)));
}

function withEndpoints(
  traces: readonly PortTrace[],
  change: (endpoints: readonly EndpointTrace[], trace: PortTrace) => readonly EndpointTrace[],
): readonly PortTrace[] {
  const changed = (trace: PortTrace) => trace.entries.map(entry => ({...entry, endpoints: change(entry.endpoints, trace)}));
  return traces.map(trace => ({...trace, entries: changed(trace)}));
}

/** What kube-proxy writes where the rules of a chain give its endpoints unequal shares. */
function withEqualShares(traces: readonly PortTrace[], findings: readonly Finding[]): readonly PortTrace[] {
  const uneven = new Set(
    findings.flatMap(({name, node = '', family = '', actual: [first] = []}) =>
      name === 'uneven-balance' && first !== undefined ? [[node, family, first.chain].join(' ')] : [],
    ),
  );
  if (uneven.size === 0) return traces;
  return withEndpoints(traces, (ends, {node, family}) => {
    const isUneven = ({pick}: EndpointTrace): boolean => uneven.has([node, family, pick?.chain].join(' '));
    const own = ends.filter(isUneven);
    const due = own.reduce((sum, {share}) => sum + (share ?? 0), 0) / own.length;
    const isDue = ({share}: EndpointTrace): boolean => share === null || Math.abs(share - due) < 0.001;
    return ends.map(end => (!isUneven(end) || isDue(end) ? end : {...end, mark: 'wrong', expectedShare: due}));
  });
}

function saidOf(node: NodeDump): string | null {
  const said = whatTextSays(node).map(({text}) => text);
  return said.length === 0 ? null : `The text shows: ${someOf(said, {max: 3})}.`;
}

function isPrintedByNft(node: NodeDump): boolean {
  return [...(readNft(node)?.tables.values() ?? [])].some(({chains}) => chains.has('KUBE-SERVICES'));
}

/** Findings that need no API object, whatever else the text contains. */
const ofRulesAlone: ReadonlySet<string> = new Set(['unexpected-rule', 'broken-jump', 'uneven-balance', 'orphan-chain', 'two-backends']);

/** Without a rule as evidence. */
const ofTheNode: ReadonlySet<string> = new Set(['kube-proxy-not-syncing', 'services-chain-not-hooked']);
const ofFlows = 'stale-conntrack';

/** With rules, if these were printed wrongly; without, if the dump is truncated. */
const misprinted = 'dump-unreliable';

function chainsOf({entries}: PortTrace): readonly string[] {
  return entries.flatMap(({steps, endpoints}) => [
    ...steps.flatMap(({chain, to}) => [chain, to]),
    ...endpoints.flatMap(({pick, rewrite}) => [pick?.chain ?? '', rewrite?.chain ?? '']),
  ]);
}
