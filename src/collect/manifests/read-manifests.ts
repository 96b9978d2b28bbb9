import {readdirSync, statSync} from 'node:fs';
import {join} from 'node:path';
import {loadAll, YAMLException} from 'js-yaml';
import {parseAddress, parseCidr} from '../../model/address.ts';
import type {EndpointSliceObject, NodeObject, ServiceObject, ServiceSpec} from '../../model/api-objects.ts';
import {errorText, isDnsLabel} from '../../model/text.ts';
import {type Shape, whyUnusable, shapes} from '../objects/api-shapes.ts';
import {readTextFile} from '../text-file.ts';

/** API objects from files, in the form that `kubectl apply -f` accepts. */
interface Manifests {
  readonly services: readonly ServiceObject[];
  readonly endpointSlices: readonly EndpointSliceObject[];
  readonly nodes: readonly NodeObject[];
  /** Kinds that do not affect kube-proxy's rules, without duplicates. */
  readonly ignored: readonly string[];
}

/** A manifest that cannot be used; the message names the file and the reason. */
export class UnreadableManifest extends Error {}

/**
 * Reads YAML or JSON, including several documents and Lists; `-` is standard input, and a directory stands for the manifests in it. Throws
 * an UnreadableManifest, also if nothing in the files is of a kind that kube-proxy reads.
 */
export function readManifests(files: readonly string[], namespace: string): Manifests {
  const objects = files.flatMap(filesOf).flatMap(file => documentsOf(file).map(object => ({file, object: inNamespace(object, namespace)})));
  const kinds = [...new Set(objects.map(({object}) => kindOf(object)))];
  if (!kinds.some(kind => kind in usedKinds))
    throw new UnreadableManifest(`no Service, EndpointSlice or Node in ${files.join(', ')}: only ${kinds.join(', ')}`);
  const ofKind = (kind: string) => objects.filter(({object}) => kindOf(object) === kind);
  return {
    services: usable(ofKind('Service'), shapes.services, whyInvalidService),
    endpointSlices: usable(ofKind('EndpointSlice'), shapes.endpointSlices, whyInvalidSlice),
    nodes: usable(ofKind('Node'), shapes.nodes, () => null),
    ignored: kinds.filter(kind => !(kind in usedKinds)),
  };
}

/** The kinds that kube-proxy reads, and their API groups. */
const usedKinds: Readonly<Record<string, string>> = {Service: '', EndpointSlice: 'discovery.k8s.io', Node: ''};

/** `Service`, or `Service.serving.knative.dev` if it is not kube-proxy's. */
function kindOf({kind, apiVersion}: Fields): string {
  const [name, version] = [String(kind), typeof apiVersion === 'string' ? apiVersion : ''];
  const group = version.includes('/') ? version.replace(/\/.*/, '') : '';
  return version === '' || !(name in usedKinds) || usedKinds[name] === group ? name : `${name}.${group}`;
}

type Fields = Readonly<Record<string, unknown>>;

function documentsOf(file: string): readonly Fields[] {
  const documents = loadDocuments(file);
  const objects = documents.flatMap(document => {
    if (typeof document !== 'object' || document === null) return [];
    const {kind, items} = document as {readonly kind?: unknown; readonly items?: unknown};
    return typeof kind === 'string' && kind.endsWith('List') && Array.isArray(items) ? (items as readonly unknown[]) : [document];
  });
  const found = objects.filter((object): object is Fields => typeof object === 'object' && object !== null && 'kind' in object);
  if (found.length === 0) throw new UnreadableManifest(`${file} holds no API object: each has a kind`);
  return found;
}

function loadDocuments(file: string): readonly unknown[] {
  const text = manifestText(file);
  try {
    return loadAll(separated(text)) as readonly unknown[];
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    throw new UnreadableManifest(`cannot read ${file}: ${errorText(error)}`);
  }
}

/** A directory stands for the manifests in it, as in kubectl. */
function filesOf(file: string): readonly string[] {
  if (file === '-' || !statSync(file, {throwIfNoEntry: false})?.isDirectory()) return [file];
  const found = readdirSync(file).filter(name => /\.(?:json|ya?ml)$/.test(name));
  if (found.length === 0) throw new UnreadableManifest(`${file} holds no .yaml, .yml or .json file`);
  return found.toSorted().map(name => join(file, name));
}

