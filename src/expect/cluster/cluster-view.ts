import {heldIn, once} from '../../model/once.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {
  type EndpointSliceObject,
  type EndpointsObject,
  headlessLabel,
  proxyNameLabel,
  type ServiceObject,
  type ServicePortSpec,
} from '../../model/api-objects.ts';
import type {Endpoint, EndpointSet} from '../../model/endpoint.ts';
import {type Family, canonicalAddress, familyOf, parseCidr, type Protocol} from '../../model/address.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ServicePort, UnservedKind} from '../../model/service-port.ts';
import {endpointChainName, servicePortHash} from '../iptables/chain-names.ts';
import * as versions from './proxy-versions.ts';
import {endpointSet, endpointSetOfEndpoints, sliceOwner} from './endpoint-sets.ts';
import type {ProxyVersion, KubeProxyVersion, ProxyConfig} from '../../model/proxy-config.ts';
import {pushTo} from '../../model/lists.ts';
import {namespacedName} from '../../model/text.ts';

/** A Service port with all its endpoints, which are the same on every node. */
export interface PortEntry {
  readonly port: ServicePort;
  readonly set: EndpointSet;
  /** The name of an endpoint's chain, computed once for all nodes. */
  readonly endpointChain: (endpoint: Endpoint) => string;
}

/** The API objects as kube-proxy interprets them, computed once for all nodes that run the same version. */
export class ClusterView {
  readonly #api: ApiObjects;
  readonly #entries = new Map<string, readonly PortEntry[]>();
  readonly #slices = new Map<number, ReadonlyMap<string, readonly EndpointSliceObject[]>>();

  constructor(api: ApiObjects) {
    this.#api = api;
  }

  /** Every Service port that a kube-proxy of this version serves in the family, in the order of the API's list. */
  entries(family: Family, proxy: ProxyVersion): readonly PortEntry[] {
    const key = `${family} ${proxy.version.minor} ${JSON.stringify(proxy.gates)}`;
    return heldIn(this.#entries, key, () => this.#build(family, proxy));
  }

  /** How many endpoints all Service ports of the family have, ready or not: in a large cluster kube-proxy writes rules without comments. */
  endpointCount(family: Family, proxy: ProxyVersion): number {
    return countOf(this.entries(family, proxy));
  }

  /** The slices that a kube-proxy of this version uses for a Service, `namespace/name`. */
  slicesOf(service: string, proxy: ProxyVersion): readonly EndpointSliceObject[] {
    return this.#slicesByService(proxy).get(service) ?? [];
  }

  /** The substitute for objects that kube-proxy of this version reads and that were not collected. */
  standIn({version, gates}: ProxyVersion): {readonly used: string; readonly read: string} | null {
    const {endpoints, endpointSlices} = this.#api;
    const old = versions.readsEndpoints(version, gates);
    if (old && endpoints === null && endpointSlices !== null) return {used: 'EndpointSlices', read: 'Endpoints'};
    return !old && endpointSlices === null && endpoints !== null ? {used: 'Endpoints', read: 'EndpointSlices'} : null;
  }

  /** Endpoints that a Service port had within kube-proxy's grace period; none if Services were not followed. */
  formerEndpoints(_port: ServicePort, _proxy: ProxyVersion): readonly Pick<Endpoint, 'address' | 'port'>[] {
    return [];
  }

  /** The Service that an address or node port belonged to within kube-proxy's grace period; null if Services were not followed. */
  formerOwner(_place: AnsweredPlace): ServiceName | null {
    return null;
  }

  /** The endpoints that these slices give a Service port. */
  protected endpointsIn(port: ServicePort, slices: readonly EndpointSliceObject[], {version}: ProxyVersion): readonly Endpoint[] {
    return slices.flatMap(slice => endpointSet(port, [slice], version).endpoints);
  }

  #build(family: Family, proxy: ProxyVersion): readonly PortEntry[] {
    const endpointsOf = this.#source(proxy);
    const entryOf = (port: ServicePort): PortEntry => ({port, set: endpointsOf(port), endpointChain: chainNames(port)});
    return (this.#api.services ?? []).flatMap(service => servicePorts(service, family, proxy).map(entryOf));
  }

  #source(proxy: ProxyVersion): (port: ServicePort) => EndpointSet {
    const slices = this.#slicesByService(proxy);
    const old = versions.readsEndpoints(proxy.version, proxy.gates) || this.#api.endpointSlices === null;
    // Objects of the other kind replace those that were not read: see `standIn`.
    if (!old || this.#api.endpoints === null) return port => endpointSet(port, slices.get(serviceKey(port)) ?? [], proxy.version);
    const objects = new Map<string, EndpointsObject>(this.#api.endpoints.map(object => [namespacedName(object.metadata), object]));
    return port => endpointSetOfEndpoints(port, objects.get(serviceKey(port)));
  }

  #slicesByService({version}: ProxyVersion): ReadonlyMap<string, readonly EndpointSliceObject[]> {
    return heldIn(this.#slices, version.minor, () => {
      const groups = new Map<string, EndpointSliceObject[]>();
      for (const slice of this.#api.endpointSlices ?? []) {
        const owner = sliceOwner(slice, version);
        if (owner !== null) pushTo(groups, owner, slice);
      }
      return groups;
    });
  }
}

