import {heldIn, once, onceAsked} from '../model/once.ts';
import {analyzeNode, narrowNode} from '../analyze/analyze-node.ts';
import {type ServiceDifferences, type NodeAnalysis, type NodeInput, seenConfig} from '../analyze/proxy-mode.ts';
import {readDumps} from '../analyze/iptables/node-rulesets.ts';
import {readNft, type NarrowTo} from '../analyze/nftables/nft-rules.ts';
import {withinWhatWasRead} from '../analyze/symptoms/node-symptoms.ts';
import type {Symptom} from '../analyze/symptoms/symptom.ts';
import type {NodeCheckContext} from '../checks/check-types.ts';
import {checks} from '../checks/all-checks.ts';
import {podWay} from '../checks/kernel/st613-mtu-differs.ts';
import {type ClusterView, type PortEntry, serviceKey, clusterIPOf} from '../expect/cluster/cluster-view.ts';
import {parseChainName} from '../expect/iptables/chain-names.ts';
import {readNodeFacts} from '../expect/read-node-facts.ts';
import {resolveProxyConfig, type ConfigOverrides} from '../expect/resolve-proxy-config.ts';
import {families, type Family} from '../model/address.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import {podOf} from '../model/endpoint.ts';
import type {Finding, ServiceName} from '../model/finding.ts';
import type {ProxyConfig, ProxyVersion, Setting} from '../model/proxy-config.ts';
import type {NodeReport} from '../model/report.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {CountedRule, EntryTrace, PortTrace, UnservedAddress} from '../model/service-trace.ts';
import {iptablesFiles, type ApiObjects, fileText, type NodeDump, nothingInIt, type UnreadNode} from '../model/snapshot.ts';
import {namespacedName} from '../model/text.ts';
import {parseHealthz} from '../parse/kube-proxy/kube-proxy-state.ts';
import {problemFinding, toFinding} from './to-finding.ts';
import {endpointsOf, withSince} from './since.ts';
import type {NodeResult} from '../model/node-result.ts';
import type {RuleText} from '../model/ruleset.ts';
import {pickLines, ruleCounters} from '../parse/iptables/rule-counters.ts';
import type {NodeLag, NodeReading} from '../model/state-history.ts';

/** Every stage for one node: parse its dumps, compare them with the expected rules, and analyze the differences. */
export function diagnoseNode(node: NodeDump, surroundings: NodeSurroundings): NodeResult {
  return prepareNode(node, surroundings).evaluate({view: surroundings.view}).result;
}