/** JSON objects one after the other, as jq prints them, are documents too. */
function separated(text: string): string {
  return text.trimStart().startsWith('{') ? text.replaceAll(/\}[ \t]*\n\s*(?=\{)/g, '}\n---\n') : text;
}

function manifestText(file: string): string {
  try {
    return readTextFile(file);
  } catch (error) {
    throw new UnreadableManifest(`cannot read ${file}: ${errorText(error)}`);
  }
}

/** Nodes have no namespace. */
function inNamespace(object: Fields, namespace: string): Fields {
  const metadata = object['metadata'];
  if (object['kind'] === 'Node' || typeof metadata !== 'object' || metadata === null) return object;
  return {...object, metadata: {namespace, ...metadata}};
}

interface ManifestObject {
  readonly file: string;
  readonly object: Fields;
}

/** The objects, if each has a name and the shape, and the API server would not refuse it. */
function usable<T>(objects: readonly ManifestObject[], shape: Shape, whyInvalid: (object: T) => string | null): readonly T[] {
  return objects.map(({file, object}) => {
    const why = whyUnusable(object, shape) ?? whyInvalid(object as T);
    if (why !== null) throw new UnreadableManifest(`${file}: ${nameOf(object)}: ${why}`);
    return object as T;
  });
}

function nameOf({kind, metadata}: Fields): string {
  const {namespace, name} = (metadata ?? {}) as Fields;
  return `${String(kind)}${typeof name === 'string' ? ` ${kind === 'Node' ? '' : `${String(namespace)}/`}${name}` : ''}`;
}

type ServicePort = NonNullable<ServiceSpec['ports']>[number];

/**
 * Why the API server would refuse the Service, as far as kube-proxy's rules depend on it; null if it would not. Follows ValidateService.
 * What depends on the Service that is there is not told here: `preview/manifests/add-manifests.ts`.
 */
function whyInvalidService({metadata, spec = {}, status}: ServiceObject): string | null {
  const {type = 'ClusterIP', clusterIP} = spec;
  const [clusterIPs, ports] = [spec.clusterIPs ?? [], spec.ports ?? []];
  const isHeadless = [clusterIP, ...clusterIPs].includes('None');
  const ingress = (status?.loadBalancer?.ingress ?? []).flatMap(({ip}) => ip ?? []);
  return (
    notLabel('metadata.name', metadata.name) ??
    notLabel('metadata.namespace', metadata.namespace ?? 'default') ??
    notOneOf('spec.type', type, ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName']) ??
    (ports.length === 0 && type !== 'ExternalName' && !isHeadless ? 'spec.ports has no port' : null) ??
    (isHeadless && (type === 'NodePort' || type === 'LoadBalancer') ? `spec.clusterIP cannot be None if type is ${type}` : null) ??
    notAddress(
      'spec.clusterIP',
      [clusterIP ?? '', ...clusterIPs].filter(text => text !== '' && text !== 'None'),
    ) ??
    otherAddresses(spec) ??
    notAddress('spec.externalIPs', spec.externalIPs ?? []) ??
    notAddress('status.loadBalancer.ingress', ingress) ??
    invalidRanges(spec.loadBalancerSourceRanges ?? [], type) ??
    notOneOf('spec.externalTrafficPolicy', spec.externalTrafficPolicy, ['Cluster', 'Local']) ??
    notOneOf('spec.internalTrafficPolicy', spec.internalTrafficPolicy, ['Cluster', 'Local']) ??
    invalidAffinity(spec) ??
    invalidPort(ports)
  );
}

/** The same of an EndpointSlice. Follows ValidateEndpointSlice. */
function whyInvalidSlice({addressType, endpoints}: EndpointSliceObject): string | null {
  if (!['IPv4', 'IPv6', 'FQDN'].includes(String(addressType)))
    return `addressType is ${addressType === undefined ? 'missing' : `"${addressType}"`}: it must be IPv4, IPv6 or FQDN`;
  if (addressType === 'FQDN') return null;
  const wrong = (endpoints ?? []).flatMap(({addresses}) => addresses ?? []).find(text => parseAddress(text)?.family !== addressType);
  return wrong === undefined ? null : `endpoints: "${wrong}" is not an ${addressType} address`;
}

/** Names of Services and ports are DNS labels. */
function notLabel(field: string, text: string): string | null {
  return isDnsLabel(text) ? null : `${field} "${text}" is not a DNS label: up to 63 lower case letters, digits and -`;
}

function notOneOf(field: string, text: string | undefined, allowed: readonly string[]): string | null {
  return text === undefined || allowed.includes(text) ? null : `${field} is "${text}": it must be one of ${allowed.join(', ')}`;
}

/** `ValidateServiceClusterIPsRelatedFields`. */
function otherAddresses({clusterIP = '', clusterIPs, ipFamilies, ipFamilyPolicy}: ServiceSpec): string | null {
  const [all, families] = [clusterIPs ?? [], ipFamilies ?? []];
  const [first] = all;
  if (first !== undefined && clusterIP === '') return 'spec.clusterIPs needs spec.clusterIP';
  if (first !== undefined && first !== clusterIP) return `spec.clusterIPs[0] is ${first} and spec.clusterIP is ${clusterIP}`;
  const found = all.map(text => parseAddress(text)?.family ?? text);
  if (new Set(found).size < found.length || found.length > 2) return 'spec.clusterIPs has more than one address of a family';
  if (found.length > 1 && found.includes('None')) return 'spec.clusterIPs has None and an address';
  for (const [index, family] of families.entries()) {
    const wrong = notOneOf(`spec.ipFamilies[${index}]`, family, ['IPv4', 'IPv6']);
    if (wrong !== null) return wrong;
    if (families.indexOf(family) < index) return `spec.ipFamilies has ${family} twice`;
    const address = parseAddress(all[index] ?? (index === 0 ? clusterIP : ''));
    if (address !== null && address.family !== family)
      return `spec.ipFamilies[${index}] is ${family} and the cluster IP is ${address.text}`;
  }
  return notOneOf('spec.ipFamilyPolicy', ipFamilyPolicy, ['SingleStack', 'PreferDualStack', 'RequireDualStack']);
}

function invalidAffinity({sessionAffinity, sessionAffinityConfig}: ServiceSpec): string | null {
  const wrong = notOneOf('spec.sessionAffinity', sessionAffinity, ['None', 'ClientIP']);
  if (wrong !== null) return wrong;
  const seconds = sessionAffinityConfig?.clientIP?.timeoutSeconds;
  if (seconds === undefined) return null;
  if (sessionAffinity !== 'ClientIP') return 'spec.sessionAffinityConfig needs sessionAffinity ClientIP';
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= 86_400) return null;
  return `spec.sessionAffinityConfig.clientIP.timeoutSeconds is ${seconds}: it must be a number from 1 to 86400`;
}

