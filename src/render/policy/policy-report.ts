import {append} from '../../model/lists.ts';
import type {Finding, ServiceName} from '../../model/finding.ts';
import type {NodeReport, Report} from '../../model/report.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {entryText} from '../../model/service-port.ts';
import {plural} from '../../model/text.ts';
import {type FindingGroup, groupFindings, loudFindings, nodeList} from '../finding-blocks.ts';
import {outdatedNodes} from '../headline.ts';
import {docsOf, toYaml} from '../json.ts';
import {type Renderer, type RenderOptions, escapeText} from '../renderer.ts';

/** Objects of OpenReports, as YAML for `kubectl apply --server-side -f -`: a Report for each namespace, and a ClusterReport. */
export const openreports: Renderer = (report, options) =>
  manifest(report, options, {apiVersion: 'openreports.io/v1alpha1', kind: 'Report', hasSource: true});

/** The same as objects of the older API, which most dashboards read. */
export const policyreport: Renderer = (report, options) =>
  manifest(report, options, {apiVersion: 'wgpolicyk8s.io/v1alpha2', kind: 'PolicyReport', hasSource: false});

interface Dialect {
  readonly apiVersion: string;
  /** The kind in a namespace; the cluster-scoped kind has the prefix `Cluster`. */
  readonly kind: string;
  /** Besides results, the object names its source. */
  readonly hasSource: boolean;
}

/** The cluster-scoped object first, then those of namespaces sorted by name. They exist even if there are no findings. */
function manifest(report: Report, {verbose, unixTime}: RenderOptions, dialect: Dialect): string {
  const {cluster, namespaces} = policyResults(report, verbose);
  const sorted = [...namespaces].sort(([a], [b]) => (a < b ? -1 : 1));
  return [{results: cluster}, ...sorted.map(([namespace, results]) => ({namespace, results}))]
    .map(content => toYaml(objectOf(content, dialect, unixTime)))
    .join('\n---\n');
}

interface Content {
  readonly namespace?: string;
  readonly results: readonly PolicyResult[];
}

/** Its name is always the same, so that the next run replaces it. */
function objectOf({namespace, results: all}: Content, {apiVersion, kind, hasSource}: Dialect, unixTime: number | undefined): object {
  const {results, summary} = fitResults(all);
  const timestamp = unixTime === undefined ? {} : {timestamp: {seconds: Math.floor(unixTime), nanos: 0}};
  return {
    apiVersion,
    kind: namespace === undefined ? `Cluster${kind}` : kind,
    metadata: {name: 'svc-trace', namespace, labels: {'app.kubernetes.io/managed-by': 'svc-trace'}},
    ...(hasSource ? {source: 'svc-trace'} : {}),
    scope: namespace === undefined ? undefined : {apiVersion: 'v1', kind: 'Namespace', name: namespace},
    summary,
    results: results.map(result => ({...result, ...timestamp})),
  };
}

/**
 * As many results as one object can contain: etcd's default limit is 1.5 MiB, including the object's other fields. The most severe come
 * first, and one more result tells what is left out. `results`: the most severe first. `summary`: of all results, including those left out.
 */
function fitResults(all: readonly PolicyResult[]) {
  const sorted = all.toSorted((a, b) => outcomes.indexOf(a.result) - outcomes.indexOf(b.result));
  const fitting = countFitting(sorted);
  const hidden = sorted.slice(fitting);
  const results = hidden.length === 0 ? sorted : [leftOut(hidden), ...sorted.slice(0, fitting)];
  return {results, summary: countOutcomes(hidden.length === 0 ? sorted : [leftOut(hidden), ...sorted])};
}

/** In JSON, the form in which the API server stores it. */
const maxBytes = 1_300_000;

function countFitting(results: readonly PolicyResult[]): number {
  let bytes = 0;
  const first = results.findIndex(result => {
    bytes += Buffer.byteLength(JSON.stringify(result)) + timestampBytes;
    return bytes > maxBytes;
  });
  return first < 0 ? results.length : first;
}

/** It is put in later. */
const timestampBytes = '"timestamp":{"seconds":1700000000,"nanos":0},'.length;

function leftOut(hidden: readonly PolicyResult[]): PolicyResult {
  const counts = Object.entries(countOutcomes(hidden)).filter(([, number]) => number > 0);
  const list = counts.map(([outcome, number]) => `${number} ${outcome}`).join(', ');
  const isHarmless = hidden.every(({result}) => result === 'pass' || result === 'skip');
  return ownResult(
    'results-left-out',
    isHarmless ? 'skip' : 'warn',
    `there is no room here for ${hidden.length} results (${list}); the summary counts them, and check -o json shows them`,
  );
}

function countOutcomes(results: readonly PolicyResult[]): Readonly<Record<PolicyOutcome, number>> {
  const summary = {pass: 0, fail: 0, warn: 0, error: 0, skip: 0};
  for (const {result} of results) summary[result]++;
  return summary;
}

