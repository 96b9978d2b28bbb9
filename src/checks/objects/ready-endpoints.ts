import {serviceProxy} from '../../expect/cilium/cilium-node.ts';
import {ingressPlaceholder} from '../../expect/cilium/promised-frontends.ts';
import {type PortEntry, serviceKey} from '../../expect/cluster/cluster-view.ts';
import {readsEndpoints} from '../../expect/cluster/proxy-versions.ts';
import {nodeObject} from '../../expect/api-index.ts';
import {families, familyOf} from '../../model/address.ts';
import {
  type EndpointAddress,
  type EndpointsObject,
  type EndpointSliceObject,
  type NodeObject,
  isReadyPod,
  type PodObject,
  type ServiceObject,
  type SlicePort,
  selectorText,
} from '../../model/api-objects.ts';
import {once} from '../../model/once.ts';
import {type Endpoint, podOf} from '../../model/endpoint.ts';
import {type Observation, nameOf, ofPort} from '../../model/finding.ts';
import {addressesOfPod} from '../../expect/node-context.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName, someOf} from '../../model/text.ts';
import type {ClusterContext} from '../check-types.ts';
import {check} from '../catalog.ts';
import {editService, showPods, showSlices} from '../commands/commands.ts';
import {askedEntries, isUsable, unusualEntries} from './node-ports-and-target-ports.ts';

const followPods =
  'If that stays so, kube-controller-manager does not follow its pods: check that it runs, and its log, or restart it. Another program may write the slices, too.';
const startPods = 'Start ready pods that match the selector, or delete the Service.';

export const noReadyEndpoint = check('ST101', {
  // Silent for a port whose name is in no slice although the Service has endpoints: that is ST102.
  *cluster(context) {
    // Slices that were not read may exist.
    if (context.api.endpointSlices === null && context.api.endpoints === null) return;
    const concerned = new Set(unusualEntries(context).flatMap(entry => (isUsed(entry, context) ? [] : entry.port.object)));
    if (concerned.size === 0) return;
    const named = askedEntries(context).filter(
      entry => concerned.has(entry.port.object) && isNamedInSlices(entry, context) && !isMatchedByCilium(entry, context),
    );
    for (const family of families)
      for (const ofService of Map.groupBy(
        named.filter(({port}) => port.family === family),
        ({port}) => port.object,
      ).values())
        yield* observe(ofService, context);
  },
});

function* observe(entries: readonly PortEntry[], context: ClusterContext): Iterable<Observation> {
  const empty = entries.filter(entry => !isUsed(entry, context));
  const [first] = empty;
  if (first === undefined) return;
  const {port} = first;
  const whole = empty.length === entries.length;
  const subject = whole ? `${port.namespace}/${port.service}` : port.servicePortName;
  const proxy = serviceProxy(context.api);
  const late = readyPods(first, context.api);
  const remedy = late.length > 0 ? followPods : hasSelector(port.object) ? startPods : withoutSelector;
  const message = `${subject} has no endpoint that ${proxy} would use${port.family === 'IPv6' ? ' for IPv6' : ''}: ${whyEmpty(first, context)}${unusedEndpoints(first, context)}`;
  yield {
    ...(whole ? {service: nameOf(port.object), family: port.family} : ofPort(port)),
    message: `${message}. Connections are refused`,
    remedy: `${remedy} ${refusal(proxy)}`,
    ifNotRefused: {message, remedy},
    ...candidates(port.object),
  };
}

/** Shows what can become an endpoint: the pods that the selector matches, or the slices of a Service without a selector. */
function candidates(object: ServiceObject): Pick<Observation, 'command'> {
  const name = nameOf(object);
  return hasSelector(object) ? showPods(name.namespace, object.spec?.selector ?? {}) : showSlices(name, 'labels');
}

function hasSelector({spec}: ServiceObject): boolean {
  return Object.keys(spec?.selector ?? {}).length > 0;
}

const withoutSelector =
  'Check the program that writes its EndpointSlices, or write one (label kubernetes.io/service-name), or delete the Service.';

/** Said after what to do. */
function refusal(proxy: string): string {
  return `${proxy} refuses new connections by design.`;
}

