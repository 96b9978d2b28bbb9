import {append} from '../../model/lists.ts';
import {notServed} from '../../expect/cluster/service-ports.ts';
import {canonicalAddress} from '../../model/address.ts';
import type {EndpointSliceObject, NodeObject, ServiceObject, ServicePortSpec, ServiceSpec, SlicePort} from '../../model/api-objects.ts';
import {sliceService} from '../../model/endpoint.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text.ts';
import {clusterIPsOf, allocate, type ExistingServices, hasNodePorts, needsHealthCheck, nodePortsOf} from './allocate.ts';

/** Objects that are not applied yet. */
interface PlannedObjects {
  readonly services: readonly ServiceObject[];
  readonly endpointSlices: readonly EndpointSliceObject[];
  readonly nodes: readonly NodeObject[];
}

interface AppliedObjects {
  readonly api: ApiObjects;
  /** Assumed values that the API server and its controllers would write, as text. */
  readonly notes: readonly string[];
}

/**
 * The API objects after the planned ones are applied: objects of the same name are replaced, and keep what the API server allocated. A text
 * that says why the API server would refuse one of them, if it would.
 */
export function addManifests(api: ApiObjects, planned: PlannedObjects): AppliedObjects | string {
  const notes: string[] = [];
  const known = api.services ?? [];
  const wanted = lastOfEach(planned.services);
  const services = known.filter(one => !wanted.some(other => isSame(one, other)));
  let slices = api.endpointSlices;
  for (const [index, service] of wanted.entries()) {
    const existing = {before: known.find(one => isSame(one, service)), others: [...services, ...wanted.slice(index + 1)]};
    const why = whyRefused(service, existing);
    if (why !== null) return `the API server would refuse Service ${namespacedName(service.metadata)}: ${why}`;
    const allocated = allocate(service, existing);
    services.push(allocated.service);
    append(notes, allocated.notes);
    if (existing.before === undefined || slices === null) continue;
    const rewritten = rewriteSlices(existing.before, allocated.service, slices);
    slices = rewritten.slices;
    append(notes, rewritten.notes);
  }
  return {
    notes,
    api: {
      ...api,
      services,
      endpointSlices: replaced(slices, planned.endpointSlices),
      nodes: planned.nodes.length === 0 ? api.nodes : replaced(api.nodes, planned.nodes),
    },
  };
}

interface Named {
  readonly metadata: {readonly name: string; readonly namespace?: string};
}

function replaced<T extends Named>(before: readonly T[] | null, planned: readonly T[]): readonly T[] {
  return [...(before ?? []).filter(one => !planned.some(other => isSame(one, other))), ...lastOfEach(planned)];
}

/** Of an object that is there twice, the last is applied. */
function lastOfEach<T extends Named>(planned: readonly T[]): readonly T[] {
  return planned.filter((one, index) => !planned.slice(index + 1).some(other => isSame(one, other)));
}

function isSame(a: Named, b: Named): boolean {
  return a.metadata.name === b.metadata.name && (a.metadata.namespace ?? 'default') === (b.metadata.namespace ?? 'default');
}

/** Why asked Services have no rules, or rules that refuse connections. Empty for all others. */
export function serviceNotes(api: ApiObjects, asked: readonly ServiceObject[], version: KubeProxyVersion): readonly string[] {
  const names = new Set(asked.map(({metadata}) => namespacedName(metadata)));
  const services = (api.services ?? []).filter(({metadata}) => names.has(namespacedName(metadata)));
  const owners = new Set(
    (api.endpointSlices ?? []).flatMap(slice => ((slice.endpoints ?? []).length > 0 ? (sliceService(slice) ?? []) : [])),
  );
  return services.flatMap(service => {
    const name = namespacedName(service.metadata);
    const why = notServed(service, version);
    if (why !== null) return [`${name} has no rules of kube-proxy: ${why.reason}`];
    if (api.endpointSlices === null || owners.has(name)) return [];
    return [`${name} has no endpoints: connections to it are refused (add its EndpointSlice with -f, or --endpoint IP[:PORT][@NODE])`];
  });
}

/**
 * Why the API server would refuse a Service beside those that it has; null if it would not. Follows `ValidateServiceUpdate`, and the
 * allocators, which give each address and node port to one Service.
 */
