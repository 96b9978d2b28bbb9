import {nameOf, type Finding, pairFindings} from '../model/finding.ts';
import {chainText} from '../analyze/iptables/chain-texts.ts';
import {readDumps} from '../analyze/iptables/node-rulesets.ts';
import {ClusterView} from '../expect/cluster/cluster-view.ts';
import {families} from '../model/address.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import {type Endpoint, podOf} from '../model/endpoint.ts';
import type {
  BundleDiff,
  EndpointChange,
  NodeChange,
  RulesChange,
  ServiceChange,
  FieldChange,
  FindingChange,
} from '../model/findings/bundle-diff.ts';
import {newestProxy, type ProxyVersion} from '../model/proxy-config.ts';
import type {NodeReport, Report} from '../model/report.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {ApiObjects, NodeDump, Snapshot} from '../model/snapshot.ts';
import {namespacedName} from '../model/text.ts';
import {parseNftJson} from '../parse/nftables/nft-json.ts';

/** One of the two sides: the collected data, if available, and the findings. */
export interface DiffSide {
  /** Null for a report, which contains no objects or dumps. */
  readonly snapshot: Snapshot | null;
  readonly report: Pick<Report, 'nodes' | 'findings'>;
}

/** The changes from one bundle, or report, to another. A pure function of both. */
export function diffBundles(before: DiffSide, after: DiffSide): BundleDiff {
  const whole = before.snapshot !== null && after.snapshot !== null ? [before.snapshot, after.snapshot] : [];
  const [old, young] = whole;
  const objects =
    old === undefined || young === undefined
      ? {services: [], endpoints: [], rules: [], notCompared: ['a report contains no Services, endpoints or rules']}
      : diffSnapshots(old, young);
  return {
    ...objects,
    nodes: diffNodes(before.report.nodes, after.report.nodes),
    findings: diffFindings(before.report, after.report),
    notCompared: [...objects.notCompared, ...unreadReasons(before, after)],
    ...uncheckedSides(before, after),
  };
}

function uncheckedSides(before: DiffSide, after: DiffSide): Pick<BundleDiff, 'uncheckedSides'> {
  const isUnchecked = ({report}: DiffSide): boolean => report.nodes.every(({status}) => status !== 'checked');
  const sides = [...(isUnchecked(before) ? ['earlier' as const] : []), ...(isUnchecked(after) ? ['later' as const] : [])];
  return sides.length === 0 ? {} : {uncheckedSides: sides};
}

/** The findings of a removed node are resolved with it. */
function unreadReasons(before: DiffSide, after: DiffSide): readonly string[] {
  return unreadSince(before.report, after.report).map(
    name => `what was found on ${name}: the later side did not read it, so whether it is still there is not known`,
  );
}

type Objects = Pick<BundleDiff, 'services' | 'endpoints' | 'rules' | 'notCompared'>;

function diffSnapshots(before: Snapshot, after: Snapshot): Objects {
  const [old, young] = [before.api, after.api];
  const hasServices = old.services !== null && young.services !== null;
  const hasEndpoints = hasServices && [old, young].every(({endpointSlices, endpoints}) => endpointSlices !== null || endpoints !== null);
  const dumps = new Map(before.nodes.map(node => [node.name, node]));
  return {
    services: hasServices ? diffServices(old.services, young.services) : [],
    // The endpoints do not depend on versions, except some old ones that read them differently.
    endpoints: hasEndpoints ? diffEndpoints(old, young, newestProxy) : [],
    rules: after.nodes.flatMap(node => {
      const same = dumps.get(node.name);
      return same === undefined ? [] : diffRules(same, node);
    }),
    notCompared: [...(hasServices ? [] : ['Services']), ...(hasEndpoints ? [] : ['endpoints'])].map(
      what => `${what} were not read on one of the sides`,
    ),
  };
}

/** Nodes that are new, removed, or have other settings. */
function diffNodes(before: readonly NodeReport[], after: readonly NodeReport[]): readonly NodeChange[] {
  const changed = changesOf(before, after, {keyOf: ({name}) => name, fieldsOf: nodeFields});
  return changed.map(({kind, item, fields}) => ({kind, node: item.name, fields}));
}