/**
 * All results of a report: one for each finding, and a `pass` for each Service and each node without errors and warnings, or a `skip` if it
 * was not checked, so that a resolved finding turns green. Infos only if `verbose`. `cluster`: about nodes, the cluster, and Services of
 * namespaces without a Service in scope. `namespaces`: about the Services of each namespace in scope.
 */
function policyResults(report: Report, verbose: boolean) {
  const own = ownFindings(verbose ? report.findings : loudFindings(report.findings));
  const namespaces = new Map<string, PolicyResult[]>();
  const unclear = doubt(report);
  const older = outdatedNodes(report);
  for (const service of report.services) {
    const findings = own.ofService(service);
    const results = namespaces.get(service.namespace) ?? [];
    namespaces.set(service.namespace, results);
    append(results, findings.results);
    if (!findings.isLoud) results.push(serviceResult(service, report, unclear));
  }
  return {
    cluster: [
      ...own.ofCluster(),
      ...report.nodes.flatMap(node => {
        const found = own.ofNode(node.name);
        return [...found.results, ...nodeResults(node, found, older.get(node.name)?.message)];
      }),
      ...own.others(report),
    ],
    namespaces,
  };
}

interface OwnResults {
  readonly results: PolicyResult[];
  /** There is an error or warning. */
  isLoud: boolean;
}

const nothing: Readonly<OwnResults> = {results: [], isLoud: false};

/** The results of findings, by subject. A finding on many nodes is one result of the Service, and one of each node that it concerns. */
function ownFindings(findings: readonly Finding[]) {
  const found = new Map<string, OwnResults>();
  const add = (key: string, result: PolicyResult): void => {
    const known = found.get(key) ?? {results: [], isLoud: false};
    found.set(key, known);
    known.results.push(result);
    known.isLoud ||= result.result !== 'pass';
  };
  const aboutServices = findings.filter(({service}) => service !== undefined);
  for (const group of groupFindings(aboutServices)) add(subjectKey(group.finding), resultOfGroup(group));
  for (const finding of findings) {
    if (finding.service !== undefined) continue;
    add(subjectKey(finding), resultOfGroup({finding, nodes: finding.node === undefined ? [] : [finding.node]}));
  }
  return {
    ofCluster: () => (found.get(subjectKey({})) ?? nothing).results,
    ofNode: (node: string) => found.get(subjectKey({node})) ?? nothing,
    ofService: (service: ServiceName) => found.get(subjectKey({service})) ?? nothing,
    /** Findings about Services and nodes that were not requested, such as deleted Services. */
    others: ({services, nodes}: Report): readonly PolicyResult[] => {
      const asked = new Set([
        subjectKey({}),
        ...services.map(service => subjectKey({service})),
        ...nodes.map(({name}) => subjectKey({node: name})),
      ]);
      return [...found].flatMap(([key, {results}]) => (asked.has(key) ? [] : results));
    },
  };
}

function subjectKey({service, node}: Pick<Finding, 'service' | 'node'>): string {
  return JSON.stringify(service === undefined ? ['node', node ?? null] : ['service', service.namespace, service.name]);
}

/** The text of a `pass` is the same in every run, whatever the number of nodes. */
function serviceResult(service: ServiceName, {summary}: Report, unclear: string | null): PolicyResult {
  const reference = serviceReference(service);
  if (unclear !== null) return ownResult('service-programmed', 'skip', `no findings for this Service alone, but ${unclear}`, reference);
  const where = summary.sampledFrom === undefined ? 'on every node' : 'on every node of a sample';
  return ownResult('service-programmed', 'pass', `in sync ${where}`, reference);
}

/** Why a Service without a finding of its own may still be out of sync; null if it is in sync. */
function doubt({nodes, findings, summary}: Report): string | null {
  if (summary.nodesUnread > 0) return `${plural(summary.nodesUnread, 'node')} not checked`;
  const whole = findings.filter(({severity, service, known}) => severity === 'error' && service === undefined && !known);
  if (whole.length > 0) {
    const codes = [...new Set(whole.map(({code}) => code))].join(', ');
    return `an error affects all Services of a node (${codes})`;
  }
  if (summary.verdict === 'incomplete' || findings.some(isUnseen)) return 'part of the scope could not be read';
  return nodes.some(({status}) => status === 'checked') ? null : 'no node was checked';
}

function isUnseen({code, severity, service}: Finding): boolean {
  return code.startsWith('ST9') && severity !== 'info' && service === undefined;
}

