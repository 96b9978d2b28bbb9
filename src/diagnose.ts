import type {ClusterContext, NodeContext} from './checks/check.ts';
import {checks} from './checks/index.ts';
import {ClusterView} from './expect/cluster/cluster-view.ts';
import type {ProxyVersion} from './expect/cluster/service-ports.ts';
import {whyNotServed} from './expect/cluster/service-ports.ts';
import {inferConfig} from './expect/iptables/infer-config.ts';
import {addressesProblem, nodeFacts} from './expect/node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from './expect/proxy-config.ts';
import {judgeNode, type NodeJudgement} from './judge/judge-node.ts';
import {readDumps} from './judge/iptables/read-dumps.ts';
import type {NodeObject, ServiceObject} from './model/api-objects.ts';
import {families} from './model/family.ts';
import {type Finding, type Observation, type ServiceName, severities} from './model/finding.ts';
import {newestKnownMinor, type ProxyConfig, type Setting} from './model/proxy-config.ts';
import type {NodeReport, Report, Summary} from './model/report.ts';
import type {PortTrace} from './model/service-trace.ts';
import type {NodeDump, Snapshot} from './model/snapshot.ts';

/** What to look at, and what the user knows better. */
export interface DiagnoseOptions {
  readonly toolVersion: string;
  /** Which Services; all of them when it is left out. */
  readonly selects?: (service: ServiceObject) => boolean;
  /** Whether a Service that the API does not have is of interest, going by its name alone; all are when it is left out. */
  readonly concerns?: (service: ServiceName) => boolean;
  /** The Services were asked for by name. */
  readonly byName?: boolean;
  readonly overrides?: ConfigOverrides;
  /** Which nodes; all of them when it is left out. */
  readonly nodes?: (name: string) => boolean;
  /** Trace the way of packets to the selected Services. */
  readonly trace?: boolean;
  /** Only these codes, when there are any. */
  readonly only?: ReadonlySet<string>;
  readonly skip?: ReadonlySet<string>;
  /** Whether a finding was known before; such findings are marked and not counted. */
  readonly known?: (finding: Finding) => boolean;
}

/** The pipeline: from a Snapshot to a Report. A pure function; the same Snapshot gives the same Report. */
export function diagnose(snapshot: Snapshot, options: DiagnoseOptions): Report {
  const view = new ClusterView(snapshot.api);
  const services = (snapshot.api.services ?? []).filter(options.selects ?? (() => true));
  const nodes: NodeReport[] = [];
  const findings: Finding[] = [];
  const traces: PortTrace[] = [];
  const wantsNode = options.nodes ?? (() => true);
  const asked = new Set(services.map(keyOf));
  const existing = new Set((snapshot.api.services ?? []).map(keyOf));
  const isAsked = (service: ServiceName): boolean => {
    const key = `${service.namespace}/${service.name}`;
    return asked.has(key) || (!existing.has(key) && (options.concerns?.(service) ?? true));
  };
  let newest: ProxyVersion | null = null;
  for (const node of snapshot.nodes) {
    if (!wantsNode(node.name)) continue;
    const result = diagnoseNode(node, snapshot, {view, options, services});
    nodes.push(result.report);
    traces.push(...result.traces);
    findings.push(...result.findings.filter(({service}) => service === undefined || isAsked(service)));
    if (result.proxy !== null && (newest === null || result.proxy.version.minor > newest.version.minor)) newest = result.proxy;
  }
  const proxy = newest ?? {version: {text: 'unknown', minor: newestKnownMinor, patch: 0}, gates: {}};
  findings.push(...clusterFindings({api: snapshot.api, view, proxy, services, byName: options.byName ?? false}));
  const unread = unreadNodes(snapshot, wantsNode);
  nodes.push(...unread.map(({report}) => report));
  findings.push(...unread.map(({finding}) => finding), ...problemFindings(snapshot));
  const sorted = sortFindings(
    findings.filter(({code}) => (options.only === undefined || options.only.has(code)) && !(options.skip?.has(code) ?? false)),
  );
  const kept = sorted.map(finding => (options.known?.(finding) ? {...finding, known: true as const} : finding));
  const servicePorts = new Set(
    families.flatMap(family =>
      view
        .entries(family, proxy)
        .filter(({port}) => services.includes(port.object))
        .map(({port}) => `${port.servicePortName}/${port.protocol}`),
    ),
  ).size;
  const served = services
    .filter(service => whyNotServed(service, proxy.version) === null)
    .map(({metadata}) => ({namespace: metadata.namespace ?? 'default', name: metadata.name}));
  const sortedNodes = nodes.sort((a, b) => compare(a.name, b.name));
  return {
    tool: {name: 'svc-trace', version: options.toolVersion},
    summary: summarise(kept, sortedNodes, {services: services.length, servicePorts, problems: snapshot.problems.length}),
    nodes: sortedNodes,
    findings: kept,
    services: served,
    traces,
  };
}

