import type {PodObject, ServiceObject, ServicePortSpec, NodeObject} from '../../model/api-objects.ts';
import type {ServiceName} from '../../model/finding.ts';
import {escapeText} from '../../render/renderer.ts';
import {canonicalAddress} from '../../model/address.ts';
import {partition} from '../../model/lists.ts';
import {matchesSelector, parseSelector, type ScopeFlags} from './choose-nodes.ts';
import {namespacedName, commandLine} from '../../model/text.ts';
import {serviceNameLabel} from '../../model/endpoint.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {closest, wrongUse} from '../wrong-use.ts';

export interface SelectionInput {
  /** `name`, `svc/name`, `namespace/name`, a DNS name in the cluster, or an address of a Service, each also with a port; or a node port. */
  readonly names: readonly string[];
  /** One, or several with commas between them. */
  readonly namespace: string | undefined;
  readonly allNamespaces: boolean;
  readonly selector: string | undefined;
}

/** What arguments and flags choose. */
export function selectionOf(
  names: readonly string[],
  {namespace, selector, 'all-namespaces': isOfAll = false}: ScopeFlags,
): SelectionInput {
  return {names, namespace, selector, allNamespaces: isOfAll};
}

/**
 * The Services that the arguments and flags choose. Throws a CLIError (exit 2) for names together with a selector, and for an unknown name,
 * with the nearest names. In a bundle, a name without a namespace matches in every namespace. `concerns` says of a
 * Service that is not in the API whether it is in the requested scope. `scope`: the requested scope, as text: `namespace shop`.
 */
export function selectServices(input: SelectionInput, api: SelectableObjects) {
  refuseNamesWithSelector(input);
  const services = api.services ?? [];
  const wanted = wantedServices(input);
  const unknown = wanted.find(one => !services.some(service => isNamed(service, one)));
  if (unknown !== undefined) throw unknownService(unknown, services, api);
  const requirements = input.selector === undefined ? [] : parseSelector(input.selector);
  const namespaces = input.namespace?.split(',');
  const inNamespace = (service: ServiceObject): boolean =>
    input.allNamespaces || (namespaces?.includes(service.metadata.namespace ?? 'default') ?? true);
  const matches = (service: ServiceObject): boolean => matchesSelector(service.metadata.labels ?? {}, requirements);
  if (requirements.length > 0 && api.services !== null && !services.some(service => inNamespace(service) && matches(service)))
    throw nothingSelected(input);
  return {
    scope: scopeText(input, services, api.pods ?? []),
    byName: wanted.length > 0,
    concerns: (service: ServiceName) =>
      wanted.length === 0 && requirements.length === 0 && (input.allNamespaces || (namespaces?.includes(service.namespace) ?? true)),
    selects: (service: ServiceObject) =>
      (wanted.length === 0 ? inNamespace(service) : wanted.some(one => isNamed(service, one))) && matches(service),
  };
}

/** Like in kubectl, an empty namespace is no error; one that is nearly the name of another with Services is wrong use. */
function scopeText(
  {names, namespace, allNamespaces, selector}: SelectionInput,
  services: readonly ServiceObject[],
  pods: readonly PodObject[],
): string {
  if (names.length > 0) return names.map(escapeText).join(', ');
  if (namespace === undefined || allNamespaces) return `all namespaces${selector === undefined ? '' : `, ${escapeText(selector)}`}`;
  const asked = namespace.split(',');
  const namespaces = services.map(({metadata}) => metadata.namespace ?? 'default');
  const exists = [...services, ...pods].some(({metadata}) => asked.includes(metadata.namespace ?? 'default'));
  const [near] = exists ? [] : closest(namespace, namespaces);
  if (near !== undefined) throw wrongUse(`no Services in namespace ${namespace}`, [near]);
  return `${asked.length > 1 ? 'namespaces' : 'namespace'} ${asked.map(escapeText).join(', ')}${selector === undefined ? '' : `, ${escapeText(selector)}`}`;
}