function whyRefused(service: ServiceObject, {before, others}: ExistingServices): string | null {
  if (service.spec?.type === 'ExternalName') return null;
  const old = before?.spec?.type === 'ExternalName' ? undefined : before;
  return (
    (old === undefined ? null : (changedAddress(service, old) ?? changedFamily(service, old) ?? changedHealthCheck(service, old))) ??
    forOtherType(service.spec ?? {}, old?.spec) ??
    takenAddress(service, others) ??
    takenPort(service, others)
  );
}

/** `validateUpgradeDowngradeClusterIPs`: a second address can come and go, the first stays. */
function changedAddress(service: ServiceObject, old: ServiceObject): string | null {
  const [was, is] = [clusterIPsOf(old), clusterIPsOf(service)];
  const at = is.findIndex((text, index) => was[index] !== undefined && canonical(text) !== canonical(was[index]));
  if (at >= 0) return `spec.clusterIPs[${at}] is ${was[at]} and cannot change to ${is[at]}`;
  const all = service.spec?.clusterIPs ?? [];
  if (all.length === 1 && was.length > 1 && service.spec?.ipFamilyPolicy !== 'SingleStack')
    return `spec.ipFamilyPolicy must be SingleStack to give up the cluster IP ${was[1]}`;
  return null;
}

/** `validateUpgradeDowngradeIPFamilies`. */
function changedFamily(service: ServiceObject, old: ServiceObject): string | null {
  if ([service, old].some(one => clusterIPsOf(one).includes('None'))) return null;
  const [was = [], is = []] = [old.spec?.ipFamilies ?? [], service.spec?.ipFamilies ?? []];
  const at = is.findIndex((family, index) => was[index] !== undefined && family !== was[index]);
  return at < 0 ? null : `spec.ipFamilies[${at}] is ${was[at]} and cannot change to ${is[at]}`;
}

/** `validateServiceExternalTrafficFieldsUpdate`. */
function changedHealthCheck({spec = {}}: ServiceObject, {spec: old = {}}: ServiceObject): string | null {
  const [was = 0, is = 0] = [old.healthCheckNodePort ?? 0, spec.healthCheckNodePort ?? 0];
  if (!needsHealthCheck(spec) || !needsHealthCheck(old) || is === 0 || was === 0 || is === was) return null;
  return `spec.healthCheckNodePort is ${was} and cannot change to ${is}`;
}

/** Fields of another type are dropped if the Service had that type and they are as they were: `dropTypeDependentFields`. */
function forOtherType(spec: ServiceSpec, old: ServiceSpec | undefined): string | null {
  const {type = 'ClusterIP', externalTrafficPolicy, healthCheckNodePort = 0, externalIPs = []} = spec;
  const kept = new Set(hasNodePorts(old ?? {}) ? old?.ports?.map(({nodePort}) => nodePort) : []);
  const at = (spec.ports ?? []).findIndex(({nodePort = 0}) => nodePort !== 0 && !kept.has(nodePort));
  if (!hasNodePorts(spec) && at >= 0) return `spec.ports[${at}].nodePort cannot be set if type is ${type}`;
  const isExternal = hasNodePorts(spec) || (externalIPs ?? []).length > 0;
  if (!isExternal && externalTrafficPolicy !== undefined && externalTrafficPolicy !== old?.externalTrafficPolicy)
    return `spec.externalTrafficPolicy cannot be set if type is ${type} and there are no externalIPs`;
  if (!needsHealthCheck(spec) && healthCheckNodePort !== 0 && healthCheckNodePort !== old?.healthCheckNodePort)
    return 'spec.healthCheckNodePort needs type LoadBalancer and externalTrafficPolicy Local';
  return null;
}

function takenAddress(service: ServiceObject, others: readonly ServiceObject[]): string | null {
  for (const text of clusterIPsOf(service)) {
    if (text === 'None') continue;
    const owner = others.find(other => clusterIPsOf(other).some(one => canonical(one) === canonical(text)));
    if (owner !== undefined) return `the cluster IP ${text} belongs to ${namespacedName(owner.metadata)}`;
  }
  return null;
}