/** Parses the dumps of a node once, and returns a function that analyzes them against any state of the Services. */
export function prepareNode(node: NodeDump, {api, view: latest, services, options}: NodeSurroundings): PreparedNode {
  const dumps = readDumps(node);
  const nft = onceAsked(() => readNft(node));
  const seen = onceAsked(() => seenConfig(node, dumps.current, nft));
  const {config, problems} = resolveProxyConfig(node, api, options.overrides ?? {}, seen);
  const {facts, problem: unreadable} = readNodeFacts(node, api);
  const traces = tracedPorts(askedPorts(services, api) ?? (() => true), options.trace ?? false);
  const told = [...problems, ...(unreadable === null ? [] : [unreadable])].map(({message}) =>
    problemFinding({node: node.name, message, remedy: 'Correct or remove the file; the settings were taken from elsewhere.'}),
  );
  const evaluator =
    (parsed: ParsedDumps): EvaluateState =>
    ({view, lag, eachService = false}) => {
      const {node, api} = parsed;
      const evaluated = analyzeNode({...parsed, view, config, facts, traces, eachService});
      const analysis = {...evaluated, symptoms: withinWhatWasRead(evaluated.symptoms, api)};
      const isFollowed = view !== latest;
      // A symptom may be told in another way beside a broken promise of any Service.
      const isAsked = analysis.symptoms.length > 0 || config.nodeName.value !== facts.name ? undefined : askedPorts(services, api);
      const context: NodeCheckContext = {node, facts, api, view, ...analysis, isFollowed, isAsked, lag};
      const findings = checks.flatMap(check =>
        check.node === undefined || (isWithoutKubeProxy(analysis) && check.code.startsWith('ST5'))
          ? []
          : [...check.node(context)].map(observation => toFinding(check, {node: node.name, ...observation})),
      );
      const way = podWay(context);
      const traced = withUnservedFamilies(analysis.traces, services, analysis.unread);
      const proxy = {version: analysis.config.version.value, gates: config.featureGates.value};
      const counted = countEndpoints(view, proxy);
      const result = {
        report: {...nodeReport(node, analysis), lag},
        findings: withSince([...changeToldOnce(findings), ...told].map(counted), {
          api,
          ports: () => analysis.families.flatMap(family => view.entries(family, proxy)),
          lastUpdated: () => lastUpdated(node),
        }).map(detached),
        proxy,
        podWay: way ?? undefined,
        traces: traced.length === 0 ? [] : structuredClone(countTraces(traced, node, parsed.dumps.uncounted)),
      };
      const unreached = analysis.symptoms.flatMap(({family, chains = []}) => chains.map(chain => ({family, chain})));
      const {differing = new Map<string, ServiceDifferences>(), isReadPiecemeal = false} = analysis;
      return {result, unreached, differing, isReadPiecemeal};
    };
  return {
    evaluate: evaluator({node, api, dumps, nft}),
    narrowTo: to => {
      const narrowed = narrowNode(node, config.mode.value, {to, api});
      if (narrowed === null) return null;
      const isOwn = ({metadata}: ServiceObject): boolean => to.services.has(namespacedName(metadata));
      return evaluator({
        node: narrowed,
        api: {...api, services: (api.services ?? []).filter(isOwn)},
        dumps: readDumps(narrowed),
        nft: onceAsked(() => readNft(narrowed)),
      });
    },
  };
}

/** Only Cilium was read: checks of kube-proxy have nothing to say. */
function isWithoutKubeProxy({config}: NodeAnalysis): boolean {
  return config.mode.value === 'cilium';
}

/** The dumps of a node, or the part of them about some Services, with the objects to compare them with. */
type ParsedDumps = Pick<NodeInput, 'node' | 'api' | 'dumps' | 'nft'>;

/** What is found of a Service that changed just before says that itself: ST904 beside it would say so again. */
function changeToldOnce(findings: readonly Finding[]): readonly Finding[] {
  const changed = new Map(
    findings.flatMap(({code, service, message}) => (code === 'ST904' && service !== undefined ? [[namespacedName(service), message]] : [])),
  );
  if (changed.size === 0) return findings;
  const changeOf = ({code, severity, service}: Finding): string | undefined =>
    severity === 'info' || service === undefined || !/^ST2|^ST508$/.test(code) ? undefined : changed.get(namespacedName(service));
  const told = new Set(findings.flatMap(finding => changeOf(finding) ?? []));
  return findings.flatMap(finding => {
    if (finding.code === 'ST904' && told.has(finding.message)) return [];
    const change = changeOf(finding);
    return change === undefined ? [finding] : [{...finding, message: `${finding.message}; ${change}`}];
  });
}

/** The text of a rule is a slice of its chain's or of the dump, and would keep all of it in memory. Chains of one Service port are short. */
function detached(finding: Finding): Finding {
  return (finding.actual ?? []).every(({chain}) => parseChainName(chain) !== null) ? finding : structuredClone(finding);
}

/**
 * Adds to the traces of one node the cluster IPs of families that its kube-proxy does not serve: up to 1.20 it serves one. A family that
 * could not be read is not added, because that is a finding.
 * @internal
 */
export function withUnservedFamilies(
  traces: readonly PortTrace[],
  services: readonly ServiceObject[],
  unread: readonly {readonly family: Family}[],
): readonly PortTrace[] {
  const served = new Set([...traces, ...unread].map(({family}) => family));
  const others = families.filter(family => !served.has(family));
  if (others.length === 0) return traces;
  return traces.map(trace => {
    const unserved = others.flatMap(family => clusterIP(trace, services, family));
    return unserved.length === 0 ? trace : {...trace, unserved: [...unserved, ...(trace.unserved ?? [])]};
  });
}