/** What is new, removed, or has other fields. */
function changesOf<T>(
  before: readonly T[],
  after: readonly T[],
  {keyOf, fieldsOf}: {keyOf(item: T): string; fieldsOf(item: T): ComparedFields},
): readonly (Pick<NodeChange, 'kind' | 'fields'> & {readonly item: T})[] {
  return pairByKey(before, after, keyOf).flatMap((pair): ReturnType<typeof changesOf<T>> => {
    const item = pair.after ?? pair.before;
    if (item === undefined) return [];
    if (pair.before === undefined || pair.after === undefined)
      return [{kind: pair.before === undefined ? 'came' : 'went', item, fields: []}];
    const fields = diffFields(fieldsOf(pair.before), fieldsOf(pair.after));
    return fields.length === 0 ? [] : [{kind: 'changed', item, fields}];
  });
}

function nodeFields({status, reason, backend, settings}: NodeReport): ComparedFields {
  return {
    status: reason === undefined ? status : `${status}: ${reason}`,
    backend,
    ...Object.fromEntries(Object.entries(settings).map(([name, {value}]) => [name, value])),
  };
}

/** Services that are new, removed, or changed in a field that kube-proxy uses. */
function diffServices(before: readonly ServiceObject[], after: readonly ServiceObject[]): readonly ServiceChange[] {
  const changed = changesOf(before, after, {keyOf: ({metadata}) => namespacedName(metadata), fieldsOf: serviceFields});
  return changed.map(({kind, item, fields}) => ({kind, service: nameOf(item), fields}));
}

function serviceFields({metadata, spec = {}, status}: ServiceObject): ComparedFields {
  const ports = (spec.ports ?? []).map(({name, protocol = 'TCP', port, nodePort, targetPort}) => [
    `port ${name || port}/${protocol}`,
    `${port}${targetPort === undefined ? '' : ` → ${targetPort}`}${nodePort ? `, node port ${nodePort}` : ''}`,
  ]);
  const {sessionAffinity, sessionAffinityConfig} = spec;
  const timeout = sessionAffinityConfig?.clientIP?.timeoutSeconds;
  return {
    type: spec.type,
    'cluster IP': list(spec.clusterIPs ?? [spec.clusterIP ?? '']),
    'external IPs': list(spec.externalIPs),
    'load-balancer IPs': list(
      status?.loadBalancer?.ingress?.map(({ip, hostname, ipMode}) => `${ip ?? hostname}${ipMode === 'Proxy' ? ' (Proxy)' : ''}`),
    ),
    loadBalancerSourceRanges: list(spec.loadBalancerSourceRanges),
    externalTrafficPolicy: spec.externalTrafficPolicy,
    internalTrafficPolicy: spec.internalTrafficPolicy,
    sessionAffinity: sessionAffinity === 'ClientIP' ? `ClientIP${timeout === undefined ? '' : ` for ${timeout} s`}` : sessionAffinity,
    healthCheckNodePort: spec.healthCheckNodePort?.toString(),
    selector: list(Object.entries(spec.selector ?? {}).map(([key, value]) => `${key}=${value}`)),
    'service-proxy-name': metadata.labels?.['service.kubernetes.io/service-proxy-name'],
    ...Object.fromEntries(ports),
  };
}

function list(values: readonly string[] | null | undefined): string | undefined {
  return !values?.length ? undefined : values.toSorted().join(', ');
}

/**
 * The lines that only one side has, for each chain, set or list; ignores their order and counters.
 * @internal
 */
export function diffRules(before: NodeDump, after: NodeDump): readonly RulesChange[] {
  const [old, young] = [heldLines(before), heldLines(after)];
  return [...new Set([...old.keys(), ...young.keys()])]
    .flatMap(name =>
      diffHeld(old.get(name) ?? noLines, young.get(name) ?? noLines).map(change => ({...change, place: name + change.place})),
    )
    .map(({place, came, went}) => ({node: after.name, place, came, went}))
    .sort((a, b) => (a.place < b.place ? -1 : 1));
}

const noLines: HeldLines = {places: () => [], textAt: () => ''};

type PlaceChange = Omit<RulesChange, 'node'>;

