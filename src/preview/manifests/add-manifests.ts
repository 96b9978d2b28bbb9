import {append} from '../../model/lists.ts';
import {notServed} from '../../expect/cluster/cluster-view.ts';
import {canonicalAddress, type Family, familyOf} from '../../model/address.ts';
import type {EndpointSliceObject, NodeObject, ServiceObject, ServicePortSpec, ServiceSpec, SlicePort} from '../../model/api-objects.ts';
import {sliceService} from '../../model/endpoint.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName} from '../../model/text.ts';

/** Objects that are not applied yet. */
interface PlannedObjects {
  readonly services: readonly ServiceObject[];
  readonly endpointSlices: readonly EndpointSliceObject[];
  readonly nodes: readonly NodeObject[];
}

/**
 * The API objects after the planned ones are applied: objects of the same name are replaced, and keep what the API server allocated. A text
 * that says why the API server would refuse one of them, if it would. `notes`: assumed values that the API server and its controllers would
 * write, as text.
 */
export function addManifests(api: ApiObjects, planned: PlannedObjects) {
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

/**
 * The EndpointSlices of a Service whose manifest changes its ports, as the EndpointSlice controller will write them: the same endpoints, with
 * the ports of the manifest. Slices of other Services and other controllers stay as they are, and those of a Service without a selector.
 * A note says what only the controller can know: the pods of another selector, and the number of a target port that had no name before.
 * Follows `getEndpointPorts` of `k8s.io/endpointslice`.
 */
function rewriteSlices(before: ServiceObject, service: ServiceObject, slices: readonly EndpointSliceObject[]) {
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

/** `unknown`: names of target ports without a known number. */
function withPorts(slice: EndpointSliceObject, before: ServiceObject, service: ServiceObject) {
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

interface ExistingServices {
  /** The current Service in the cluster. */
  readonly before: ServiceObject | undefined;
  /** All other Services: those of the cluster, and those of the manifests. */
  readonly others: readonly ServiceObject[];
}

/**
 * Gives a Service what the API server would allocate and fill in: cluster IPs and their families, node ports, the health check port, and its
 * status. Existing values are kept; where there are none, stand-ins are used. Follows `patchAllocatedValues`, `dropTypeDependentFields` and
 * the allocators of `pkg/registry/core/service`.
 */
function allocate(service: ServiceObject, {before, others}: ExistingServices) {
  const {spec = {}} = service;
  if (spec.type === 'ExternalName') return {service, notes: []};
  const name = namespacedName(service.metadata);
  const was = before?.spec?.type === 'ExternalName' ? undefined : before?.spec;
  const addresses = clusterIPs(spec, was, others);
  const used = new Set(others.flatMap(nodePortsOf));
  const ports = nodePorts(spec, was, used);
  const check = healthCheck(spec, was, used);
  const status = statusOf(service, before);
  return {
    service: {
      ...service,
      spec: {
        ...spec,
        clusterIP: addresses.value[0] ?? 'None',
        clusterIPs: addresses.value,
        ...(addresses.value.includes('None') ? {} : {ipFamilies: addresses.value.flatMap(text => familyOf(text) ?? [])}),
        ports: ports.value,
        ...(check.value.length === 0 ? {} : {healthCheckNodePort: check.value[0]}),
      },
      status,
    },
    notes: [
      ...standIns(addresses, [`has no cluster IP${plural(addresses)} yet`, 'has no second cluster IP yet'], name),
      ...standIns(ports, [`has no node port${plural(ports)} yet`], name),
      ...standIns(check, ['has no health check node port yet'], name),
    ],
  };
}

/** The addresses of a load balancer are no part of what is applied; a manifest that names some asks for them. */
function statusOf(service: ServiceObject, before: ServiceObject | undefined): ServiceObject['status'] {
  if ((service.status?.loadBalancer?.ingress ?? []).length > 0) return service.status;
  return service.spec?.type === 'LoadBalancer' ? (before?.status ?? service.status) : service.status;
}

interface Choice<T> {
  readonly value: readonly T[];
  /** Those of the value, as text, that are assumed. */
  readonly standIns: readonly string[];
}

function standIns({value, standIns: texts}: Choice<unknown>, [all = '', some = all]: readonly string[], name: string): readonly string[] {
  if (texts.length === 0) return [];
  const what = texts.length < value.length ? some : all;
  return [
    `${name} ${what}; ${texts.join(' and ')} ${texts.length === 1 ? 'stands' : 'stand'} in for ${texts.length === 1 ? 'it' : 'them'}`,
  ];
}

function plural({standIns: texts}: Choice<unknown>): string {
  return texts.length === 1 ? '' : 's';
}

function clusterIPs(spec: ServiceSpec, before: ServiceSpec | undefined, others: readonly ServiceObject[]): Choice<string> {
  const addresses = givenAddresses(spec, before);
  if (addresses.includes('None')) return {value: addresses, standIns: []};
  const families = familiesOf(spec, {addresses, others});
  const used = new Set(others.flatMap(clusterIPsOf));
  const assumed = families.slice(addresses.length).map(family => firstFree(family === 'IPv6' ? '2001:db8:198::' : '198.18.0.', used));
  return {value: [...addresses.slice(0, families.length), ...assumed], standIns: assumed};
}

/** `clusterIP` alone, as older clients write it, says nothing about the second address. */
function givenAddresses({clusterIP = '', clusterIPs: given}: ServiceSpec, before: ServiceSpec | undefined): readonly string[] {
  if (given !== undefined && given !== null && given.length > 0) return given;
  const current = before === undefined ? [] : addressesIn(before);
  return clusterIP === '' || clusterIP === current[0] ? current : [clusterIP];
}

/** Follows `defaultOnRead` and `initIPFamilyFields`. Without other Services nothing tells whether the cluster has both families. */
function familiesOf(
  {ipFamilies, ipFamilyPolicy}: ServiceSpec,
  {addresses, others}: {readonly addresses: readonly string[]; readonly others: readonly ServiceObject[]},
): readonly Family[] {
  const own = addresses.flatMap(text => familyOf(text) ?? []);
  const asked = (ipFamilies ?? []).filter(text => text === 'IPv4' || text === 'IPv6');
  const ofCluster = others.map(clusterIPsOf).find(([first = '']) => familyOf(first) !== null) ?? [];
  const [first = asked[0] ?? familyOf(ofCluster[0] ?? '') ?? 'IPv4'] = own;
  const hasBoth = others.length === 0 || others.some(other => clusterIPsOf(other).length > 1);
  const wantsBoth = asked.length > 1 || ipFamilyPolicy === 'RequireDualStack' || (ipFamilyPolicy === 'PreferDualStack' && hasBoth);
  const isSecondKept = own.length > 1 && ipFamilyPolicy !== 'SingleStack';
  return wantsBoth || isSecondKept ? [first, first === 'IPv4' ? 'IPv6' : 'IPv4'] : [first];
}

/** Addresses reserved for documentation and benchmarks belong to no Service. */
function firstFree(prefix: string, used: ReadonlySet<string>): string {
  for (let at = 1; ; at++) {
    const address = prefix.endsWith(':') ? `${prefix}${at.toString(16)}` : `198.18.${Math.floor((at - 1) / 250)}.${((at - 1) % 250) + 1}`;
    if (!used.has(address)) return address;
  }
}

/** A port that keeps its number, or its name, keeps its node port. */
function nodePorts(spec: ServiceSpec, before: ServiceSpec | undefined, used: Set<number>): Choice<ServicePortSpec> {
  const ports = (spec.ports ?? []).map(port => ({...port, protocol: port.protocol ?? 'TCP'}));
  if (!hasNodePorts(spec)) return {value: ports.map(({nodePort: _, ...port}) => port), standIns: []};
  const given = new Set(ports.map(({nodePort}) => nodePort ?? 0));
  const isFree = (nodePort: number | undefined): nodePort is number => (nodePort ?? 0) !== 0 && !given.has(nodePort ?? 0);
  const assumed: string[] = [];
  const value = ports.map(port => {
    if ((port.nodePort ?? 0) !== 0) return port;
    const old = hasNodePorts(before ?? {}) ? (before?.ports ?? []) : [];
    const same = old.find(one => one.port === port.port && (one.protocol ?? 'TCP') === port.protocol);
    const known = [same, old.find(({name}) => (name ?? '') === (port.name ?? ''))].map(one => one?.nodePort).find(isFree);
    if (known !== undefined) {
      given.add(known);
      return {...port, nodePort: known};
    }
    if (spec.type === 'LoadBalancer' && spec.allocateLoadBalancerNodePorts === false) return port;
    const nodePort = freePort(new Set([...used, ...given]));
    used.add(nodePort);
    assumed.push(String(nodePort));
    return {...port, nodePort};
  });
  return {value, standIns: assumed};
}

function healthCheck(spec: ServiceSpec, before: ServiceSpec | undefined, used: ReadonlySet<number>): Choice<number> {
  if (!needsHealthCheck(spec)) return {value: [], standIns: []};
  const known = [spec.healthCheckNodePort, needsHealthCheck(before ?? {}) ? before?.healthCheckNodePort : 0].find(
    port => (port ?? 0) !== 0,
  );
  if (known !== undefined) return {value: [known], standIns: []};
  const port = freePort(new Set([...used, ...(spec.ports ?? []).map(({nodePort = 0}) => nodePort)]));
  return {value: [port], standIns: [String(port)]};
}

function freePort(used: ReadonlySet<number>): number {
  let port = 30_000;
  while (used.has(port)) port++;
  return port;
}

/** `needsHCNodePort`. */
function needsHealthCheck({type, externalTrafficPolicy}: ServiceSpec): boolean {
  return type === 'LoadBalancer' && externalTrafficPolicy === 'Local';
}

/** `needsNodePort`. */
function hasNodePorts({type}: ServiceSpec): boolean {
  return type === 'NodePort' || type === 'LoadBalancer';
}

/** The cluster IPs of a Service, or `None`. */
function clusterIPsOf({spec}: ServiceObject): readonly string[] {
  return spec === undefined ? [] : addressesIn(spec);
}

function addressesIn({clusterIP = '', clusterIPs: all}: ServiceSpec): readonly string[] {
  return all !== undefined && all !== null && all.length > 0 ? all : clusterIP === '' ? [] : [clusterIP];
}

/** Node ports, and the health check port, which comes from the same range. */
function nodePortsOf({spec}: ServiceObject): readonly number[] {
  return [...(spec?.ports ?? []).map(({nodePort = 0}) => nodePort), spec?.healthCheckNodePort ?? 0].filter(port => port !== 0);
}
