import {canonicalAddress, type Family, familyOf, parseCidr, type Protocol} from '../../model/address.ts';
import {headlessLabel, proxyNameLabel, type ServiceObject, type ServicePortSpec} from '../../model/api-objects.ts';
import type {KubeProxyVersion, ProxyConfig, ProxyVersion} from '../../model/proxy-config.ts';
import type {ServicePort, UnservedKind} from '../../model/service-port.ts';
import {servicePortHash} from '../iptables/chain-names.ts';
import {
  endsUnnamedPortWithColon,
  hasSharedSelector,
  honorsInternalPolicy,
  honorsIPMode,
  honorsPolicyOfExternalIPs,
  readsPolicyAnnotation,
  zeroRangeMeansAll,
} from './proxy-versions.ts';

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
  if (hasSharedSelector(version) && labels[headlessLabel] !== undefined)
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
  const colon = portName !== '' || endsUnnamedPortWithColon(proxy.version) ? ':' : '';
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
    internalPolicyLocal: spec.internalTrafficPolicy === 'Local' && honorsInternalPolicy(proxy.version, proxy.gates),
    affinitySeconds: spec.sessionAffinity === 'ClientIP' ? (spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? 10800) : null,
    healthCheckNodePort: spec.type === 'LoadBalancer' && externalPolicyLocal ? (spec.healthCheckNodePort ?? 0) : 0,
  };
}

/** Nearly all Services have no such addresses: one list serves them all. */
const none: readonly string[] = [];

/** Follows `ExternalPolicyLocal` of `pkg/api/v1/service`, which includes external IPs of ClusterIP Services since 1.29. */
function isExternalPolicyLocal({metadata, spec = {}}: ServiceObject, version: KubeProxyVersion): boolean {
  const asked = readsPolicyAnnotation(version) && policyAnnotations.some(name => metadata.annotations?.[name] === 'OnlyLocal');
  if (spec.externalTrafficPolicy !== 'Local' && !asked) return false;
  if (spec.type === 'LoadBalancer' || spec.type === 'NodePort') return true;
  return honorsPolicyOfExternalIPs(version) && (spec.externalIPs ?? []).length > 0;
}

const policyAnnotations = ['service.beta.kubernetes.io/external-traffic', 'service.alpha.kubernetes.io/external-traffic'];

function ofFamily(addresses: readonly string[], family: Family): readonly string[] {
  if (addresses.length === 0) return none;
  return addresses.filter(address => familyOf(address) === family).map(address => canonicalAddress(address) ?? address);
}

function loadBalancerVIPs(service: ServiceObject, family: Family, {version, gates}: ProxyVersion): readonly string[] {
  const ingress = service.status?.loadBalancer?.ingress ?? [];
  if (ingress.length === 0) return none;
  const taken = ingress.filter(({ip, ipMode}) => ip !== undefined && !(ipMode === 'Proxy' && honorsIPMode(version, gates)));
  return ofFamily(
    taken.map(({ip}) => ip ?? ''),
    family,
  );
}

function sourceRanges(ranges: readonly string[], family: Family, version: KubeProxyVersion): readonly string[] {
  if (ranges.length === 0) return none;
  const parsed = ranges.map(range => (range.includes('/') ? parseCidr(range.trim()) : null)).filter(cidr => cidr?.family === family);
  if (zeroRangeMeansAll(version) && parsed.some(cidr => cidr?.prefix === 0)) return [];
  return parsed.map(cidr => cidr?.text ?? '');
}