/** Most texts are the same on both sides, and nothing is kept of them. */
function diffHeld(old: HeldLines, young: HeldLines): readonly PlaceChange[] {
  const changes = new Map<string, PlaceChange>();
  const compareAt = (place: string) => {
    const [was, is] = [old.textAt(place), young.textAt(place)];
    if (was === is) return;
    const [came, went] = [linesOnlyIn(is, was), linesOnlyIn(was, is)];
    if (came.length + went.length > 0) changes.set(place, {place, came, went});
  };
  for (const place of old.places()) compareAt(place);
  for (const place of young.places()) if (old.textAt(place) === '') compareAt(place);
  return [...changes.values()];
}

/** A line that occurs twice in one text and once in the other is left over once. */
function linesOnlyIn(text: string, other: string): readonly string[] {
  const left = new Map<string, number>();
  for (const line of linesOf(other)) left.set(line, (left.get(line) ?? 0) + 1);
  return linesOf(text).filter(line => {
    const count = left.get(line) ?? 0;
    if (count > 0) left.set(line, count - 1);
    return count === 0;
  });
}

function linesOf(text: string): readonly string[] {
  return text === '' ? [] : text.split('\n');
}

/** The chains of one table, its sets, or a list, by name. The text of each is created on demand. */
interface HeldLines {
  places(): Iterable<string>;
  /** Empty if there is no such name. */
  textAt(place: string): string;
}

/** The content of a node: the chains of iptables and nftables, the elements of sets, virtual servers. */
function heldLines(node: NodeDump): ReadonlyMap<string, HeldLines> {
  return new Map([...iptablesLines(node), ...nftablesLines(node), ...plainLines(node)]);
}

type Held = readonly [name: string, lines: HeldLines];

function* iptablesLines(node: NodeDump): Iterable<Held> {
  for (const [family, {tables}] of readDumps(node).current)
    for (const {name, chains} of tables.values())
      yield [
        `${family === 'IPv6' ? 'ip6tables' : 'iptables'} ${name}/`,
        {places: () => chains.keys(), textAt: chain => chainText(chains, chain) ?? ''},
      ];
}

function* nftablesLines(node: NodeDump): Iterable<Held> {
  const content = node.read('nft.json');
  if (content === null) return;
  for (const {id, chains, sets} of parseNftJson(content).tables.values()) {
    yield [`nftables ${id}/`, {places: () => chains.keys(), textAt: chain => chains.get(chain)?.text() ?? ''}];
    // The clients of an endpoint change all the time.
    const lasting = [...sets.keys()].filter(name => !name.startsWith('affinity-'));
    const elements = (set: string) => [...(sets.get(set)?.elements.values() ?? [])];
    const textAt = (set: string) =>
      elements(set)
        .map(({key, value}) => (value === null ? key : `${key} : ${value}`))
        .join('\n');
    yield [`nftables ${id}/@`, {places: () => lasting, textAt}];
  }
}

function* plainLines(node: NodeDump): Iterable<Held> {
  for (const file of ['ipvsadm-save', 'ipset-save']) {
    const content = node.read(file);
    if (content !== null) yield [file, {places: () => [''], textAt: () => content.toString('utf8').trimEnd()}];
  }
}

/** Endpoints of Services that are new, removed, or changed their state. */
function diffEndpoints(before: ApiObjects, after: ApiObjects, proxy: ProxyVersion): readonly EndpointChange[] {
  const changed = changedServices(before, after, proxy);
  const [old, young] = [before, after].map(api => endpointsOf(partOf(api, changed), proxy));
  return pairByKey(old ?? [], young ?? [], ({key}) => key).flatMap(pair => {
    const {port, endpoint} = pair.after ?? pair.before ?? missing();
    const [was, is] = [stateOf(pair.before), stateOf(pair.after)];
    if (was === is) return [];
    return [
      {
        kind: was === null ? 'came' : is === null ? 'went' : 'changed',
        service: {namespace: port.namespace, name: port.service},
        port: `${port.portName}/${port.protocol}`,
        endpoint: endpoint.hostPort,
        pod: podOf(endpoint),
        nodeName: endpoint.nodeName,
        before: was,
        after: is,
      } as const,
    ];
  });
}

/**
 * The Services, as `namespace/name`, whose object or slices differ between the two sides: the endpoints of all others, which are most, are
 * the same. Null if all have to be compared.
 */