function clusterIP(
  {service, port, family: served}: PortTrace,
  services: readonly ServiceObject[],
  family: Family,
): readonly UnservedAddress[] {
  const object = services.find(({metadata}) => metadata.name === service.name && (metadata.namespace ?? 'default') === service.namespace);
  const address = object === undefined ? null : clusterIPOf(object, family);
  if (address === null) return [];
  return [{kind: 'clusterIP', address, port: port.port, reason: `kube-proxy on this node serves ${served} only`}];
}

/** Undefined where all Services are asked for. */
function askedPorts(services: readonly ServiceObject[], {services: all}: ApiObjects): ((port: ServicePort) => boolean) | undefined {
  if (services.length === all?.length) return undefined;
  const asked = new Set(services.map(({metadata}) => namespacedName(metadata)));
  return port => asked.has(serviceKey(port));
}

/**
 * The Service ports of a node that are traced. The number of faulty Services is limited to what a report can show: traces take memory on
 * every node.
 */
function tracedPorts(isAsked: (port: ServicePort) => boolean, trace: NonNullable<DiagnoseOptions['trace']>): NodeInput['traces'] {
  if (trace === false) return () => false;
  if (trace !== 'faulty') return isAsked;
  return (port, found) => isAsked(port) && faultyServices(found).has(serviceKey(port));
}

const maxServices = 24;

/** Every port of a family uses the same list. */
const faultyServices = once((symptoms: readonly Symptom[]): ReadonlySet<string> => {
  const loud = symptoms.filter(({severity}) => severity !== 'info');
  const names = new Set(loud.flatMap(({port}) => (port === null ? [] : [serviceKey(port)])));
  return new Set([...names].slice(0, maxServices));
});

/** What kube-proxy says when it is not healthy; null otherwise. */
function lastUpdated(node: NodeDump): number | null {
  const health = parseHealthz(fileText(node, 'healthz.json'));
  return health === null || health.healthy ? null : health.lastUpdated;
}

/** Tells findings of an endpoint how many ready endpoints its Service port has, and its pod. The ports are looked up if there is such a finding. */
function countEndpoints(view: ClusterView, proxy: ProxyVersion): (finding: Finding) => Finding {
  return finding => {
    const {endpoint, service, port, family = 'IPv4'} = finding;
    if (endpoint === undefined || service === undefined || port === undefined) return finding;
    const entry = portsOf(view.entries(family, proxy)).get(portKey(service, port));
    const known = entry === undefined ? undefined : endpointsOf(entry).get(endpoint);
    if (entry === undefined || known === undefined) return finding;
    const pod = podOf(known);
    return {...finding, ...(known.ready ? {endpoints: readyOf(entry).count} : {}), pod: pod ?? undefined};
  };
}

const readyOf = once((entry: PortEntry): {readonly count: number} => ({
  count: [...endpointsOf(entry).values()].filter(({ready}) => ready).length,
}));

/** Nodes with the same version of kube-proxy share the list, and this. */
const portsOf = once(
  (entries: readonly PortEntry[]) =>
    new Map(
      entries.map(entry => {
        const {namespace, service, portName, protocol} = entry.port;
        return [portKey({namespace, name: service}, {name: portName, protocol}), entry];
      }),
    ),
);

function portKey(
  {namespace, name}: NonNullable<Finding['service']>,
  port: Pick<NonNullable<Finding['port']>, 'name' | 'protocol'>,
): string {
  return `${namespace}/${name}:${port.name}/${port.protocol}`;
}

