import {once} from '../../model/once.ts';
import {nodeNamesByAddress} from '../../expect/api-index.ts';
import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {families} from '../../model/address.ts';
import type {PodObject} from '../../model/api-objects.ts';
import {type Endpoint, podOf} from '../../model/endpoint.ts';
import type {ProxyVersion} from '../../model/proxy-config.ts';
import {usesTerminatingEndpoints} from '../../expect/cluster/proxy-versions.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {namespacedName, someOf} from '../../model/text.ts';
import {type Observation, nameOf, ofPort} from '../../model/finding.ts';
import type {ClusterContext} from '../check-types.ts';
import {check} from '../catalog.ts';
import {editService, showPods} from '../commands/commands.ts';
import {addressesOfPod, portsOfPod} from '../../expect/node-context.ts';

export const nodePortCollision = check('ST110', {
  *cluster(context) {
    yield* takenFromHosts(context);
    const claimed = claims(context);
    if (claimed.size === 0) return;
    const asked = new Set(context.services);
    for (const [claim, ports] of claimed) {
      const [first] = ports;
      if (first === undefined || ports.size < 2 || ![...ports].some(({object}) => asked.has(object))) continue;
      const message = `${someOf([...ports].map(({servicePortName}) => servicePortName))} all claim ${claim}: one of them gets all connections`;
      yield {...ofPort(first), message, ...editService(nameOf(first.object))};
    }
  },
});

/** Node ports at which pods in the network of their nodes listen, or the API server: the Service gets what others send there. */
function* takenFromHosts({view, proxy, services, api}: ClusterContext): Generator<Observation> {
  const asked = new Set(services);
  for (const entries of families.map(family => view.entries(family, proxy))) {
    const owners = nodePortOwners(entries);
    if (owners.size === 0) continue;
    const nodePorts = new Set([...owners.values()].map(({port}) => port.nodePort));
    const told = new Set<ServicePort>();
    for (const {pod, key} of hostPorts(api.pods ?? [])) {
      const owner = owners.get(key);
      if (owner === undefined || told.has(owner.port) || !asked.has(owner.port.object)) continue;
      if (owner.set.endpoints.some(({address}) => addressesOfPod(pod).includes(address))) continue;
      told.add(owner.port);
      const message = `${owner.port.servicePortName}: its ${nodePortText(owner.port)} is a host port of pod ${namespacedName(pod.metadata)} on ${pod.spec?.nodeName} too: there one of the two gets all connections`;
      yield {...ofPort(owner.port), variant: 'port-of-node-program', message, ...editService(nameOf(owner.port.object))};
    }
    for (const {port, set} of entries) {
      for (const {address, port: number, hostPort, nodeName} of set.endpoints) {
        // That the node port itself is meant is ST117.
        if (nodeName === null && !isApiServer(port)) continue;
        const owner = nodePorts.has(number) ? owners.get(`${number}/${port.protocol}`) : undefined;
        if (owner === undefined || told.has(owner.port) || !asked.has(owner.port.object) || !nodeNamesByAddress(api).has(address)) continue;
        if (owner.set.endpoints.some(own => own.hostPort === hostPort)) continue;
        told.add(owner.port);
        yield {
          ...ofPort(owner.port),
          ...(isApiServer(port) ? {severity: 'error' as const} : {}),
          variant: 'port-of-node-program',
          message: `${owner.port.servicePortName}: its ${nodePortText(owner.port)} is the port at which ${hostPort}, an endpoint of ${port.servicePortName} in the network of its node, listens: the Service takes connections to it that come from outside, other nodes and pods`,
          ...editService(nameOf(owner.port.object)),
        };
      }
    }
  }
}

/** By number and protocol (`30080/TCP`), of the Service ports of one family. */
export const nodePortOwners = once(
  (entries: readonly PortEntry[]): ReadonlyMap<string, PortEntry> =>
    new Map(entries.flatMap(entry => (entry.port.nodePort === 0 ? [] : [[`${entry.port.nodePort}/${entry.port.protocol}`, entry]]))),
);

export function isApiServer({namespace, service}: ServicePort): boolean {
  return namespace === 'default' && service === 'kubernetes';
}

/** `30080/TCP` of pods that run in networks of their own, at all addresses of their nodes. */
const hostPorts = once((pods: readonly PodObject[]) =>
  pods
    .filter(({spec, status}) => status?.phase === 'Running' && spec?.hostNetwork !== true)
    .flatMap(pod =>
      portsOfPod(pod).flatMap(({hostPort = 0, protocol = 'TCP', hostIP = ''}) =>
        hostPort === 0 || !/^(?:0\.0\.0\.0|::)?$/.test(hostIP) ? [] : [{pod, key: `${hostPort}/${protocol}`}],
      ),
    ),
);