const countOf = once((entries: readonly PortEntry[]) => entries.reduce((sum, {set}) => sum + set.endpoints.length, 0));

function chainNames({servicePortName, protocol}: ServicePort): (endpoint: Endpoint) => string {
  return endpoint => (endpoint.chainName ??= endpointChainName(servicePortName, protocol, endpoint.hostPort));
}

export function serviceKey(port: {readonly namespace: string; readonly service: string}): string {
  return `${port.namespace}/${port.service}`;
}

/** An address, protocol and port at which a node answers. */
export interface AnsweredPlace {
  readonly family: Family;
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
}

export function proxyVersion({version, featureGates}: Pick<ProxyConfig, 'version' | 'featureGates'>): ProxyVersion {
  return {version: version.value, gates: featureGates.value};
}

/** Why kube-proxy does not serve a Service; null if it does. Follows `ShouldSkipService` and the informer's label selector. */
export function whyNotServed(service: ServiceObject, version: KubeProxyVersion): string | null {
  return notServed(service, version)?.reason ?? null;
}

/** The same reason with its kind, for counts. */
export function notServed(
  service: ServiceObject,
  version: KubeProxyVersion,
): {readonly kind: UnservedKind; readonly reason: string} | null {
  const labels = service.metadata.labels ?? {};
  const {type, clusterIP = ''} = service.spec ?? {};
  if (labels[proxyNameLabel] !== undefined)
    return {kind: 'otherProxy', reason: `it is given to another proxy (label ${proxyNameLabel}=${labels[proxyNameLabel]})`};
  if (versions.hasSharedSelector(version) && labels[headlessLabel] !== undefined)
    return {kind: 'headless', reason: `it has the label ${headlessLabel}`};
  if (type === 'ExternalName')
    return {kind: 'externalName', reason: 'it is of type ExternalName: a DNS name, without an address of its own'};
  if (clusterIP === 'None')
    return {kind: 'headless', reason: 'it is headless (clusterIP: None): clients get the addresses of its pods from DNS'};
  return clusterIP === '' ? {kind: 'noClusterIP', reason: 'it has no cluster IP (yet)'} : null;
}

/** The Service ports that a kube-proxy of this version serves in one family. Follows `newBaseServiceInfo`. */
export function servicePorts(service: ServiceObject, family: Family, proxy: ProxyVersion): readonly ServicePort[] {
  if (whyNotServed(service, proxy.version) !== null) return [];
  const clusterIP = clusterIPOf(service, family);
  if (clusterIP === null) return [];
  const context = {family, clusterIP, proxy};
  const ports: ServicePort[] = [];
  for (const port of service.spec?.ports ?? [])
    if (typeof port.port === 'number' && protocolOf(port) !== null) ports.push(servicePort(service, port, context));
  return ports;
}

/** Follows `GetClusterIPByFamily`. */
export function clusterIPOf(service: ServiceObject, family: Family): string | null {
  const spec = service.spec ?? {};
  const clusterIP = spec.clusterIP ?? '';
  const ipFamilies = spec.ipFamilies ?? [];
  if (ipFamilies.length === 0) return familyOf(clusterIP) === family ? canonicalAddress(clusterIP) : null;
  const at = ipFamilies.indexOf(family);
  const address = at < 0 ? undefined : (spec.clusterIPs?.[at] ?? (at === 0 ? clusterIP : undefined));
  return address === undefined ? null : canonicalAddress(address);
}