function nodeReport({name, missing, via}: NodeDump, analysis: NodeAnalysis): NodeReport {
  const {config, status, rulesets, families: evaluated, counts, cilium} = analysis;
  const [first] = rulesets.values();
  const backend = first?.backend ?? null;
  // Files are read side by side: which is done first is chance.
  const notRead = (missing ?? []).filter(({reason}) => reason !== nothingInIt).toSorted((a, b) => (a.file < b.file ? -1 : 1));
  return {
    name,
    status: status.kind === 'not-served' ? 'unsupported' : status.kind,
    ...(status.kind === 'checked' ? {} : {reason: status.reason}),
    proxyMode: config.mode.value,
    ...(isWithoutKubeProxy(analysis) ? {} : {kubeProxyVersion: config.version.value.text}),
    ciliumVersion: cilium,
    backend: backend ?? undefined,
    families: evaluated,
    ...counts,
    ...([...rulesets.values()].some(({isByChain}) => isByChain) ? {read: 'reachable' as const} : {}),
    settings: isWithoutKubeProxy(analysis) ? {} : settingsOf(config),
    via: via ?? undefined,
    ...(notRead.length === 0 ? {} : {notRead}),
  };
}

function settingsOf(config: ProxyConfig): Readonly<Record<string, Setting<string>>> {
  // The settings of IPVS do not matter in other modes.
  const entries = Object.entries(config).filter(([name]) => !name.startsWith('ipvs') || config.mode.value === 'ipvs');
  return Object.fromEntries(entries.map(([name, {value, source}]) => [name, {value: settingText(value), source}]));
}

function settingText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value ?? '');
  if (Array.isArray(value)) return value.join(',');
  if ('text' in value) return String(value.text);
  return Object.entries(value)
    .map(([name, on]) => `${name}=${on}`)
    .join(',');
}

/**
 * Adds the counters of their rules to traces, if the dump has them. They are read from the lines of these rules, so that the parser need
 * not keep the counters of a million others. The files in `uncounted` are known to have none.
 */
export function countTraces(
  traces: readonly PortTrace[],
  node: NodeDump,
  uncounted: ReadonlySet<string> = new Set(),
): readonly PortTrace[] {
  const sources = new Map<Family, Sources>();
  const sourcesOf = (family: Family): Sources => {
    const files = [...iptablesFiles(family), 'nft.txt'].filter(file => !uncounted.has(file));
    return heldIn(sources, family, () => readLines(node, files, linesOf(traces, family)));
  };
  return traces.map(trace => {
    const lines = sourcesOf(trace.family);
    return lines.length === 0 ? trace : {...trace, entries: trace.entries.map(entry => countEntry(entry, lines))};
  });
}

/** These lines of each dump. The text of a rule identifies its dump. Whether there are counters, its lines show: to search all for them takes longer. */
function readLines(node: NodeDump, files: readonly string[], wanted: ReadonlySet<number>): Sources {
  return files.flatMap(file => {
    const content = wanted.size === 0 ? null : node.read(file);
    return content === null ? [] : [pickLines(content, wanted)];
  });
}

function linesOf(traces: readonly PortTrace[], family: Family): ReadonlySet<number> {
  const own = traces.filter(trace => trace.family === family).flatMap(({entries}) => entries);
  const rules = own.flatMap(({steps, endpoints, end}) => [
    ...steps,
    ...endpoints.flatMap(({pick, rewrite}) => [pick, rewrite]),
    end?.rule ?? null,
  ]);
  return new Set(rules.flatMap(rule => (rule === null || rule.line === 0 ? [] : [rule.line])));
}

type Sources = readonly ReadonlyMap<number, string>[];

function countEntry(entry: EntryTrace, sources: Sources): EntryTrace {
  const {steps, endpoints, end} = entry;
  return {
    ...entry,
    steps: steps.map(step => ({...step, ...countersOf(step, sources)})),
    endpoints: endpoints.map(endpoint => ({
      ...endpoint,
      pick: counted(endpoint.pick, sources),
      rewrite: counted(endpoint.rewrite, sources),
    })),
    end: end === null ? null : {...end, rule: counted(end.rule, sources)},
  };
}

function counted(rule: CountedRule | null, sources: Sources): CountedRule | null {
  return rule === null ? null : {...rule, ...countersOf(rule, sources)};
}

