import type {PacketQuery} from '../../../src/analyze/packet-service.ts';
import {familyOf} from '../../../src/model/address.ts';
import type {ApiObjects} from '../../../src/model/snapshot.ts';
import type {ServiceObject} from '../../../src/model/api-objects.ts';
import {otherNodes, type Place} from './lab.ts';

/** A kind of packet to send, and to ask `packet` about. */
export interface Question {
  /** Such as `shop/web:http TCP 10.96.1.1:80 from outside (198.18.77.1)`. */
  readonly title: string;
  /** `shop/web`; empty for a packet that is for none. */
  readonly service: string;
  readonly from: Place;
  readonly query: PacketQuery;
  /** Addresses that the sender has, all alike to the rules; the first is that of the query. */
  readonly sources: readonly string[];
  /** The Service wants a client to come back to the same endpoint. */
  readonly sticky: boolean;
}

export interface QuestionsInput {
  readonly api: ApiObjects;
  readonly number: number;
  /** Addresses that the node has besides, as load balancers' are put on nodes. */
  readonly addresses: readonly string[];
  /** Null when no question is to say by which interface its packet comes in. */
  readonly podInterface: string | null;
}

/** Every entry of every Service, over TCP and UDP, from every kind of source, and a few packets that are for no Service. */
export function questionsOf(input: QuestionsInput): readonly Question[] {
  const services = (input.api.services ?? []).filter(({spec}) => spec?.type !== 'ExternalName');
  return [...services.flatMap(service => questionsOfService(input, service)), ...strays(input)];
}

function questionsOfService(input: QuestionsInput, service: ServiceObject): readonly Question[] {
  const {metadata, spec} = service;
  const own = `${metadata.namespace}/${metadata.name}`;
  const sticky = spec?.sessionAffinity === 'ClientIP';
  return (spec?.ports ?? []).flatMap(({name, protocol = 'TCP', port = 0, nodePort = 0}) => {
    const title = `${own}${name ? `:${name}` : ''} ${protocol}`;
    const places: readonly Destination[] = [
      ...virtualAddresses(service).map(address => ({address, port})),
      ...(nodePort === 0 ? [] : nodeAddresses(input).map(address => ({address, port: nodePort}))),
    ];
    // Node.js has no SCTP, and few kernels have.
    if (protocol !== 'TCP' && protocol !== 'UDP') return [];
    return places.flatMap(destination =>
      [...origins(input, destination), ...hairpins(input, service, destination)].map(origin =>
        question(input, origin, {...destination, protocol, title, service: own, sticky}),
      ),
    );
  });
}

export interface Destination {
  readonly address: string;
  readonly port: number;
  readonly protocol?: 'TCP' | 'UDP';
}

interface Origin {
  readonly from: Place;
  readonly sources: readonly string[];
}

interface Subject extends Omit<Destination, 'protocol'> {
  readonly protocol: string;
  readonly title: string;
  readonly service: string;
  readonly sticky: boolean;
}

function question({podInterface}: QuestionsInput, {from, sources}: Origin, subject: Subject): Question {
  const {address, port, protocol, title, service, sticky} = subject;
  const [source = ''] = sources;
  const inInterface = podInterface === null || from === 'node' ? null : from === 'pods' ? podInterface : 'eth0';
  return {
    title: `${title} [${address}]:${port} from ${from} (${source})`,
    service,
    from,
    query: {family: familyOf(address) ?? 'IPv4', source, destination: address, port, protocol, inInterface},
    sources,
    sticky,
  };
}

function virtualAddresses({spec, status}: ServiceObject): readonly string[] {
  const ingress = (status?.loadBalancer?.ingress ?? []).flatMap(({ip}) => ip ?? []);
  return [...(spec?.clusterIPs ?? []).filter(address => address !== 'None'), ...ingress, ...(spec?.externalIPs ?? [])];
}

function nodeAddresses({number}: QuestionsInput): readonly string[] {
  return [`172.18.0.${number}`, `10.244.${number}.1`, '127.0.0.1', `fd00:172:18::${number}`, `fd00:10:244:${number}::1`, '::1'];
}