/** An unread node is always reported, whatever codes were excluded. */
function nodeResults(
  {name, status, reason = 'the node was not checked'}: NodeReport,
  {results, isLoud}: OwnResults,
  outdated: string | undefined,
): readonly PolicyResult[] {
  const reference = nodeReference(name);
  if (status === 'unread')
    return results.some(({result}) => result === 'error') ? [] : [ownResult('node-read', 'error', escapeText(reason), reference)];
  if (outdated !== undefined) return [ownResult('rules-current', 'fail', escapeText(outdated), reference)];
  if (isLoud) return [];
  if (status === 'unsupported') return [ownResult('node-read', 'skip', escapeText(reason), reference)];
  return [ownResult('node-read', 'pass', 'checked', reference)];
}

/** The words of the API, the most severe first: not met, not evaluated, not met but not scored, skipped or excused, met. */
const outcomes = ['fail', 'error', 'warn', 'skip', 'pass'] as const;

type PolicyOutcome = (typeof outcomes)[number];

interface ResourceReference {
  readonly apiVersion: 'v1';
  readonly kind: 'Namespace' | 'Node' | 'Service';
  readonly name: string;
  readonly namespace?: string;
}

/** One result of a (Cluster)Report or (Cluster)PolicyReport: both APIs have these fields. */
interface PolicyResult {
  readonly policy: string;
  readonly rule: string;
  readonly category?: string;
  readonly source: 'svc-trace';
  readonly result: PolicyOutcome;
  readonly scored?: boolean;
  readonly severity?: 'high' | 'medium' | 'low';
  readonly message: string;
  readonly resources?: readonly [ResourceReference];
  readonly properties?: Readonly<Record<string, string>>;
}

/** The same finding on many nodes is one result. Dashboards show only the first resource: the Service, or else the node. */
function resultOfGroup({finding, nodes}: Pick<FindingGroup, 'finding' | 'nodes'>): PolicyResult {
  const {code, name, severity, service, node, message} = finding;
  const others = nodes.length > 1 ? ` (and on ${plural(nodes.length - 1, 'more node')})` : '';
  const outcome = outcomeOf(finding);
  return {
    policy: code,
    rule: name,
    category: categories[code.slice(0, 3)] ?? code,
    source: 'svc-trace',
    result: outcome,
    scored: outcome === 'fail',
    severity: severities[severity],
    message: escapeText(message) + others,
    ...(service !== undefined ? {resources: [serviceReference(service)]} : node !== undefined ? {resources: [nodeReference(node)]} : {}),
    properties: propertiesOf(finding, nodes),
  };
}

/** A result without a finding: in sync, or not checked. There are many of these, so they are short. */
function ownResult(rule: string, result: PolicyOutcome, message: string, resource?: ResourceReference): PolicyResult {
  return {policy: 'svc-trace', rule, source: 'svc-trace', result, message, resources: resource === undefined ? undefined : [resource]};
}

function serviceReference({namespace, name}: ServiceName): ResourceReference {
  return {apiVersion: 'v1', kind: 'Service', namespace: escapeText(namespace), name: escapeText(name)};
}

function nodeReference(name: string): ResourceReference {
  return {apiVersion: 'v1', kind: 'Node', name: escapeText(name)};
}

/** Findings in the baseline are excused, as by a policy exception. Infos pass. */
function outcomeOf({code, severity, known}: Finding): PolicyOutcome {
  if (known) return 'skip';
  if (severity === 'error') return 'fail';
  if (severity === 'info') return 'pass';
  return code.startsWith('ST9') ? 'error' : 'warn';
}

/** Not every version of the older API has `info`. */
const severities = {error: 'high', warning: 'medium', info: 'low'} as const;

const categories: Readonly<Record<string, string>> = {
  ST1: 'API objects',
  ST2: 'Service rules',
  ST3: 'Base rules',
  ST4: 'Third-party rules',
  ST5: 'Node and kube-proxy',
  ST9: 'Not checked',
};

function propertiesOf(finding: Finding, nodes: readonly string[]): Readonly<Record<string, string>> {
  const {code, family, port, entry, endpoint, expected = [], actual = [], remedy, known} = finding;
  const given: Readonly<Record<string, string>> = {
    nodes: nodeList(nodes),
    family: family ?? '',
    port: port === undefined ? '' : `${port.name === '' ? '' : `${escapeText(port.name)} `}${port.port}/${port.protocol}`,
    entry: entry === undefined ? '' : escapeText(entryText(entry)),
    endpoint: escapeText(endpoint ?? ''),
    expected: evidence(expected),
    found: evidence(actual),
    known: known ? 'in the baseline' : '',
    remedy: escapeText(remedy),
    docs: docsOf(code),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ''));
}

/** At most four rules, one on each line. */
function evidence(rules: readonly RuleText[]): string {
  return rules
    .slice(0, 4)
    .map(({table, line, text}) => {
      const rule = text.length > 400 ? `${text.slice(0, 400)}…` : text;
      return escapeText(`${line > 0 ? `line ${line}: ` : ''}${table} ${rule}`);
    })
    .join('\n');
}