function countersOf({line, text}: RuleText, sources: Sources): Pick<CountedRule, 'packets' | 'bytes' | 'rounded'> {
  for (const lines of sources) {
    const counters = ruleCounters(lines.get(line) ?? '', text);
    if (counters !== null) return counters;
  }
  return {};
}

/** What to check, and settings that the user overrides. */
export interface DiagnoseOptions {
  readonly toolVersion: string;
  /** Selects Services; all of them if left out. */
  readonly selects?: (service: ServiceObject) => boolean;
  /** Whether a Service that is not in the API is in scope, by its name alone; all are if left out. */
  readonly concerns?: (service: ServiceName) => boolean;
  /** The requested scope, as text. */
  readonly scope?: string;
  /** The Services were requested by name. */
  readonly byName?: boolean;
  readonly overrides?: ConfigOverrides;
  /** Selects nodes; all of them if left out. */
  readonly nodes?: (name: string) => boolean;
  /** Set if the nodes are a sample of this many. */
  readonly sample?: {readonly of: number};
  /** Trace packet paths to the selected Services; `faulty`: on each node only to those with findings there. */
  readonly trace?: boolean | 'faulty';
  /** Leaves out the checks of the API objects. */
  readonly nodesOnly?: boolean;
  /** Only these codes, if there are any. */
  readonly only?: ReadonlySet<string>;
  /** Not these codes; `ST101=shop/empty`: not this code for this Service. */
  readonly skip?: ReadonlySet<string>;
  /** The findings of the baseline: a recurring finding of no higher severity is marked and not counted. */
  readonly known?: readonly Finding[];
}

export interface NodeSurroundings {
  readonly api: ApiObjects;
  readonly view: ClusterView;
  /** The requested Services. */
  readonly services: readonly ServiceObject[];
  readonly options: DiagnoseOptions;
}

/** The input of one of several analyses of the same dumps. */
export interface StateToTest {
  readonly view: ClusterView;
  /** Report each Service by itself, without findings that stand for many. */
  readonly eachService?: boolean;
  /** How far the node lags behind the API, once that is known. */
  readonly lag?: NodeLag;
}

export interface TestedState {
  readonly result: NodeResult;
  /** Chains of Services that no rule reaches. */
  readonly unreached: readonly {readonly family: Family; readonly chain: string}[];
  /** See `ModeAnalysis`. */
  readonly differing: ReadonlyMap<string, ServiceDifferences>;
  /** See `ModeAnalysis`. */
  readonly isReadPiecemeal: boolean;
}

type EvaluateState = (state: StateToTest) => TestedState;

export interface PreparedNode {
  readonly evaluate: EvaluateState;
  /** The same by the rules of some Services alone, which is less work; null where the dumps cannot be narrowed. */
  readonly narrowTo: (to: NarrowTo) => EvaluateState | null;
}

/** A diagnosis in progress, for those that read the nodes. The results of a node replace earlier ones. */
export interface OpenDiagnosis {
  /** The requested Services. */
  readonly services: readonly ServiceObject[];
  /** The API objects that nodes are compared with now. */
  readonly api: ApiObjects;
  /** Compares nodes with these API objects from now on; earlier results stay. */
  renew(api: ApiObjects): void;
  /** Diagnoses a node and drops its dumps; against all states of the Services if they were followed. */
  add(node: NodeDump, reading?: NodeReading): void;
  /** Adds a node that was diagnosed elsewhere. */
  addResult(result: NodeResult): void;
  /** Adds a node that was not read. */
  addUnread(node: UnreadNode, dump?: NodeDump): void;
  /** Removes a node that no longer exists. */
  forget(node: string): void;
  /** The result of a node so far. */
  resultOf(node: string): NodeResult | undefined;
  /** The findings of a node so far that would be reported. */
  findingsOn(node: string): readonly Finding[];
  /** Replaces the findings of a node. */
  revise(node: string, change: (findings: readonly Finding[]) => readonly Finding[]): void;
}
