import {canonicalAddress} from '../model/address.ts';
import type {EndpointSliceObject, ServiceObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import type {Replacements} from './replacements.ts';
import {serviceNameLabel} from '../model/endpoint.ts';

/** Learns all names in the API with their kinds, and what chain names are derived from. */
export function learnObjects(api: ApiObjects, replacements: Replacements): void {
  const {names} = replacements;
  const lists = [api.services, api.endpointSlices, api.endpoints, api.pods, api.configMaps];
  for (const {metadata} of lists.flatMap(list => list ?? [])) if (metadata.namespace) names.replace(metadata.namespace, 'namespace');
  for (const {metadata} of api.nodes ?? []) names.replace(metadata.name, 'node');
  for (const {metadata} of [...(api.services ?? []), ...(api.endpoints ?? [])]) names.replace(metadata.name, 'service');
  for (const {metadata} of api.pods ?? []) names.replace(metadata.name, 'pod');
  for (const service of api.services ?? []) learnService(service, replacements);
  for (const slice of api.endpointSlices ?? []) learnSlice(slice, replacements);
  for (const {metadata, subsets} of api.endpoints ?? []) {
    for (const {addresses, ports} of subsets ?? []) {
      const written = (addresses ?? []).flatMap(({ip}) => ip ?? []);
      learnEndpoints({namespace: metadata.namespace, service: metadata.name, ports: ports ?? [], addresses: written}, replacements);
    }
  }
}

/** Up to 1.18 a port without a name leaves a colon at the end. */
function learnService({metadata, spec}: ServiceObject, {chains}: Replacements): void {
  for (const {name, protocol} of spec?.ports ?? []) {
    for (const servicePort of servicePortNames(metadata.namespace, metadata.name, name)) chains.learn(servicePort, [lower(protocol)]);
  }
}

function learnSlice({metadata, endpoints, ports}: EndpointSliceObject, replacements: Replacements): void {
  const service = metadata.labels?.[serviceNameLabel];
  if (service === undefined) return;
  const addresses = (endpoints ?? []).flatMap(endpoint => endpoint?.addresses?.[0] ?? []);
  learnEndpoints({namespace: metadata.namespace, service, ports: ports ?? [], addresses}, replacements);
}

interface EndpointNames {
  readonly namespace: string | undefined;
  readonly service: string;
  readonly ports: readonly {readonly name?: string | null; readonly port?: number | null; readonly protocol?: string}[];
  readonly addresses: readonly string[];
}

function learnEndpoints({namespace, service, ports, addresses}: EndpointNames, {chains}: Replacements): void {
  for (const {name, port, protocol} of ports) {
    for (const servicePort of servicePortNames(namespace, service, name ?? '')) {
      chains.learn(servicePort, [lower(protocol)]);
      for (const hostPort of addresses.flatMap(address => hostPorts(address, port ?? 0))) {
        chains.learnEndpoint(servicePort, lower(protocol), hostPort);
      }
    }
  }
}

function servicePortNames(namespace: string | undefined, service: string, port: string | undefined): readonly string[] {
  const name = `${namespace ?? 'default'}/${service}`;
  return port === undefined || port === '' ? [name, `${name}:`] : [`${name}:${port}`];
}

/** As spelled, and in canonical form. */
function hostPorts(address: string, port: number): readonly string[] {
  const spellings = new Set([address, canonicalAddress(address) ?? address]);
  return [...spellings].map(text => (text.includes(':') ? `[${text}]:${port}` : `${text}:${port}`));
}

function lower(protocol: string | undefined): string {
  return (protocol ?? 'TCP').toLowerCase();
}