function isUsed({set}: PortEntry, {proxy}: ClusterContext): boolean {
  return set.endpoints.some(endpoint => isUsable(endpoint, proxy));
}

/** What gives kube-proxy the endpoints. */
function holderOf({api, proxy}: Pick<ClusterContext, 'api' | 'proxy'>): string {
  return readsEndpoints(proxy.version, proxy.gates) || api.endpointSlices === null ? 'Endpoints object' : 'EndpointSlice';
}

function whyEmpty({port: {object, family}, set}: PortEntry, {api, proxy}: ClusterContext): string {
  const holder = holderOf({api, proxy});
  if (set.endpoints.length > 0) {
    const leaving = set.endpoints.every(({terminating}) => terminating);
    const names = someOf(set.endpoints.map(endpoint => podOf(endpoint) ?? endpoint.hostPort));
    const down = [...new Set(set.endpoints.map(({nodeName}) => nodeName ?? ''))].filter(name => isNotReady(nodeObject(api, name)));
    const where =
      down.length === 0
        ? ''
        : `: the ${down.length === 1 ? 'node' : 'nodes'} ${someOf(down)} ${down.length === 1 ? 'is' : 'are'} not ready`;
    const late = readyPods({set}, api);
    const despite = late.length === 0 ? where : `, although ${someOf(late)} ${late.length === 1 ? 'is' : 'are'} by the status of the pods`;
    return leaving ? `all its endpoints are terminating (${names})` : `none of its endpoints is ready (${names})${despite}`;
  }
  if (!hasSelector(object)) return `it has no selector, and no ${holder} gives it endpoints${looseSlice(object, api)}`;
  const pods = matchingPods(object, api);
  if (pods === null) return `no ${holder} holds an endpoint for it (selector ${selectorText(object)})`;
  if (pods.length === 0) return `its selector ${selectorText(object)} matches no pod`;
  const names = someOf(pods.map(({metadata}) => metadata.name));
  const addresses = pods.filter(({status}) => !/^(?:Succeeded|Failed)$/.test(status?.phase ?? '')).flatMap(addressesOfPod);
  const states = pods.map(({status}) => status?.containerStatuses?.[0]?.state?.waiting?.reason ?? status?.reason ?? status?.phase ?? '?');
  if (addresses.length === 0)
    return `its selector matches ${names} (${someOf([...new Set(states)])}): a pod without an address is no endpoint`;
  return !addresses.some(address => familyOf(address) === family)
    ? `its selector matches ${names}, none of which has an address of ${family}`
    : `its selector matches ${names}, and no ${holder} holds an endpoint of it`;
}

function isNotReady(node: NodeObject | undefined): boolean {
  return node?.status?.conditions?.some(({type, status}) => type === 'Ready' && status !== 'True') === true;
}

/** Pods that are ready, and endpoints that are neither ready nor about to end. */
function readyPods({set}: Pick<PortEntry, 'set'>, {pods}: ApiObjects): readonly string[] {
  const ready = readyByName(pods ?? []);
  return set.endpoints.flatMap(endpoint => {
    const name = podOf(endpoint) ?? '';
    return !endpoint.ready && !endpoint.terminating && ready.has(name) ? [name] : [];
  });
}

const readyByName = once(
  (pods: readonly PodObject[]) =>
    new Set(pods.flatMap(pod => (isReadyPod(pod) && pod.metadata.deletionTimestamp == null ? [namespacedName(pod.metadata)] : []))),
);

/** A slice that somebody wrote, and that is no Service's; empty if there is none in the namespace. Controllers delete theirs. */
function looseSlice({metadata: {namespace = 'default'}}: ServiceObject, {endpointSlices, services, namespaces}: ApiObjects): string {
  const own = (services ?? []).filter(({metadata}) => metadata.namespace === namespace);
  const names = namespaces?.includes(namespace) === false ? null : new Set(own.map(({metadata}) => metadata.name));
  const [loose] = (endpointSlices ?? []).flatMap(({metadata: {namespace: where, name, labels}}) => {
    if (where !== namespace || labels?.['endpointslice.kubernetes.io/managed-by']?.endsWith('.k8s.io') === true) return [];
    const owner = labels?.['kubernetes.io/service-name'];
    if (owner === undefined) return `EndpointSlice ${name} has no label kubernetes.io/service-name`;
    return names?.has(owner) === false ? `EndpointSlice ${name} is of a Service ${owner}, which does not exist` : [];
  });
  return loose === undefined ? '' : ` (${loose})`;
}

