import {parseAddress, parseCidr} from '../../model/address.ts';
import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';

type ServicePort = NonNullable<NonNullable<ServiceObject['spec']>['ports']>[number];

/** Why the API server would refuse the Service, as far as kube-proxy's rules depend on it; null if it would not. Follows ValidateService. */
export function whyInvalidService({spec, status}: ServiceObject): string | null {
  const {type = 'ClusterIP', clusterIP} = spec ?? {};
  const [clusterIPs, ports] = [spec?.clusterIPs ?? [], spec?.ports ?? []];
  if (!serviceTypes.includes(type)) return `spec.type is "${type}": it must be one of ${serviceTypes.join(', ')}`;
  const isHeadless = [clusterIP, ...clusterIPs].includes('None');
  if (ports.length === 0 && type !== 'ExternalName' && !isHeadless) return 'spec.ports has no port';
  const ingress = (status?.loadBalancer?.ingress ?? []).flatMap(({ip}) => ip ?? []);
  return (
    notAddress(
      'spec.clusterIP',
      [clusterIP ?? '', ...clusterIPs].filter(text => text !== '' && text !== 'None'),
    ) ??
    notAddress('spec.externalIPs', spec?.externalIPs ?? []) ??
    notAddress('status.loadBalancer.ingress', ingress) ??
    notRange(spec?.loadBalancerSourceRanges ?? []) ??
    invalidPort(ports)
  );
}

/** The same of an EndpointSlice. Follows ValidateEndpointSlice. */
export function whyInvalidSlice({addressType, endpoints}: EndpointSliceObject): string | null {
  if (!['IPv4', 'IPv6', 'FQDN'].includes(String(addressType)))
    return `addressType is ${addressType === undefined ? 'missing' : `"${addressType}"`}: it must be IPv4, IPv6 or FQDN`;
  if (addressType === 'FQDN') return null;
  const wrong = (endpoints ?? []).flatMap(({addresses}) => addresses ?? []).find(text => parseAddress(text)?.family !== addressType);
  return wrong === undefined ? null : `endpoints: "${wrong}" is not an ${addressType} address`;
}

const serviceTypes: readonly string[] = ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'];

function notAddress(field: string, texts: readonly string[]): string | null {
  const wrong = texts.find(text => parseAddress(text) === null);
  return wrong === undefined ? null : `${field}: "${wrong}" is not an IP address`;
}

/** kube-proxy trims them. */
function notRange(texts: readonly string[]): string | null {
  const wrong = texts.find(text => !text.includes('/') || parseCidr(text.trim()) === null);
  return wrong === undefined ? null : `spec.loadBalancerSourceRanges: "${wrong}" is not a CIDR`;
}

function invalidPort(ports: readonly ServicePort[]): string | null {
  const seen = new Set<string>();
  for (const [index, {name = '', protocol = 'TCP', port, nodePort = 0}] of ports.entries()) {
    const place = `spec.ports[${index}]`;
    if (!isPort(port)) return `${place}.port is ${String(port ?? 'missing')}: it must be a number from 1 to 65535`;
    if (nodePort !== 0 && !isPort(nodePort)) return `${place}.nodePort is ${nodePort}: it must be a number from 1 to 65535`;
    if (!['TCP', 'UDP', 'SCTP'].includes(protocol)) return `${place}.protocol is "${protocol}": it must be TCP, UDP or SCTP`;
    if (name === '' && ports.length > 1) return `${place}.name is missing: each of several ports has a name`;
    for (const key of [`name ${name}`, `port ${port}/${protocol}`]) {
      if (seen.has(key)) return `${place} has the ${key} of another port`;
      seen.add(key);
    }
  }
  return null;
}

function isPort(value: number | undefined): boolean {
  return value !== undefined && Number.isInteger(value) && value >= 1 && value <= 65_535;
}