/** Everybody who may knock at an address. */
function origins({number, addresses}: QuestionsInput, {address}: Destination): readonly Origin[] {
  const [other = 0] = otherNodes(number);
  if (address === '::1') return [{from: 'node', sources: ['::1']}];
  if (address === '127.0.0.1') return [one('node', '127.0.0.1'), {from: 'outside', sources: many('198.18.77.', 1)}];
  if (address.includes(':'))
    return [
      {from: 'pods', sources: many(`fd00:10:244:${number}::1:`, 1)},
      {from: 'outside', sources: many('2001:db8::', 1)},
      {from: 'outside', sources: many(`fd00:10:244:${other}::`, 100)},
      one('node', `fd00:172:18::${number}`),
      one('node', `fd00:10:244:${number}::1`),
    ];
  return [
    {from: 'pods', sources: many(`10.244.${number}.`, 130)},
    {from: 'outside', sources: many('198.18.77.', 1)},
    {from: 'outside', sources: many('198.51.100.', 130)},
    {from: 'outside', sources: many(`10.244.${other}.`, 130)},
    one('outside', '203.0.113.3'),
    one('outside', `172.18.0.${other}`),
    one('node', `172.18.0.${number}`),
    one('node', `10.244.${number}.1`),
    ...addresses.map(own => one('node', own)),
  ];
}

function one(from: Place, source: string): Origin {
  return {from, sources: [source]};
}

function many(prefix: string, first: number): readonly string[] {
  return Array.from({length: 100}, (_, index) => `${prefix}${first + index}`);
}

/** Pods of this node that call the Service they serve. */
function hairpins({api, number}: QuestionsInput, {metadata}: ServiceObject, {address}: Destination): readonly Origin[] {
  if (address === '127.0.0.1' || address === '::1') return [];
  const own = (api.endpointSlices ?? []).filter(
    slice => slice.metadata.namespace === metadata.namespace && slice.metadata.labels?.['kubernetes.io/service-name'] === metadata.name,
  );
  const endpoints = own.flatMap(slice => (slice.endpoints ?? []).flatMap(({addresses}) => addresses ?? []));
  const local = endpoints.filter(endpoint => endpoint.startsWith(`10.244.${number}.`) || endpoint.startsWith(`fd00:10:244:${number}::`));
  return [...new Set(local)].filter(endpoint => familyOf(endpoint) === familyOf(address)).map(endpoint => one('pods', endpoint));
}

/** Packets that no Service wants. */
function strays(input: QuestionsInput): readonly Question[] {
  const [other = 0] = otherNodes(input.number);
  const node = `172.18.0.${input.number}`;
  return strayQuestions(input, [
    {address: '10.96.1.1', port: 81},
    {address: node, port: closedPort},
    {address: `172.18.0.${other}`, port: 30_080},
    {address: '127.0.0.1', port: closedPort},
    {address: 'fd00:96::3', port: 81},
    ...healthCheckPorts(input.api).map(port => ({address: node, port})),
  ]);
}

export function strayQuestions(input: QuestionsInput, destinations: readonly Destination[]): readonly Question[] {
  const [other = 0] = otherNodes(input.number);
  return destinations.flatMap(destination =>
    origins(input, destination)
      // The other nodes are in the same place as everybody outside.
      .filter(({from}) => from !== 'outside' || destination.address !== `172.18.0.${other}`)
      .map(origin =>
        question(input, origin, {...destination, protocol: destination.protocol ?? 'TCP', title: 'no Service', service: '', sticky: false}),
      ),
  );
}

/** No Service has it as its node port. */
const closedPort = 10_255;

/** Ports at which the node must answer: a refusal by its own network stack would look like that of a rule. */
export function portsOfNode(api: ApiObjects): readonly number[] {
  const ports = (api.services ?? []).flatMap(({spec}) => spec?.ports ?? []).flatMap(({nodePort}) => nodePort ?? []);
  const endpoints = (api.endpointSlices ?? []).flatMap(slice => slice.ports ?? []).flatMap(({port}) => port ?? []);
  return [...new Set([...ports, ...endpoints, ...healthCheckPorts(api), closedPort])];
}

function healthCheckPorts({services}: ApiObjects): readonly number[] {
  return (services ?? []).flatMap(({spec}) => spec?.healthCheckNodePort ?? []);
}