/** Claims by more than one Service port. Few addresses have several ports, so claims are only compared in detail for those. */
function claims({view, proxy}: ClusterContext): ReadonlyMap<string, ReadonlySet<ServicePort>> {
  const byClaim = new Map<string, Set<ServicePort>>();
  for (const [place, ports] of sharedPlaces(families.map(family => view.entries(family, proxy)))) {
    for (const port of ports) {
      const claim = typeof place === 'string' ? `${place} port ${port.port}/${port.protocol}` : nodePortText(port);
      byClaim.set(claim, (byClaim.get(claim) ?? new Set()).add(port));
    }
  }
  return byClaim;
}

/** By address, and by node port number: the Service ports that claim it, if there is more than one. */
function sharedPlaces(ofFamilies: readonly (readonly PortEntry[])[]): ReadonlyMap<string | number, readonly ServicePort[]> {
  const firsts = new Map<string | number, ServicePort>();
  const shared = new Map<string | number, ServicePort[]>();
  const claim = (place: string | number, port: ServicePort): void => {
    const first = firsts.get(place);
    if (first === undefined) firsts.set(place, port);
    else if (shared.has(place)) shared.get(place)?.push(port);
    else shared.set(place, [first, port]);
  };
  for (const entries of ofFamilies) {
    for (const {port} of entries) {
      for (const address of [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs]) claim(address, port);
      if (port.nodePort !== 0) claim(port.nodePort, port);
    }
  }
  return shared;
}

function nodePortText({nodePort, protocol, family}: ServicePort): string {
  return `node port ${nodePort}/${protocol}${family === 'IPv6' ? ' (IPv6)' : ''}`;
}

/** The requested Service ports, in both families, with their endpoints. */
export const askedEntries: (context: ClusterContext) => readonly PortEntry[] = once(({view, proxy, services}: ClusterContext) => {
  const asked = new Set(services);
  return families.flatMap(family => view.entries(family, proxy).filter(({port}) => asked.has(port.object)));
});

export const targetPortNotDeclared = check('ST112', {
  *cluster(context) {
    const {pods} = context.api;
    if (pods === null || pods.length === 0) return;
    for (const entry of askedEntries(context)) {
      const {port, set} = entry;
      const target = `packets go to port ${set.endpoints[0]?.port}/${port.protocol} of its pods`;
      const place = {...ofPort(port), ...showPods(port.namespace, port.object.spec?.selector ?? {})};
      const elsewhere = declaredElsewhere(entry, pods);
      if (elsewhere !== null) yield {...place, message: `${port.servicePortName}: ${target}${elsewhere}`};
      const declared = onlyDeclaredPort(entry, pods);
      if (declared !== null)
        yield {
          ...place,
          message: `${port.servicePortName}: ${target}, whose containers declare ${declared} and no other port of this protocol: if nothing listens there, connections are refused`,
        };
      const [name, others] = otherPortsOfName(entry, pods);
      if (others.length > 0)
        yield {
          ...place,
          message: `${port.servicePortName}: ${target}, and none to ${others.join(', ')}, which has the name ${name} too: the first container with a port of this name counts alone`,
          remedy: 'Give each port of a pod a name of its own, or set targetPort to the number of the port that the Service is to reach.',
        };
    }
  },
});

/**
 * The only port of the protocol that each of the pods declares, if it is not the target port. Null if a pod is not known, or declares none or
 * several: then its list says too little.
 */
function onlyDeclaredPort({port, set: {endpoints}}: PortEntry, pods: readonly PodObject[]): string | null {
  const declared = new Set<string>();
  for (const endpoint of endpoints) {
    const ports = portsByPod(pods)
      .get(podOf(endpoint) ?? '')
      ?.filter(one => one.endsWith(`/${port.protocol}`));
    const [only, ...others] = new Set(ports);
    if (only === undefined || others.length > 0 || only === `${endpoint.port}/${port.protocol}`) return null;
    declared.add(only);
  }
  const [only, ...others] = declared;
  return only === undefined || others.length > 0 ? null : only;
}