function changedServices(before: ApiObjects, after: ApiObjects, proxy: ProxyVersion): ReadonlySet<string> | null {
  if (before.endpointSlices === null || after.endpointSlices === null) return null;
  const [old, young] = [new ClusterView(before), new ClusterView(after)];
  const was = new Map((before.services ?? []).map(service => [namespacedName(service.metadata), service]));
  const is = new Map((after.services ?? []).map(service => [namespacedName(service.metadata), service]));
  const isSame = (key: string) => sameJson(was.get(key), is.get(key)) && sameJson(old.slicesOf(key, proxy), young.slicesOf(key, proxy));
  return new Set([...was.keys(), ...is.keys()].filter(key => !isSame(key)));
}

function partOf(api: ApiObjects, services: ReadonlySet<string> | null): ApiObjects {
  if (services === null) return api;
  return {...api, services: (api.services ?? []).filter(service => services.has(namespacedName(service.metadata)))};
}

interface Placed {
  readonly key: string;
  readonly port: ServicePort;
  readonly endpoint: Endpoint;
}

function endpointsOf(api: ApiObjects, proxy: ProxyVersion): readonly Placed[] {
  const view = new ClusterView(api);
  return families.flatMap(family =>
    view
      .entries(family, proxy)
      .flatMap(({port, set}) =>
        set.endpoints.map(endpoint => ({key: `${port.servicePortName} ${port.protocol} ${endpoint.hostPort}`, port, endpoint})),
      ),
  );
}

function stateOf(placed: Placed | undefined): string | null {
  if (placed === undefined) return null;
  const {ready, terminating, serving} = placed.endpoint;
  if (ready) return 'ready';
  return terminating ? (serving ? 'terminating, serving' : 'terminating') : 'not ready';
}

function missing(): never {
  throw new Error('a pair has at least one side');
}

type ComparedFields = Readonly<Record<string, string | undefined>>;

/** The fields that differ, in the order in which they are first named. Empty text equals a missing field. */
function diffFields(before: ComparedFields, after: ComparedFields): readonly FieldChange[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .map(field => ({field, before: before[field] || null, after: after[field] || null}))
    .filter(change => change.before !== change.after);
}

/** Pairs two lists by key: each key once, in the order of its text, with the items of both sides. */
function pairByKey<T>(before: readonly T[], after: readonly T[], keyOf: (item: T) => string) {
  const [a, b] = [before, after].map(items => new Map(items.map(item => [keyOf(item), item])));
  const keys = [...new Set([...(a?.keys() ?? []), ...(b?.keys() ?? [])])].sort();
  return keys.map(key => ({before: a?.get(key), after: b?.get(key)}));
}

/**
 * Whether two JSON values are equal, whatever the order of their keys.
 * @internal
 */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [one, other] = [a as Fields, b as Fields];
  // Creates no list of keys: a large cluster has millions of these objects.
  let keys = 0;
  for (const key in one) {
    if (!Object.hasOwn(other, key) || !sameJson(one[key], other[key])) return false;
    keys++;
  }
  for (const _ in other) keys--;
  return keys === 0;
}

type Fields = Readonly<Record<string, unknown>>;

type ReportFindings = Pick<Report, 'nodes' | 'findings'>;

/**
 * New and resolved findings; a finding whose severity changed is both. Message and line numbers may change. A finding on a node that the
 * later side did not read is not resolved.
 */
function diffFindings(before: ReportFindings, after: ReportFindings): readonly FindingChange[] {
  const {came, went} = pairFindings(before.findings, after.findings, (old, young) => old.severity === young.severity);
  const unread = new Set(unreadSince(before, after));
  return [
    ...came.map(finding => ({kind: 'came', finding}) as const),
    ...went.filter(({node}) => node === undefined || !unread.has(node)).map(finding => ({kind: 'went', finding}) as const),
  ];
}

/** Nodes with findings on the earlier side that the later side cannot have checked. */
export function unreadSince(before: ReportFindings, after: ReportFindings): readonly string[] {
  const read = new Set(after.nodes.flatMap(({name, status}) => (status === 'checked' ? [name] : [])));
  const found = new Set(before.findings.flatMap(({node, code}: Finding) => (node === undefined || code.startsWith('ST9') ? [] : [node])));
  return [...found].filter(name => !read.has(name)).sort();
}