function notAddress(field: string, texts: readonly string[]): string | null {
  const wrong = texts.find(text => parseAddress(text) === null);
  return wrong === undefined ? null : `${field}: "${wrong}" is not an IP address`;
}

/** kube-proxy trims them. */
function invalidRanges(texts: readonly string[], type: string): string | null {
  const wrong = texts.find(text => !text.includes('/') || parseCidr(text.trim()) === null);
  if (wrong !== undefined) return `spec.loadBalancerSourceRanges: "${wrong}" is not a CIDR`;
  return texts.length === 0 || type === 'LoadBalancer' ? null : `spec.loadBalancerSourceRanges cannot be set if type is ${type}`;
}

function invalidPort(ports: readonly ServicePort[]): string | null {
  const seen = new Set<string>();
  for (const [index, {name = '', protocol = 'TCP', port, nodePort = 0}] of ports.entries()) {
    const place = `spec.ports[${index}]`;
    if (!isPort(port)) return `${place}.port is ${String(port ?? 'missing')}: it must be a number from 1 to 65535`;
    if (nodePort !== 0 && !isPort(nodePort)) return `${place}.nodePort is ${nodePort}: it must be a number from 1 to 65535`;
    if (!['TCP', 'UDP', 'SCTP'].includes(protocol)) return `${place}.protocol is "${protocol}": it must be TCP, UDP or SCTP`;
    if (name === '' && ports.length > 1) return `${place}.name is missing: each of several ports has a name`;
    const wrong = name === '' ? null : notLabel(`${place}.name`, name);
    if (wrong !== null) return wrong;
    for (const key of [`name ${name}`, `port ${port}/${protocol}`, ...(nodePort === 0 ? [] : [`node port ${nodePort}/${protocol}`])]) {
      if (seen.has(key)) return `${place} has the ${key} of another port`;
      seen.add(key);
    }
  }
  return null;
}

function isPort(value: number | undefined): boolean {
  return value !== undefined && Number.isInteger(value) && value >= 1 && value <= 65_535;
}