/** Endpoints of a Service with a selector are not copied to EndpointSlices, so that what somebody writes there is not used. */
function unusedEndpoints({port: {object, family}, set}: PortEntry, {api, proxy}: ClusterContext): string {
  if (set.endpoints.length > 0 || api.endpointSlices === null) return '';
  const written = unreadAddresses(object, {api, proxy}).flatMap(({ip}) => (ip !== undefined && familyOf(ip) === family ? [ip] : []));
  if (written.length === 0) return '';
  return `. Its Endpoints object has ${someOf(written)}, which kube-proxy does not use: Endpoints of a Service with a selector are not copied to EndpointSlices`;
}

/** The addresses of the Endpoints object of a Service with a selector, where kube-proxy reads slices. */
function unreadAddresses(object: ServiceObject, {api, proxy}: Pick<ClusterContext, 'api' | 'proxy'>): readonly EndpointAddress[] {
  if (api.endpoints === null || !hasSelector(object) || readsEndpoints(proxy.version, proxy.gates)) return [];
  const own = endpointsByName(api.endpoints).get(namespacedName(object.metadata));
  return (own?.subsets ?? []).flatMap(({addresses}) => addresses ?? []);
}

const endpointsByName = once(
  (all: readonly EndpointsObject[]) => new Map(all.map(object => [namespacedName(object.metadata), object] as const)),
);

/** Null if the pods were not read. */
function matchingPods({metadata, spec}: ServiceObject, {pods, podsOf}: ApiObjects): readonly PodObject[] | null {
  const wanted = Object.entries(spec?.selector ?? {});
  if (pods === null || podsOf?.has(namespacedName(metadata)) === false) return null;
  return pods.filter(
    pod => pod.metadata.namespace === metadata.namespace && wanted.every(([key, value]) => pod.metadata.labels?.[key] === value),
  );
}

export const portWithoutEndpoint = check('ST102', {
  *cluster(context) {
    for (const entry of unusualEntries(context)) {
      if (isNamedInSlices(entry, context)) continue;
      const {port} = entry;
      const texts = slicePorts(port, context).map(
        ({name, protocol, port: number}) => `${name || '(unnamed)'} ${number ?? '(no number)'}/${protocol ?? 'TCP'}`,
      );
      const offered = [...new Set(texts)];
      const wanted = `${port.portName || '(unnamed)'}/${port.protocol}`;
      const message = `${port.servicePortName}: no EndpointSlice has a port ${wanted}; ${offered.length === 0 ? whyWithoutPorts(port) : `they have ${offered.join(', ')}`}. Connections to it are refused`;
      yield {...ofPort(port), ...editService(nameOf(port.object)), message};
    }
  },
});

/** True as well if the Service has no endpoints at all: then the name is not the cause. */
function isNamedInSlices({port, set}: PortEntry, context: ClusterContext): boolean {
  if (set.endpoints.length > 0 || slicesWithEndpoints(port, context).length === 0) return true;
  const ports = slicePorts(port, context);
  // For Cilium, a side without a name matches every name.
  const isAny = (name: string): boolean => name === '' && serviceProxy(context.api) === 'Cilium';
  return ports.some(
    ({name, protocol, port: number}) =>
      ((name ?? undefined) === port.portName || isAny(port.portName) || isAny(name ?? '')) &&
      (protocol ?? 'TCP') === port.protocol &&
      number !== null &&
      number !== undefined,
  );
}

/** Its port is in a slice by the rules of Cilium alone, or the slice of the other family says that a proxy of Cilium answers. */
function isMatchedByCilium({set, port}: PortEntry, context: ClusterContext): boolean {
  if (set.endpoints.length > 0 || serviceProxy(context.api) !== 'Cilium') return false;
  const endpoints = context.view.slicesOf(serviceKey(port), context.proxy).flatMap(slice => slice.endpoints ?? []);
  const isProxied = endpoints.some(({addresses}) => addresses?.some(address => ingressPlaceholder.startsWith(`${address}:`)));
  return isProxied || slicePorts(port, context).length > 0;
}

