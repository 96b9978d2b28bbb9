import {onceAsked} from '../model/once.ts';
import type {ClusterContext} from '../checks/check-types.ts';
import {checks} from '../checks/all-checks.ts';
import {kubeProxyTrouble, troubleText} from '../checks/kube-proxy.ts';
import {podsOnNode} from '../expect/api-index.ts';
import {ClusterView, notServed} from '../expect/cluster/cluster-view.ts';
import {families, type Family} from '../model/address.ts';
import type {PodObject, ServiceObject} from '../model/api-objects.ts';
import {type Finding, isNoWorse, pairFindings, nameOf} from '../model/finding.ts';
import {partition} from '../model/lists.ts';
import {newestKnownMinor, type ProxyVersion} from '../model/proxy-config.ts';
import {
  affectsAllServices,
  concernsFamily,
  countServices,
  type NodeReport,
  type Report,
  type ReportedService,
  type ServicesInScope,
  type SkippedFinding,
  type Summary,
  whyNothingChecked,
} from '../model/report.ts';
import {hasExternalEntry} from '../model/service-port.ts';
import type {ApiObjects, NodeDump, Problem, UnreadNode} from '../model/snapshot.ts';
import type {NodeReading} from '../model/state-history.ts';
import {commandLine, errorText, namespacedName, UnreadableText} from '../model/text.ts';
import {prepareNode, type DiagnoseOptions, type OpenDiagnosis} from './diagnose-node.ts';
import type {NodeResult} from '../model/node-result.ts';
import {diagnoseStates} from './diagnose-states.ts';
import {byName, problemFinding, sortFindings, toFinding} from './to-finding.ts';
import {withHits} from './hits.ts';

/**
 * A diagnosis in progress: nodes are diagnosed one by one, in any order, and only the findings of each are kept. The same API objects and
 * nodes give the same Report.
 */
export class Diagnosis implements OpenDiagnosis {
  readonly #options: DiagnoseOptions;
  readonly #results = new Map<string, NodeResult>();
  readonly #pods = new Map<string, readonly PodObject[]>();
  #cluster: ClusterInScope;

  constructor(api: ApiObjects, options: DiagnoseOptions) {
    this.#options = options;
    this.#cluster = clusterOf(api, options);
  }

  get services(): readonly ServiceObject[] {
    return this.#cluster.services;
  }

  get api(): ApiObjects {
    return this.#cluster.api;
  }

  renew(api: ApiObjects): void {
    this.#cluster = clusterOf(api, this.#options);
  }

  add(node: NodeDump, reading?: NodeReading): void {
    this.#results.set(node.name, this.#resultOf(node, reading));
  }