/** As kubectl does: throws a CLIError (exit 2). */
export function refuseNamesWithSelector({names, selector}: Pick<SelectionInput, 'names' | 'selector'>): void {
  const [name] = names;
  if (name !== undefined && selector !== undefined)
    throw wrongUse(`a name (${name}) cannot be combined with a selector (-l ${selector}): use one of them`);
}

/** What the arguments name. `svc web` is `svc/web`, as kubectl takes it. Throws a CLIError (exit 2). */
export function wantedServices(input: SelectionInput): readonly WantedService[] {
  const [first = '', ...others] = input.names;
  return (others.length > 0 && serviceKinds.has(first) ? others : input.names).map(name => parseServiceName(name, input));
}

const serviceKinds: ReadonlySet<string> = new Set(['svc', 'service', 'services']);

/** Names of Services have no dots. */
const dnsName = /^([a-z][a-z0-9-]*)\.([a-z0-9][a-z0-9-]*)(?:\.svc(?:\..+)?)?$/;

/** What is printed as `NAME:PORT`, `ADDRESS:PORT` or `[ADDRESS]:PORT`, and a port after a blank name. */
export function splitPort(text: string): {readonly host: string; readonly port?: string} {
  const [, host, port] = /^(\[[^\]]*\]|[^:]*):([\w-]+)$/.exec(text) ?? [];
  return host === undefined || port === undefined ? {host: text} : {host: host.replace(/^\[|\]$/g, ''), port};
}

/** Reads a name, an address or a node port of a Service, with the port that it must have. Throws a CLIError (exit 2). */
export function parseServiceName(text: string, input: SelectionInput): WantedService {
  const nodePort = /^:?(\d+)$/.exec(text)?.[1];
  if (nodePort !== undefined) return {namespace: undefined, name: '', port: nodePort};
  const {host, port} = splitPort(text);
  return {...parseHost(host, input), port};
}

/** Reads `name`, `svc/name`, `namespace/name`, `name.namespace.svc.cluster.local`, or an address. Throws a CLIError (exit 2). */
function parseHost(text: string, {namespace, allNamespaces}: SelectionInput): WantedService {
  const [first = '', second, ...rest] = text.split('/');
  if (rest.length > 0 || first === '' || second === '')
    throw wrongUse(`"${text}" is not a Service name: write NAME, svc/NAME or NAMESPACE/NAME`);
  const address = canonicalAddress(text);
  if (address !== null) return {namespace: undefined, name: text, address};
  const [, host, domain] = dnsName.exec(text) ?? [];
  if (host !== undefined && domain !== undefined) return {namespace: domain, name: host};
  const own = allNamespaces ? undefined : namespace;
  if (own?.includes(',') && (second === undefined || serviceKinds.has(first)))
    throw wrongUse(`${text} may be in each of the namespaces ${own}: write NAMESPACE/NAME`);
  if (second === undefined) return {namespace: own, name: first};
  return serviceKinds.has(first) ? {namespace: own, name: second} : {namespace: first, name: second};
}

function isNamed(service: ServiceObject, wanted: WantedService): boolean {
  const ports = service.spec?.ports ?? [];
  if (wanted.name === '') return ports.some(({nodePort}) => String(nodePort) === wanted.port);
  return isAt(service, wanted) && (wanted.port === undefined || ports.some(port => isPort(port, wanted.port)));
}

function isPort({name, port, nodePort}: ServicePortSpec, text: string | undefined): boolean {
  return name === text || String(port) === text || String(nodePort) === text;
}

/** Whatever its ports are. */
function isAt(service: ServiceObject, {namespace, name, address}: WantedService): boolean {
  const {metadata} = service;
  if (address !== undefined) return hasAddress(service, address);
  return metadata.name === name && (namespace === undefined || (metadata.namespace ?? 'default') === namespace);
}

/** Whether clients reach a Service at a canonical address. */
export function hasAddress(service: ServiceObject, address: string): boolean {
  return addressesOf(service).some(one => canonicalAddress(one) === address);
}