/** The allocator does not distinguish protocols. */
function takenPort(service: ServiceObject, others: readonly ServiceObject[]): string | null {
  if (!hasNodePorts(service.spec ?? {})) return null;
  for (const port of nodePortsOf(service)) {
    const owner = others.find(other => nodePortsOf(other).includes(port));
    if (owner !== undefined) return `the node port ${port} belongs to ${namespacedName(owner.metadata)}`;
  }
  return null;
}

function canonical(text: string | undefined): string {
  return canonicalAddress(text ?? '') ?? text ?? '';
}

interface RewrittenSlices {
  readonly slices: readonly EndpointSliceObject[];
  readonly notes: readonly string[];
}

/**
 * The EndpointSlices of a Service whose manifest changes its ports, as the EndpointSlice controller will write them: the same endpoints, with
 * the ports of the manifest. Slices of other Services and other controllers stay as they are, and those of a Service without a selector.
 * A note says what only the controller can know: the pods of another selector, and the number of a target port that had no name before.
 * Follows `getEndpointPorts` of `k8s.io/endpointslice`.
 */
function rewriteSlices(before: ServiceObject, service: ServiceObject, slices: readonly EndpointSliceObject[]): RewrittenSlices {
  const name = namespacedName(service.metadata);
  const [selectorBefore, selector] = [before, service].map(({spec}) =>
    sortedText(Object.entries(spec?.selector ?? {}).map(([key, value]) => `${key}=${value}`)),
  );
  if (selector === '') return {slices, notes: []};
  const changesPorts = targetsText(before) !== targetsText(service);
  const changes = (slice: EndpointSliceObject): boolean => changesPorts && sliceService(slice) === name && isOfController(slice);
  const written = slices.map(slice => (changes(slice) ? withPorts(slice, before, service) : {slice, unknown: []}));
  return {
    slices: written.map(({slice}) => slice),
    notes: [
      ...(selector === selectorBefore ? [] : [`${name} selects other pods then: today's endpoints stand in for them`]),
      ...[...new Set(written.flatMap(({unknown}) => unknown))].map(
        port => `the number of target port ${port} of ${name} is not known: it has no endpoints here (add its EndpointSlice with -f)`,
      ),
    ],
  };
}

interface RewrittenSlice {
  readonly slice: EndpointSliceObject;
  /** Names of target ports without a known number. */
  readonly unknown: readonly string[];
}

function withPorts(slice: EndpointSliceObject, before: ServiceObject, service: ServiceObject): RewrittenSlice {
  const ports: SlicePort[] = [];
  const unknown: string[] = [];
  for (const port of service.spec?.ports ?? []) {
    const number = targetNumber(port, before.spec?.ports ?? [], slice.ports ?? []);
    if (number === null) unknown.push(String(port.targetPort));
    else ports.push({name: port.name ?? '', protocol: port.protocol ?? 'TCP', port: number});
  }
  return {slice: portsText(ports) === portsText(slice.ports ?? []) ? slice : {...slice, ports}, unknown};
}

/** Pods name their ports: a name stands for the number that a port with the same target has today. */
function targetNumber(
  {targetPort, port = 0}: ServicePortSpec,
  portsBefore: readonly ServicePortSpec[],
  slicePorts: readonly SlicePort[],
): number | null {
  if (typeof targetPort !== 'string') return targetPort ?? port;
  const same = portsBefore.find(other => other.targetPort === targetPort);
  if (same === undefined) return null;
  return slicePorts.find(({name}) => (name ?? '') === (same.name ?? ''))?.port ?? null;
}

/** Slices without the label come from bundles and older controllers. */
function isOfController({metadata: {labels}}: EndpointSliceObject): boolean {
  const manager = labels?.['endpointslice.kubernetes.io/managed-by'];
  return manager === undefined || manager === 'endpointslice-controller.k8s.io';
}

function targetsText({spec}: ServiceObject): string {
  return sortedText(
    (spec?.ports ?? []).map(({name = '', protocol = 'TCP', port, targetPort = port}) => `${name} ${protocol} ${targetPort}`),
  );
}

function portsText(ports: readonly SlicePort[]): string {
  return sortedText(ports.map(({name, protocol, port}) => `${name ?? ''} ${protocol ?? 'TCP'} ${port}`));
}

function sortedText(texts: readonly string[]): string {
  return texts.toSorted().join();
}