/** The ports of a Service's slices with endpoints. */
function slicePorts(port: ServicePort, context: ClusterContext): readonly SlicePort[] {
  return slicesWithEndpoints(port, context).flatMap(({ports}) => ports ?? []);
}

function slicesWithEndpoints(port: ServicePort, {view, proxy}: ClusterContext): readonly EndpointSliceObject[] {
  return view
    .slicesOf(serviceKey(port), proxy)
    .filter(({addressType, endpoints}) => (addressType ?? port.family) === port.family && (endpoints ?? []).length > 0);
}

/** Where no container of the pods has the port that targetPort names, their addresses are in slices without any port. */
function whyWithoutPorts({object, portName, protocol}: ServicePort): string {
  const own = object.spec?.ports?.find(port => (port.name ?? '') === portName && (port.protocol ?? 'TCP') === protocol);
  const named = typeof own?.targetPort === 'string' ? `: no container of the pods has a port named ${own.targetPort} (targetPort)` : '';
  return `they have endpoints and no port${named}`;
}

export const duplicateEndpoint = check('ST103', {
  *cluster(context) {
    const holder = holderOf(context);
    for (const {port, set} of unusualEntries(context)) {
      for (const [key, all] of set.ambiguous) {
        const message = `${port.servicePortName}: endpoint ${key} is given ${all.length} times with different content, and kube-proxy uses one of them: ${all.map(one => `${holder} ${describe(one)}`).join('; ')}`;
        yield {...ofPort(port), endpoint: all[0]?.hostPort ?? key, message, ...showSlices(nameOf(port.object), 'labels')};
      }
    }
    for (const object of context.services) {
      const copies = hasSelector(object) ? context.view.slicesOf(namespacedName(object.metadata), context.proxy).filter(isMirrored) : [];
      if (copies.length > 0) {
        const message = `${namespacedName(object.metadata)} has a selector, and ${someOf(copies.map(({metadata}) => metadata.name ?? ''))} holds what its Endpoints had while it had none: no controller updates that any more (kubernetes#91072), and its addresses get connections`;
        const gist = 'former Endpoints, which nobody updates, get connections';
        yield {service: nameOf(object), message, gist, remedy: 'Delete that EndpointSlice.', ...showSlices(nameOf(object), 'labels')};
      }
      const added = addedByHand(object, context);
      if (added.length > 0) {
        const message = `${namespacedName(object.metadata)}: its Endpoints object has ${someOf(added)} without a pod, and no EndpointSlice has ${added.length === 1 ? 'it' : 'them'}: kube-proxy reads slices, and sends nothing there`;
        const gist = 'addresses added to Endpoints by hand get no traffic';
        const remedy =
          'For endpoints that are no pods, take the selector off the Service, or give them a Service of their own without one: the controller copies Endpoints to slices there alone.';
        yield {service: nameOf(object), message, gist, remedy, ...showSlices(nameOf(object), 'labels')};
      }
    }
  },
});

/** Of a Service without a selector. */
function isMirrored({metadata: {labels}}: EndpointSliceObject): boolean {
  return labels?.['endpointslice.kubernetes.io/managed-by'] === 'endpointslicemirroring-controller.k8s.io';
}

/** The controller writes Endpoints and slices of a Service with a selector, and each address with its pod. Without any slice, ST101 says it. */
function addedByHand(object: ServiceObject, context: ClusterContext): readonly string[] {
  const byHand = unreadAddresses(object, context).flatMap(({ip, targetRef}) => (ip === undefined || targetRef !== undefined ? [] : [ip]));
  if (byHand.length === 0) return [];
  const slices = context.view.slicesOf(namespacedName(object.metadata), context.proxy).flatMap(({endpoints}) => endpoints ?? []);
  const inSlices = new Set(slices.flatMap(({addresses}) => addresses ?? []));
  return inSlices.size === 0 ? [] : byHand.filter(ip => !inSlices.has(ip));
}

function describe({slice, ready, terminating, nodeName, hostPort}: Endpoint): string {
  return `${slice}: ${hostPort} ${ready ? 'ready' : 'not ready'}${terminating ? ', terminating' : ''} on ${nodeName ?? 'no node'}`;
}