function protocolOf(port: ServicePortSpec): Protocol | null {
  const protocol = port.protocol ?? 'TCP';
  return protocol === 'TCP' || protocol === 'UDP' || protocol === 'SCTP' ? protocol : null;
}

function servicePort(
  service: ServiceObject,
  port: ServicePortSpec,
  {family, clusterIP, proxy}: {readonly family: Family; readonly clusterIP: string; readonly proxy: ProxyVersion},
): ServicePort {
  const {metadata, spec = {}} = service;
  const namespace = metadata.namespace ?? 'default';
  const portName = port.name ?? '';
  const protocol = protocolOf(port) ?? 'TCP';
  const colon = portName !== '' || versions.endsUnnamedPortWithColon(proxy.version) ? ':' : '';
  const servicePortName = `${namespace}/${metadata.name}${colon}${portName}`;
  const externalPolicyLocal = isExternalPolicyLocal(service, proxy.version);
  return {
    family,
    namespace,
    service: metadata.name,
    portName,
    protocol,
    servicePortName,
    clusterIP,
    externalPolicyLocal,
    object: service,
    hash: servicePortHash(servicePortName, protocol),
    port: port.port ?? 0,
    nodePort: port.nodePort ?? 0,
    externalIPs: ofFamily(spec.externalIPs ?? none, family),
    loadBalancerVIPs: loadBalancerVIPs(service, family, proxy),
    sourceRanges: sourceRanges(spec.loadBalancerSourceRanges ?? none, family, proxy.version),
    internalPolicyLocal: spec.internalTrafficPolicy === 'Local' && versions.honorsInternalPolicy(proxy.version, proxy.gates),
    affinitySeconds: spec.sessionAffinity === 'ClientIP' ? (spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? 10800) : null,
    healthCheckNodePort: spec.type === 'LoadBalancer' && externalPolicyLocal ? (spec.healthCheckNodePort ?? 0) : 0,
  };
}

/** Nearly all Services have no such addresses: one list serves them all. */
const none: readonly string[] = [];

/** Follows `ExternalPolicyLocal` of `pkg/api/v1/service`, which includes external IPs of ClusterIP Services since 1.29. */
function isExternalPolicyLocal({metadata, spec = {}}: ServiceObject, version: KubeProxyVersion): boolean {
  const asked = versions.readsPolicyAnnotation(version) && policyAnnotations.some(name => metadata.annotations?.[name] === 'OnlyLocal');
  if (spec.externalTrafficPolicy !== 'Local' && !asked) return false;
  if (spec.type === 'LoadBalancer' || spec.type === 'NodePort') return true;
  return versions.honorsPolicyOfExternalIPs(version) && (spec.externalIPs ?? []).length > 0;
}

const policyAnnotations = ['service.beta.kubernetes.io/external-traffic', 'service.alpha.kubernetes.io/external-traffic'];

function ofFamily(addresses: readonly string[], family: Family): readonly string[] {
  if (addresses.length === 0) return none;
  return addresses.filter(address => familyOf(address) === family).map(address => canonicalAddress(address) ?? address);
}

function loadBalancerVIPs(service: ServiceObject, family: Family, {version, gates}: ProxyVersion): readonly string[] {
  const ingress = service.status?.loadBalancer?.ingress ?? [];
  if (ingress.length === 0) return none;
  const taken = ingress.filter(({ip, ipMode}) => ip !== undefined && !(ipMode === 'Proxy' && versions.honorsIPMode(version, gates)));
  return ofFamily(
    taken.map(({ip}) => ip ?? ''),
    family,
  );
}

function sourceRanges(ranges: readonly string[], family: Family, version: KubeProxyVersion): readonly string[] {
  if (ranges.length === 0) return none;
  const parsed = ranges.map(range => (range.includes('/') ? parseCidr(range.trim()) : null)).filter(cidr => cidr?.family === family);
  if (versions.zeroRangeMeansAll(version) && parsed.some(cidr => cidr?.prefix === 0)) return [];
  return parsed.map(cidr => cidr?.text ?? '');
}