function keyOf({metadata}: ServiceObject): string {
  return `${metadata.namespace ?? 'default'}/${metadata.name}`;
}

interface NodeResult {
  readonly report: NodeReport;
  readonly findings: readonly Finding[];
  /** Null when nothing is known of the node's kube-proxy. */
  readonly proxy: ProxyVersion | null;
  readonly traces: readonly PortTrace[];
}

interface Whole {
  readonly view: ClusterView;
  readonly options: DiagnoseOptions;
  readonly services: readonly ServiceObject[];
}

function diagnoseNode(node: NodeDump, snapshot: Snapshot, {view, options, services}: Whole): NodeResult {
  const dumps = readDumps(node);
  const {config, problems} = resolveProxyConfig(node, snapshot.api, options.overrides ?? {}, inferConfig(dumps.current));
  const facts = nodeFacts(node, snapshot.api);
  const traced = new Set(options.trace ? services : []);
  const judgement = judgeNode({node, api: snapshot.api, view, config, facts, dumps, traces: port => traced.has(port.object)});
  const context: NodeContext = {node, facts, view, ...judgement};
  const findings = checks.flatMap(check =>
    check.node === undefined ? [] : [...check.node(context)].map(observation => toFinding(check, observation)),
  );
  const unreadable = addressesProblem(node);
  const said = [...problems, ...(unreadable === null ? [] : [unreadable])].map(problem =>
    toFinding(settingsProblem, {node: node.name, message: problem.message, severity: 'warning'}),
  );
  return {
    report: reportOf(node, judgement),
    findings: [...findings, ...said],
    proxy: {version: judgement.config.version.value, gates: config.featureGates.value},
    traces: judgement.traces,
  };
}

/** What was wrong with a file that tells kube-proxy's settings is no more than a node that was not read well. */
const settingsProblem = {
  code: 'ST901',
  name: 'node-not-read',
  severity: 'warning',
  remedy: 'Correct or remove the file; the settings were taken from elsewhere.',
} as const;

function reportOf(node: NodeDump, {config, status, rulesets, families: judged, counts}: NodeJudgement): NodeReport {
  const [first] = rulesets.values();
  const backend = first?.backend ?? null;
  return {
    name: node.name,
    status: status.kind === 'not-served' ? 'unsupported' : status.kind,
    ...(status.kind === 'checked' ? {} : {reason: status.reason}),
    proxyMode: config.mode.value,
    kubeProxyVersion: config.version.value.text,
    ...(backend === null ? {} : {backend}),
    families: judged,
    ...counts,
    settings: settingsOf(config),
  };
}

function settingsOf(config: ProxyConfig): Readonly<Record<string, Setting<string>>> {
  return Object.fromEntries(Object.entries(config).map(([name, {value, source}]) => [name, {value: settingText(value), source}]));
}