/** The addresses at which clients reach a Service, as they are written. */
export function addressesOf({spec, status}: ServiceObject): readonly string[] {
  const ingress = (status?.loadBalancer?.ingress ?? []).flatMap(({ip}) => ip ?? []);
  return [spec?.clusterIP ?? '', ...(spec?.clusterIPs ?? []), ...(spec?.externalIPs ?? []), ...ingress];
}

function portsOf({spec}: ServiceObject): string {
  const ports = (spec?.ports ?? []).map(({name, port, protocol = 'TCP'}) => `${name ?? port} (${port}/${protocol})`);
  return ports.join(', ') || 'none';
}

/** A selector that matches nothing is an error: a gate that checks nothing must not pass. */
function nothingSelected({namespace, selector, allNamespaces}: SelectionInput): Error {
  const where = namespace === undefined || allNamespaces ? '' : ` in namespace ${namespace}`;
  return wrongUse(`no Service${where} matches the selector ${selector ?? ''}`);
}

/** As kubectl takes them in `TYPE/NAME`. A namespace can have such a name too. */
const otherKinds: ReadonlySet<string> = new Set(
  'po pod pods deploy deployment deployments ds daemonset sts statefulset ep endpoints endpointslice no node nodes ing ingress'.split(' '),
);

function unknownService(wanted: WantedService, services: readonly ServiceObject[], api: SelectableObjects): Error {
  const {namespace, name, port} = wanted;
  const other = services.find(service => name !== '' && isAt(service, wanted));
  if (other !== undefined) return refuse(`Service ${namespacedName(other.metadata)} has no port "${port}"; it has ${portsOf(other)}`);
  const near = closest(
    name,
    services.map(({metadata}) => metadata.name),
  );
  if (otherKinds.has(namespace ?? '') && !services.some(({metadata}) => metadata.namespace === namespace)) {
    const node = nodeKinds.has(namespace ?? '') ? nodeAt(wanted, api) : undefined;
    const backed = servicesWith(wanted, api);
    // An Ingress, and often a Deployment, is named like the Service that leads to its pods.
    const named = backed.length > 0 || node !== undefined ? backed : ofNames(near, services);
    return refuse(`"${namespace}/${name}" is not a Service: write NAME, svc/NAME or NAMESPACE/NAME${checksNode(node)}`, named);
  }
  const own = ofPlace(wanted, {...api, services});
  if (own !== null) return own;
  const where = namespace === undefined ? 'any namespace' : `namespace ${namespace}`;
  const owners = ofNames(near, services).map(namespacedName);
  const command = namespace === undefined ? 'kubectl svc-trace check -A' : commandLine`kubectl svc-trace check -n ${namespace}`;
  const more =
    services.length === 0
      ? ': the bundle has no API objects. Add api/services.json and api/endpointslices.json, or trace one packet through the rules: svc-trace packet'
      : owners.length > 0 || command === null
        ? ''
        : `. If it was deleted and still answers, "${command}" names the nodes whose rules still have it (ST205)`;
  return wrongUse(`Service "${name}" not found in ${where}${more}`, owners);
}

function ofNames(names: readonly string[], services: readonly ServiceObject[]): readonly ServiceName[] {
  return names.flatMap(name =>
    services.flatMap(({metadata}) => (metadata.name === name ? [{namespace: metadata.namespace ?? 'default', name}] : [])),
  );
}

function checksNode(node: string | undefined): string {
  const command = node === undefined ? null : commandLine`kubectl svc-trace check -A --node ${node}`;
  return command === null ? '' : `; "${command}" checks the node`;
}

/** Pods show that a namespace exists; they are missing where it is known otherwise. */
type SelectableObjects = Pick<ApiObjects, 'services'> & Partial<Pick<ApiObjects, 'pods' | 'endpointSlices' | 'nodes'>>;

export interface WantedService {
  /** Undefined searches all namespaces. */
  readonly namespace: string | undefined;
  readonly name: string;
  /** In place of a name. */
  readonly address?: string;
  /** The name or number of a port that it must have, as reports print it: `shop/web:http`, `10.96.1.1:80`. A node port alone has no name. */
  readonly port?: string;
}

