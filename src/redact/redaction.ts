import {canonicalAddress, joinHostPort} from '../model/address.ts';
import type {EndpointSliceObject, ServiceObject} from '../model/api-objects.ts';
import {serviceNameLabel} from '../model/endpoint.ts';
import type {ApiObjects, NodeDump, Problem} from '../model/snapshot.ts';
import type {NameKind} from './names.ts';
import {type ObjectList, objectTreatments} from './object-treatments.ts';
import {redactFile} from './redact-file.ts';
import {Replacements, treat} from './replacements.ts';
import {sortSubsets} from './addresses.ts';

/** How many different ones were replaced, and what was left out. */
export interface RedactionSummary {
  readonly names: ReadonlyMap<NameKind, number>;
  readonly addresses: number;
  readonly hardwareAddresses: number;
  /** Chains of kube-proxy for an unknown Service or endpoint. */
  readonly unknownChains: number;
  /** Names of files. */
  readonly leftOut: readonly string[];
}

/**
 * Removes what identifies a cluster from a bundle, and keeps what a diagnosis needs. Redact the API objects first, then the nodes, one at a
 * time in any order. The same key gives the same replacements.
 */
export class Redaction {
  readonly #replacements: Replacements;
  readonly #leftOut = new Set<string>();

  constructor(key: string | Uint8Array) {
    this.#replacements = new Replacements(key);
  }

  objects(api: ApiObjects): ApiObjects {
    learnObjects(api, this.#replacements);
    const lists = Object.entries(objectTreatments).map(([kind, treatment]) => {
      const items = api[kind as ObjectList];
      return [kind, items?.map(item => treat(item, treatment, this.#replacements)) ?? null];
    });
    return sortSubsets(api, {...(Object.fromEntries(lists) as Pick<ApiObjects, ObjectList>), ...this.#scope(api)});
  }

  /** A node whose files are redacted when they are read. */
  node(node: NodeDump): NodeDump {
    const name = this.#replacements.names.replace(node.name, 'node');
    return {name, files: node.files, read: file => this.#file(node, file)};
  }

  problem({node, message, remedy, ...rest}: Problem): Problem {
    return {
      node: node === undefined ? undefined : this.#replacements.names.replace(node, 'node'),
      message: this.message(message),
      remedy: remedy === undefined ? undefined : this.message(remedy),
      ...rest,
    };
  }

  /** Messages may contain names of the cluster in these words. */
  message(text: string): string {
    return this.#replacements.message(text);
  }

  summary(): RedactionSummary {
    const {names, addresses, text, chains} = this.#replacements;
    return {
      names: names.counts(),
      addresses: addresses.count,
      hardwareAddresses: text.hardwareCount,
      unknownChains: chains.unknownCount,
      leftOut: [...this.#leftOut].sort(),
    };
  }

  #scope({namespaces, podsOf, unsure}: ApiObjects): Pick<ApiObjects, 'namespaces' | 'podsOf' | 'unsure'> {
    const {names, chains} = this.#replacements;
    const services = (names: ReadonlySet<string>) => new Set([...names].flatMap(service => chains.servicePort(service) ?? []));
    return {
      namespaces: namespaces?.map(name => names.replace(name, 'namespace')),
      podsOf: podsOf === undefined ? undefined : services(podsOf),
      unsure: unsure === undefined ? undefined : services(unsure),
    };
  }

  #file(node: NodeDump, file: string): Buffer | null {
    const content = node.read(file);
    if (content === null) return null;
    const redacted = redactFile(file, content, this.#replacements);
    if (redacted === null) this.#leftOut.add(file);
    return redacted;
  }
}

/** Learns all names in the API with their kinds, and what chain names are derived from. */
function learnObjects(api: ApiObjects, replacements: Replacements): void {
  const {names} = replacements;
  const lists = [api.services, api.endpointSlices, api.endpoints, api.pods, api.configMaps, api.networkPolicies];
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
  return [...spellings].map(text => joinHostPort(text, port));
}

function lower(protocol: string | undefined): string {
  return (protocol ?? 'TCP').toLowerCase();
}