function settingText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value ?? '');
  if (Array.isArray(value)) return value.join(',');
  if ('text' in value) return String(value.text);
  return Object.entries(value)
    .map(([name, on]) => `${name}=${on}`)
    .join(',');
}

function clusterFindings(context: ClusterContext): readonly Finding[] {
  return checks.flatMap(check =>
    check.cluster === undefined ? [] : [...check.cluster(context)].map(observation => toFinding(check, observation)),
  );
}

/** Nodes of the API that the snapshot has no dump of. In a bundle that holds no node at all, none is expected. */
function unreadNodes(
  snapshot: Snapshot,
  wantsNode: (name: string) => boolean,
): readonly {readonly report: NodeReport; readonly finding: Finding}[] {
  const read = new Set(snapshot.nodes.map(({name}) => name));
  if (read.size === 0) return [];
  return (snapshot.api.nodes ?? []).filter(({metadata}) => !read.has(metadata.name) && wantsNode(metadata.name)).map(unreadNode);
}

function unreadNode({metadata}: NodeObject): {readonly report: NodeReport; readonly finding: Finding} {
  const reason = 'the bundle holds nothing of it';
  const report: NodeReport = {name: metadata.name, status: 'unread', reason, families: [], rules: 0, chains: 0, settings: {}};
  return {
    report,
    finding: toFinding(settingsProblem, {
      node: metadata.name,
      message: `${metadata.name} was not checked: ${reason}`,
      remedy: 'Collect it, or name the nodes to be looked at with --node.',
    }),
  };
}

function problemFindings({problems}: Snapshot): readonly Finding[] {
  return problems.map(({message, node}) =>
    toFinding(settingsProblem, {
      message,
      ...(node === undefined ? {} : {node}),
      remedy: 'Write the file again; what could be read was judged.',
    }),
  );
}

function toFinding(
  check: {readonly code: string; readonly name: string; readonly severity: Finding['severity']; readonly remedy: string},
  observation: Observation,
): Finding {
  const {code, name, severity, remedy} = check;
  return {...observation, code, name, severity: observation.severity ?? severity, remedy: observation.remedy ?? remedy};
}

/** By severity, code, namespace, name, port and node, so that the same input gives the same bytes. */
function sortFindings(findings: readonly Finding[]): readonly Finding[] {
  const key = (finding: Finding): readonly (string | number)[] => [
    severities.indexOf(finding.severity),
    finding.code,
    finding.service?.namespace ?? '',
    finding.service?.name ?? '',
    finding.port?.port ?? 0,
    finding.node ?? '',
    finding.family ?? '',
    finding.message,
  ];
  return findings
    .map(finding => ({finding, key: key(finding)}))
    .sort((a, b) => compareKeys(a.key, b.key))
    .map(({finding}) => finding);
}

function compareKeys(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  for (const [index, value] of a.entries()) {
    const order = compare(value, b[index] ?? value);
    if (order !== 0) return order;
  }
  return 0;
}

function compare<T extends string | number>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function summarise(
  findings: readonly Finding[],
  nodes: readonly NodeReport[],
  counts: {readonly services: number; readonly servicePorts: number; readonly problems: number},
): Summary {
  const count = (severity: Finding['severity']): number =>
    findings.filter(finding => finding.severity === severity && !finding.known).length;
  const unread = nodes.filter(({status}) => status === 'unread').length;
  const [errors, warnings, infos] = [count('error'), count('warning'), count('info')];
  const incomplete = unread > 0 || counts.problems > 0;
  return {
    verdict: errors + warnings > 0 && !(incomplete && errors === 0) ? 'findings' : incomplete ? 'incomplete' : 'ok',
    ...{errors, warnings, infos},
    nodesChecked: nodes.filter(({status}) => status === 'checked').length,
    nodesUnread: unread,
    services: counts.services,
    servicePorts: counts.servicePorts,
  };
}