/** What pods declare in place of the target port; null if nothing speaks against it, or `onlyDeclaredPort` says more. */
function declaredElsewhere({port, set: {endpoints}}: PortEntry, pods: readonly PodObject[]): string | null {
  const known = portsByPod(pods);
  const declared = endpoints.map(endpoint => {
    const name = podOf(endpoint) ?? '';
    return {name, ports: known.get(name) ?? [], number: `${endpoint.port}/`, target: `${endpoint.port}/${port.protocol}`};
  });
  if (declared.some(({ports}) => ports.length === 0)) return null;
  const without = declared.filter(({ports, target}) => !ports.includes(target));
  const [first] = without;
  if (first === undefined) return null;
  if (without.length === declared.length) {
    const other = first.ports.find(one => one.startsWith(first.number));
    return other !== undefined && without.every(({ports}) => ports.includes(other))
      ? `, whose containers declare ${other} and not ${first.target}: if nothing listens for this protocol, packets are lost`
      : null;
  }
  const workloads = workloadsByPod(pods);
  const own = new Set(declared.flatMap(({name, ports, target}) => (ports.includes(target) ? [workloads.get(name)] : [])));
  const others = without.filter(({name}) => workloads.get(name) !== undefined && !own.has(workloads.get(name)));
  if (others.length === 0 || own.has(undefined)) return null;
  return `, and its selector matches pods of another workload too, which declare other ports: ${someOf(others.map(({name, ports}) => `${name} ${ports.join(', ')}`))}`;
}

/** What controls each pod: of a ReplicaSet, the name of its Deployment. */
const workloadsByPod = once(
  (pods: readonly PodObject[]) =>
    new Map(
      pods.map(({metadata}) => {
        const owner = metadata.ownerReferences?.find(({controller}) => controller === true);
        const name = owner?.kind === 'ReplicaSet' ? owner.name?.replace(/-[a-z\d]+$/, '') : owner?.name;
        return [namespacedName(metadata), owner === undefined ? undefined : `${owner.kind} ${name}`];
      }),
    ),
);

/** The name of the target port, and the further ports of its protocol that containers of one and the same pod give this name. */
function otherPortsOfName({port, set}: PortEntry, pods: readonly PodObject[]): readonly [name: string, ports: readonly string[]] {
  const own = port.object.spec?.ports?.find(one => one.port === port.port && (one.protocol ?? 'TCP') === port.protocol);
  const name = own?.targetPort;
  if (typeof name !== 'string') return ['', []];
  const names = new Set(set.endpoints.map(podOf));
  const others = pods.flatMap(pod => {
    if (!names.has(namespacedName(pod.metadata))) return [];
    const [first, ...rest] = portsOfPod(pod).filter(one => one.name === name && (one.protocol ?? 'TCP') === port.protocol);
    return rest.flatMap(({containerPort}) => (containerPort === first?.containerPort ? [] : [`${containerPort}/${port.protocol}`]));
  });
  return [name, [...new Set(others)]];
}

/** `8080/TCP`, of all containers of a pod, by the pod's `namespace/name`. */
const portsByPod = once(
  (pods: readonly PodObject[]) =>
    new Map(
      pods.map(({metadata, spec}) => {
        const containers = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])];
        const ports = containers.flatMap(container => container.ports ?? []);
        return [namespacedName(metadata), ports.map(({containerPort, protocol}) => `${containerPort}/${protocol ?? 'TCP'}`)];
      }),
    ),
);

/**
 * Those that a check of endpoints may report. The endpoints of nearly all others are looked at once for all these checks: there are some,
 * each is given once, is ready, has no hints and is on a node of the cluster.
 */
export const unusualEntries: (context: ClusterContext) => readonly PortEntry[] = once((context: ClusterContext) => {
  const {nodes} = context.api;
  const names = nodes === null ? null : new Set(nodes.map(({metadata}) => metadata.name));
  return askedEntries(context).filter(entry => isUnusual(entry, names));
});

/** It is ready, or this kube-proxy uses it while it ends. */
export function isUsable({ready, serving, terminating}: Endpoint, {version, gates}: ProxyVersion): boolean {
  return ready || (serving && terminating && usesTerminatingEndpoints(version, gates));
}

/** `nodes` are null if they were not read. */
function isUnusual({set}: PortEntry, nodes: ReadonlySet<string> | null): boolean {
  if (set.endpoints.length === 0 || set.ambiguous.size > 0) return true;
  for (const {ready, zoneHints, nodeHints, nodeName} of set.endpoints) {
    if (!ready || zoneHints !== null || nodeHints !== null || nodeName === null) return true;
    if (nodes?.has(nodeName) === false) return true;
  }
  return false;
}