/** Wrong use; the owners are suggested. */
function refuse(text: string, owners: readonly ServiceName[] = []): Error {
  return wrongUse(text, [...new Set(owners.map(namespacedName))]);
}

/** What an address, a number, or the name of a pod or node is that names no Service; null for other names. */
function ofPlace(wanted: WantedService, api: SelectableObjects): Error | null {
  const {name, address, port} = wanted;
  if (name === '') return refuse(`${port} is the node port of no Service`);
  const what = address === undefined ? `Service "${name}" not found` : `${name} is the address of no Service`;
  const that = address === undefined ? '' : 'that of ';
  const node = nodeAt(wanted, api);
  const ofPort = node === undefined || port === undefined ? [] : servicesAtNodePort(port, api);
  if (ofPort.length > 0) return refuse(`${what}, and ${port} is a node port`, ofPort);
  const pod = (api.pods ?? []).find(({metadata, status}) =>
    address === undefined ? isPodNamed(metadata, wanted) : status?.podIP === address && node === undefined,
  );
  const backed = servicesWith(wanted, api, pod?.metadata.name);
  if (pod !== undefined) return refuse(`${what}: it is ${that}pod ${namespacedName(pod.metadata)}`, backed);
  if (node !== undefined) return refuse(`${what}: it is ${that}node ${node}${checksNode(node)}`, backed);
  if (backed.length > 0) return refuse(`${what}: it is ${that}an endpoint`, backed);
  return address === undefined ? null : refuse(what);
}

function nodeAt({name, address}: WantedService, {nodes}: SelectableObjects): string | undefined {
  const isAt = ({metadata, status}: NodeObject): boolean =>
    address === undefined ? metadata.name === name : (status?.addresses ?? []).some(one => canonicalAddress(one.address ?? '') === address);
  return (nodes ?? []).find(isAt)?.metadata.name;
}

function servicesAtNodePort(port: string, {services}: SelectableObjects): readonly ServiceName[] {
  return (services ?? []).flatMap(({metadata: {namespace = 'default', name}, spec}) =>
    (spec?.ports ?? []).some(({nodePort}) => String(nodePort) === port) ? [{namespace, name}] : [],
  );
}

function isPodNamed({namespace, name = ''}: PodObject['metadata'], wanted: WantedService): boolean {
  const kind = wanted.namespace ?? '';
  if (podKinds.has(kind)) return name === wanted.name;
  // The pods of a Deployment have a hash of its template in their names, and those of others a number or a random part.
  if (workloadKinds.has(kind))
    return name.startsWith(`${wanted.name}-`) && /^[a-z\d]+(?:-[a-z\d]{5})?$/.test(name.slice(wanted.name.length + 1));
  return name === wanted.name && (wanted.namespace === undefined || namespace === wanted.namespace);
}

const podKinds: ReadonlySet<string> = new Set(['po', 'pod', 'pods']);
const nodeKinds: ReadonlySet<string> = new Set(['no', 'node', 'nodes']);
const workloadKinds: ReadonlySet<string> = new Set('deploy deployment deployments ds daemonset sts statefulset'.split(' '));

/** The Services with an endpoint at this address, or of such a pod, or with a slice of this name. Those that are named like it come first. */
function servicesWith(wanted: WantedService, {endpointSlices}: SelectableObjects, podName = wanted.name): readonly ServiceName[] {
  const found = (endpointSlices ?? []).flatMap(({metadata, endpoints}) => {
    const isOwn = (endpoints ?? []).some(({addresses, targetRef}) =>
      wanted.address === undefined
        ? targetRef?.kind === 'Pod' && isPodNamed({namespace: targetRef.namespace ?? '', name: targetRef.name ?? ''}, wanted)
        : addresses?.some(one => canonicalAddress(one) === wanted.address),
    );
    const isSlice = wanted.namespace === 'endpointslice' && metadata.name === wanted.name;
    const name = metadata.labels?.[serviceNameLabel];
    return (isOwn || isSlice) && name !== undefined ? [{namespace: metadata.namespace ?? 'default', name}] : [];
  });
  return partition(found, ({name}) => podName === name || podName.startsWith(`${name}-`)).flat();
}