  /** A fault of this program on one node does not take the results of the others away. */
  #resultOf(node: NodeDump, reading: NodeReading | undefined): NodeResult {
    const surroundings = {...this.#cluster, options: this.#options};
    try {
      const prepared = prepareNode(node, surroundings);
      return reading === undefined ? prepared.evaluate(surroundings).result : diagnoseStates(prepared, surroundings, reading);
    } catch (error) {
      return unreadNode({name: node.name, ...whyNotEvaluated(error, node.name)}, this.#cluster.api);
    }
  }

  addResult(result: NodeResult): void {
    this.#results.set(result.report.name, result);
  }

  resultOf(node: string): NodeResult | undefined {
    return this.#results.get(node);
  }

  addUnread(node: UnreadNode, dump?: NodeDump): void {
    this.#results.set(node.name, unreadNode(node, this.#cluster.api, dump));
  }

  forget(node: string): void {
    this.#results.delete(node);
  }

  findingsOn(node: string): readonly Finding[] {
    return (this.#results.get(node)?.findings ?? []).filter(finding => this.#isWanted(finding) && this.#isAsked(finding));
  }

  revise(node: string, change: (findings: readonly Finding[]) => readonly Finding[]): void {
    const result = this.#results.get(node);
    if (result !== undefined) this.#results.set(node, {...result, findings: change(result.findings)});
  }

  report(problems: readonly Problem[]): Report {
    const {api, view, services} = this.#cluster;
    const results = [...this.#results.values()].sort((a, b) => byName(a.report, b.report));
    const proxy = newestProxy(results);
    const nodes = results.map(({report}) => report);
    const ofCluster = this.#options.nodesOnly ? [] : clusterFindings({api, view, proxy, services, byName: this.#options.byName ?? false});
    const ofNodes = results.flatMap(result => result.findings).filter(finding => this.#isAsked(finding));
    const unread =
      services.length + this.#cluster.unsure > 0 && !this.#options.nodesOnly ? [...problems, ...nothingChecked(nodes)] : problems;
    const [wanted, others] = partition(
      [...ofNodes, ...comparedNodes(results), ...ofCluster, ...unread.map(problem => problemFinding(problem))],
      finding => this.#isWanted(finding),
    );
    const sorted = sortFindings(withHits(wanted, node => this.#podsOf(node)));
    const leftOut = others.filter(({severity}) => severity !== 'info').map(finding => this.#withSkipped(finding));
    const {stayed} = pairFindings(this.#options.known ?? [], sorted, isNoWorse);
    const kept = sorted.map(finding => (stayed.has(finding) ? {...finding, known: true as const} : finding));
    const served = services.filter(service => notServed(service, proxy.version) === null);
    const reported = reportedServices(served, view, proxy);
    const scope = {served: reported, servicesWithoutRules: countUnserved(services, proxy), unread: this.#cluster.unsure};
    const isComplete = unread.every(({isMinor}) => isMinor);
    return {
      tool: {name: 'svc-trace', version: this.#options.toolVersion},
      summary: {
        ...summarize(kept, nodes, {leftOut, services: scope, servicePorts: countPorts(view, services, proxy), isComplete}),
        sampledFrom: this.#options.sample?.of,
      },
      nodes,
      findings: kept,
      ...(leftOut.length === 0 ? {} : {leftOut}),
      services: reported,
      scope: this.#options.scope,
      traces: results.flatMap(({traces}) => traces),
    };
  }

  /** Adds the pods of a node, where those of all nodes were not read. */
  addPods(node: string, pods: readonly PodObject[]): void {
    this.#pods.set(node, pods);
  }

  /** All pods of a node; null if they were not read. */
  #podsOf(node: string): readonly PodObject[] | null {
    const {pods, podsOf, namespaces} = this.#cluster.api;
    const isWhole = pods !== null && podsOf === undefined && namespaces === undefined;
    return this.#pods.get(node) ?? (isWhole ? podsOnNode(this.#cluster.api, node) : null);
  }

  #isWanted(finding: Finding): boolean {
    return this.#isWantedCode(finding) && this.#skippedBy(finding) === null;
  }

  #isWantedCode({code}: Finding): boolean {
    const {only, skip} = this.#options;
    return (only === undefined || only.has(code)) && !skip?.has(code);
  }

  /** What leaves out this code for the Service of the finding alone. */
  #skippedBy({code, service}: Finding): 'flag' | 'annotation' | null {
    if (service === undefined) return null;
    const name = namespacedName(service);
    if (this.#options.skip?.has(`${code}=${name}`) === true) return 'flag';
    return this.#cluster.skips().get(name)?.has(code) === true ? 'annotation' : null;
  }

  #withSkipped(finding: Finding): Finding {
    const skippedBy = this.#isWantedCode(finding) ? this.#skippedBy(finding) : null;
    return skippedBy === null ? finding : {...finding, skippedBy};
  }

  /**
   * The findings of a node that concern no Service, or a requested one: not what is wrong for others alone, nor in a family that no Service
   * asked for by name has.
   */
  #isAsked(finding: Finding): boolean {
    const {service, affects = []} = finding;
    if (service === undefined) {
      const isByName = this.#options.byName === true;
      if (affects.length > 0) return affects.some(one => this.#cluster.names().requested.has(namespacedName(one)));
      if (!isByName || !affectsAllServices(finding)) return true;
      return this.services.some(asked => concernsFamily(finding, familiesOf(asked)));
    }
    const {requested, existing} = this.#cluster.names();
    const key = namespacedName(service);
    return requested.has(key) || (!existing.has(key) && (this.#options.concerns?.(service) ?? true));
  }
}

interface ClusterInScope {
  readonly api: ApiObjects;
  readonly view: ClusterView;
  readonly services: readonly ServiceObject[];
  /** Made when a node has a finding about a Service. */
  readonly names: () => {readonly requested: ReadonlySet<string>; readonly existing: ReadonlySet<string>};
  /** The codes that Services leave out by their annotation, by `namespace/name`. */
  readonly skips: () => ReadonlyMap<string, ReadonlySet<string>>;
  /** How many requested Services have endpoints that could not be read. */
  readonly unsure: number;
}

function clusterOf(api: ApiObjects, {selects = () => true}: DiagnoseOptions): ClusterInScope {
  const all = api.services ?? [];
  const wanted = all.filter(selects);
  const services = wanted.filter(service => !api.unsure?.has(namespacedName(service.metadata)));
  const names = onceAsked(() => {
    const requested = new Set(namesOf(services));
    return {requested, existing: services.length === all.length ? requested : new Set(namesOf(all))};
  });
  const skips = onceAsked(() => new Map(all.flatMap(service => skippedCodes(service))));
  return {api, view: new ClusterView(api), services, names, skips, unsure: wanted.length - services.length};
}

/** `svc-trace.dev/skip: ST101, missing-endpoint`. A word that is no code or name leaves out nothing. */
function skippedCodes(service: ServiceObject): readonly (readonly [string, ReadonlySet<string>])[] {
  const text = service.metadata.annotations?.['svc-trace.dev/skip'];
  if (typeof text !== 'string') return [];
  const words = new Set(text.toLowerCase().split(/[\s,]+/));
  return [
    [
      namespacedName(service.metadata),
      new Set(checks.flatMap(({code, name}) => (words.has(code.toLowerCase()) || words.has(name) ? [code] : []))),
    ],
  ];
}

function reportedServices(services: readonly ServiceObject[], view: ClusterView, proxy: ProxyVersion): readonly ReportedService[] {
  const entriesOf = onceAsked(() => {
    const all = families.flatMap(family => view.entries(family, proxy));
    return Map.groupBy(all, ({port}) => port.object);
  });
  return services.map(service => {
    const {spec} = service;
    const families = familiesOf(service);
    const isDual = families.length > 1;
    const own = {...(families.length === 1 ? {families} : {}), ports: spec?.ports?.length ?? 0};
    if (!isDual && spec?.internalTrafficPolicy !== 'Local') return {...nameOf(service), ...own};
    const entries = entriesOf().get(service) ?? [];
    const isLocal =
      entries.length > 0 && entries.every(({port}) => port.internalPolicyLocal && (port.externalPolicyLocal || !hasExternalEntry(port)));
    const used = entries.flatMap(({set}) => set.endpoints).filter(({ready, serving, terminating}) => ready || (serving && terminating));
    return {
      ...nameOf(service),
      ...own,
      ...(isDual ? {families: [...new Set(entries.map(({port}) => port.family))]} : {}),
      ...(isLocal && used.length > 0 ? {onlyOn: new Set(used.flatMap(({nodeName}) => nodeName ?? []))} : {}),
    };
  });
}

/** Empty where the Service does not say it. */
function familiesOf({spec}: ServiceObject): readonly Family[] {
  return families.filter(family => spec?.ipFamilies?.includes(family));
}

function countUnserved(services: readonly ServiceObject[], {version}: ProxyVersion): Summary['servicesWithoutRules'] {
  const kinds = services.flatMap(service => notServed(service, version)?.kind ?? []);
  return Object.fromEntries([...Map.groupBy(kinds, kind => kind)].map(([kind, all]) => [kind, all.length]).sort());
}

function namesOf(services: readonly ServiceObject[]): readonly string[] {
  return services.map(({metadata}) => namespacedName(metadata));
}

function newestProxy(results: readonly NodeResult[]): ProxyVersion {
  let newest: ProxyVersion | null = null;
  for (const {proxy} of results) if (proxy !== null && (newest === null || proxy.version.minor > newest.version.minor)) newest = proxy;
  return newest ?? {version: {text: 'unknown', minor: newestKnownMinor, patch: null}, gates: {}};
}

/** A port of both families counts once. */
function countPorts(view: ClusterView, services: readonly ServiceObject[], proxy: ProxyVersion): number {
  const asked = new Set(services);
  const entries = families.flatMap(family => view.entries(family, proxy).filter(({port}) => asked.has(port.object)));
  // Unlike the name, the hash is a text that was put together before.
  return new Set(entries.map(({port}) => port.hash)).size;
}

/** The findings that need only the API objects. */
function clusterFindings(context: ClusterContext): readonly Finding[] {
  return checks.flatMap(check =>
    check.cluster === undefined ? [] : [...check.cluster(context)].map(observation => toFinding(check, observation)),
  );
}

/** What nodes show beside each other. */
function comparedNodes(results: readonly NodeResult[]): readonly Finding[] {
  const ways = results.flatMap(({podWay}) => podWay ?? []);
  return checks.flatMap(check => [...(check.nodes?.(ways) ?? [])].map(observation => toFinding(check, observation)));
}

/** Where nodes are unread, each of them says so itself. */
function nothingChecked(nodes: readonly NodeReport[]): readonly Problem[] {
  if (nodes.some(({status}) => status !== 'unsupported')) return [];
  const remedy =
    nodes.length === 0
      ? 'Check the cluster itself, or add the files of its nodes to the bundle.'
      : 'Use the tool of the program that serves Services on these nodes, or select nodes of kube-proxy.';
  return [{message: whyNothingChecked(nodes), remedy}];
}

function whyNotEvaluated(error: unknown, node: string): Pick<UnreadNode, 'reason' | 'remedy'> {
  if (error instanceof UnreadableText) return {reason: error.message, remedy: 'Write the file again, as its tool prints it.'};
  const place = error instanceof Error ? (/^ +at (\S+)/m.exec(error.stack ?? '')?.[1] ?? '') : '';
  return {
    reason: `svc-trace failed on what was read of it, which is a bug of svc-trace: ${errorText(error)}${place === '' ? '' : ` (${place})`}`,
    remedy: `Report it with this message and a bundle of the node: ${commandLine`kubectl svc-trace capture -o for-the-issue.tgz --redact --node ${node}` ?? 'kubectl svc-trace capture --redact'}`,
  };
}

/** `dump`: what was read of it, which may be the log of its kube-proxy. */
function unreadNode({name, reason: failure, remedy}: UnreadNode, api: ApiObjects, dump?: NodeDump): NodeResult {
  const trouble = kubeProxyTrouble({api, node: dump ?? {name}});
  const text = trouble.container === null ? null : troubleText(trouble);
  const reason = text === null ? failure : `${failure}; of kube-proxy: ${text}`;
  return {
    report: {name, status: 'unread', reason, families: [], rules: 0, chains: 0, settings: {}},
    findings: [
      problemFinding(
        {node: name, message: `${name} was not checked: ${reason}`, remedy: text === null ? remedy : (trouble.remedy ?? remedy)},
        'not checked',
      ),
    ],
    proxy: null,
    traces: [],
  };
}

interface SummaryInput {
  /** Errors and warnings that are not shown: they count for Services only. */
  readonly leftOut: readonly Finding[];
  readonly services: ServicesInScope;
  readonly servicePorts: number;
  /** Everything requested could be read, except nodes. */
  readonly isComplete: boolean;
}

function summarize(
  findings: readonly Finding[],
  nodes: readonly NodeReport[],
  {leftOut, services, servicePorts, isComplete}: SummaryInput,
): Summary {
  const count = (severity: Finding['severity']): number =>
    findings.filter(finding => finding.severity === severity && !finding.known).length;
  const unread = nodes.filter(({status}) => status === 'unread').length;
  const [errors, warnings, infos] = [count('error'), count('warning'), count('info')];
  const incomplete = unread > 0 || !isComplete;
  return {
    verdict: errors + warnings > 0 && !(incomplete && errors === 0) ? 'findings' : incomplete ? 'incomplete' : 'ok',
    errors,
    warnings,
    infos,
    nodesChecked: nodes.filter(({status}) => status === 'checked').length,
    nodesUnread: unread,
    ...countServices(services, [...findings, ...leftOut], nodes),
    servicePorts,
    ...(leftOut.length === 0 ? {} : {notShown: leftOut.length}),
    ...skippedOf(leftOut),
  };
}

function skippedOf(leftOut: readonly Finding[]): Pick<Summary, 'skipped'> {
  const skipped = leftOut.flatMap(({code, service, skippedBy: by}): readonly [string, SkippedFinding][] =>
    by === undefined || service === undefined ? [] : [[`${code} ${namespacedName(service)} ${by}`, {code, ...service, by}]],
  );
  return skipped.length === 0 ? {} : {skipped: [...new Map(skipped.toSorted(([a], [b]) => (a < b ? -1 : 1))).values()]};
}
