import type {Address, Family} from '../../model/address.ts';
import {type EndpointSliceObject, headlessLabel, type NodeObject, type ServiceObject} from '../../model/api-objects.ts';
import type {Endpoint} from '../../model/endpoint.ts';
import {uniqueBy} from '../../model/lists.ts';
import {matchesRequirement, selectorParts} from '../../model/label-selector.ts';
import type {ProxyVersion} from '../../model/proxy-config.ts';
import type {Entry, ServicePort} from '../../model/service-port.ts';
import {type AgentBackend, frontendKey, usedBackends} from '../../parse/cilium/agent-table.ts';
import type {ClusterView, PortEntry} from '../cluster/cluster-view.ts';
import {endpointSet} from '../cluster/endpoint-sets.ts';
import {type Allowed, allows, type Breach, breaches, type PromiseInput} from '../cluster/promised.ts';
import type {CiliumState} from './cilium-node.ts';

/** A node and its Cilium, as far as frontends depend on them. */
export interface CiliumNode {
  readonly name: string;
  readonly object: NodeObject | undefined;
  readonly addresses: readonly string[];
  readonly state: CiliumState;
  /** The agent, which does not replace kube-proxy, has load balancers: it should have all of them. */
  readonly keepsBalancers: boolean;
  readonly view: ClusterView;
  readonly proxy: ProxyVersion;
}

/** A frontend that the API asks of the agent's table. */
export interface PromisedFrontend {
  readonly key: string;
  readonly entry: Entry;
  readonly isInternal: boolean;
  /** It may be missing as well: that depends on what was not read, or changed between patches. */
  readonly isOptional: boolean;
  /** The agent should have it, and kube-proxy serves it as well. */
  readonly isBeside: boolean;
}

/** Which frontends a Service port has in the table of an agent. Follows `convertService` of Cilium 1.18. */
export function promisedFrontends(port: ServicePort, node: CiliumNode): readonly PromisedFrontend[] {
  const served = isServedHere(port.object, node);
  if (served === false || port.object.metadata.labels?.[headlessLabel] !== undefined) return [];
  const {replacesKubeProxy, nodePorts} = node.state.settings;
  const at = (kind: Entry['kind'], addresses: readonly string[]): readonly Entry[] =>
    addresses.map(address => ({kind, address, port: port.port}));
  const entries: readonly Entry[] = [
    ...at('clusterIP', [port.clusterIP]),
    ...at('loadBalancerIP', port.loadBalancerVIPs),
    ...at('externalIP', port.externalIPs),
    ...(port.nodePort === 0 ? [] : [{kind: 'nodePort' as const, address: null, port: port.nodePort}]),
  ];
  const wanted = entries.filter(({kind}) => isServedKind(kind, port.object, node));
  // An address that is both is one frontend.
  return uniqueBy(wanted, ({address}) => address).flatMap(entry => {
    // Without replacement, what there is beside cluster IPs depends on the version and on the routing mode. The newest agents refuse
    // addresses of the node with a port for node ports.
    const isRefused = isAmong(nodePorts, entry.port) && entry.address !== null && node.addresses.includes(entry.address);
    const isOptional = served === null || isRefused || (replacesKubeProxy !== true && entry.kind !== 'clusterIP');
    const isBeside = node.keepsBalancers && served === true && !isRefused && entry.kind === 'loadBalancerIP';
    const scopes = hasTwoScopes(port, entry) ? [false, true] : [false];
    return scopes.map(isInternal => {
      const isOpen = isInternal && port.object.metadata.annotations?.['service.cilium.io/scope'] !== undefined;
      return {
        entry,
        isInternal,
        key: frontendKey(entry.address ?? unspecified[port.family], {port: entry.port, protocol: port.protocol, isInternal}),
        isOptional: isOptional || isOpen,
        isBeside: isBeside && !isOpen,
      };
    });
  });
}

export const unspecified: Readonly<Record<Family, string>> = {IPv4: '0.0.0.0', IPv6: '::'};

export function isUnspecified(address: string): boolean {
  return address === unspecified.IPv4 || address === unspecified.IPv6;
}

export function isAmong([first, last]: readonly [number, number], port: number): boolean {
  return port >= first && port <= last;
}

function isServedKind(kind: Entry['kind'], service: ServiceObject, {state: {settings}}: CiliumNode): boolean {
  if (kind === 'externalIP') return settings.hasExternalIPs;
  return isPicked(typeOf[kind], service) && (kind !== 'nodePort' || settings.replacesKubeProxy !== false);
}

/** How the agent calls a kind of frontend. */
export const typeOf = {
  clusterIP: 'ClusterIP',
  nodePort: 'NodePort',
  loadBalancerIP: 'LoadBalancer',
  externalIP: 'ExternalIPs',
} as const satisfies Record<Entry['kind'], string>;

/** Whether a Service is served at frontends of this type, of which an annotation may choose one; it does not concern external IPs. */
export function isPicked(type: string, {metadata: {annotations}}: ServiceObject): boolean {
  const only = annotations?.['service.cilium.io/type'] ?? '';
  return !kinds.has(only) || !kinds.has(type) || only === type;
}

const kinds: ReadonlySet<string> = new Set([typeOf.clusterIP, typeOf.nodePort, typeOf.loadBalancerIP]);

/** Clients inside the cluster get a frontend of their own where only one of the two policies is Local. */
function hasTwoScopes({externalPolicyLocal, internalPolicyLocal}: ServicePort, {kind}: Entry): boolean {
  return (kind === 'nodePort' || kind === 'loadBalancerIP') && externalPolicyLocal !== internalPolicyLocal;
}

/** Whether a Service is served on this node by its annotations; null if that is not known. */
export function isServedHere({metadata}: ServiceObject, {object}: CiliumNode): boolean | null {
  const {annotations} = metadata;
  const selector = annotations?.['service.cilium.io/node-selector'];
  const name = annotations?.['service.cilium.io/node'];
  if (selector === undefined && name === undefined) return true;
  const labels = object?.metadata.labels;
  if (labels === undefined) return null;
  return selector === undefined ? labels['service.cilium.io/node'] === name : isSelected(selector, labels);
}

/** The endpoints of a Service port as this Cilium reads them, with the conditions that it takes them for. */
export function ciliumEndpoints(
  {port, set}: PortEntry,
  {name, state, proxy}: CiliumNode,
  given: readonly EndpointSliceObject[],
): readonly Endpoint[] {
  // A name matches a port without one, on either side.
  const isOther = (other: string): boolean => other !== port.portName && (port.portName === '' || other === '');
  const slices = given.map(asCiliumReads);
  const isPlain = slices.every((slice, index) => slice === given[index] && !(slice.ports ?? []).some(one => isOther(one.name ?? '')));
  const names = isPlain ? [] : [...new Set(slices.flatMap(({ports}) => (ports ?? []).map(one => one.name ?? '')))];
  const more = names
    .filter(one => one === port.portName || isOther(one))
    .flatMap(one => endpointSet({...port, portName: one}, slices, proxy.version).endpoints);
  const all = more.length === 0 ? set.endpoints : uniqueBy([...more, ...set.endpoints], ({hostPort}) => hostPort);
  const keepsHints = hasTopology(port.object, state);
  return all
    .filter(({hostPort}) => hostPort !== ingressPlaceholder)
    .map(endpoint => {
      // Without a value, an endpoint serves if it is ready.
      const serving = endpoint.sliceEndpoint.conditions?.serving ?? endpoint.ready;
      const {zoneHints, nodeHints, nodeName} = endpoint;
      const hasHints = zoneHints !== null || nodeHints !== null;
      if (endpoint.ready && serving === endpoint.serving && nodeName !== null && (keepsHints || !hasHints)) return endpoint;
      return {
        ...endpoint,
        serving,
        nodeName: endpoint.nodeName ?? name,
        // Up to 1.18 an endpoint that serves without being ready, and does not end, is a usable one.
        ready: endpoint.ready || (state.version.major === 1 && state.version.minor < 19 && serving && !endpoint.terminating),
        zoneHints: keepsHints ? endpoint.zoneHints : null,
        nodeHints: keepsHints ? endpoint.nodeHints : null,
      };
    });
}

/** Cilium takes all addresses of an endpoint, and kube-proxy the first; and a port without a name, which kube-proxy leaves out, has the empty one. */
function asCiliumReads(slice: EndpointSliceObject): EndpointSliceObject {
  const {endpoints, ports} = slice;
  const isUsual = (endpoints ?? []).every(({addresses}) => (addresses ?? []).length < 2) && (ports ?? []).every(({name}) => name != null);
  if (isUsual) return slice;
  const each = (endpoints ?? []).flatMap(endpoint => (endpoint.addresses ?? []).map(address => ({...endpoint, addresses: [address]})));
  return {...slice, endpoints: each, ports: (ports ?? []).map(port => ({...port, name: port.name ?? ''}))};
}

/**
 * Endpoints, by `ip:port`, whose state is open: those that the API has twice with different content, and those that only the newest agents
 * leave out, by the weight 0 of their slice.
 */
export function openEndpoints({set}: PortEntry, slices: readonly EndpointSliceObject[]): ReadonlySet<string> {
  const weightless = new Set(
    slices.flatMap(({metadata}) => (metadata.annotations?.['service.cilium.io/weight'] === '0' ? [metadata.name] : [])),
  );
  const without = weightless.size === 0 ? [] : set.endpoints.filter(({slice}) => weightless.has(slice));
  return new Set([...set.ambiguous.keys(), ...without.map(({hostPort}) => hostPort)]);
}

/** The endpoint that Cilium's Ingress and Gateway put into their Services. */
export const ingressPlaceholder = '192.192.192.192:9999';

/** Hints count only where a setting says so, and the Service asks for it. */
function hasTopology({metadata, spec}: ServiceObject, {settings}: CiliumState): boolean {
  if (settings.usesTopology === false) return false;
  const {annotations} = metadata;
  const asked =
    annotations?.['service.kubernetes.io/topology-mode'] ?? annotations?.['service.kubernetes.io/topology-aware-hints'] ?? 'disabled';
  return asked.toLowerCase() !== 'disabled' || spec?.trafficDistribution !== undefined;
}

/** Only some builds of Cilium check the health of backends: those that were not probed yet are left out. */
export function isHealthChecked({metadata: {annotations}}: ServiceObject): boolean {
  return Object.keys(annotations ?? {}).some(name => name.startsWith('service.cilium.io/health-check'));
}

export interface FrontendCase {
  readonly port: ServicePort;
  readonly endpoints: readonly Endpoint[];
  readonly node: CiliumNode;
}

/** The sets of endpoints, by `ip:port`, of which a frontend may have each. */
export function allowedBackends(given: FrontendCase, frontend: PromisedFrontend): readonly ReadonlySet<string>[] {
  return allowedAt(given, frontend)?.choices ?? [];
}

/** How the backends that a frontend uses break what the API promises of it. */
export function backendBreaches(given: FrontendCase, frontend: PromisedFrontend, backends: readonly AgentBackend[]): readonly Breach[] {
  const promised = allowedAt(given, frontend);
  if (promised === null) return [];
  const used = usedBackends(backends);
  const names = used.map(({hostPort, protocol}) => (protocol === given.port.protocol ? hostPort : `${hostPort}/${protocol}`));
  const isAll = (choice: ReadonlySet<string>): boolean => choice.size === names.length && names.every(name => choice.has(name));
  if (promised.choices.some(isAll) && new Set(names).size === names.length) return [];
  // How the source is rewritten is Cilium's matter, and in no table.
  const destinations = new Map(names.map(name => [name, {masquerade: true}]));
  const seen = {destinations, passed: 0, rejected: used.length === 0 ? 1 : 0, dropped: 0, undecided: 0};
  return breaches({...promised, keepsSource: false}, seen);
}

/** Any of them will do: ranges are compared by themselves. */
const clients: Readonly<Record<Family, Address>> = {
  IPv4: {family: 'IPv4', value: 0xc000_0201n, text: '192.0.2.1'},
  IPv6: {family: 'IPv6', value: (0x2001_0db8n << 96n) | 1n, text: '2001:db8::1'},
};

function allowedAt({port, endpoints, node}: FrontendCase, {entry, isInternal}: PromisedFrontend): Allowed | null {
  const source = clients[port.family];
  const input = promiseInput(port, endpoints, node);
  // Source ranges are compared by themselves, and without them the addresses of load balancers are promised what external IPs are.
  const promised =
    isInternal || entry.kind === 'clusterIP'
      ? allows(input, 'pod', {kind: 'clusterIP', source})
      : allows(input, 'outside', {kind: 'externalIP', source});
  return promised === null ? null : withHints(promised, input);
}

function promiseInput(port: ServicePort, endpoints: readonly Endpoint[], {name, object, addresses}: CiliumNode): PromiseInput {
  const zone = object?.metadata.labels?.['topology.kubernetes.io/zone'] ?? null;
  return {port, endpoints, node: {name, zone, addresses}};
}

/** Cilium follows hints also among the endpoints of this node. */
function withHints(promised: Allowed, {endpoints, node}: PromiseInput): Allowed {
  const hinted = endpoints.filter(
    ({zoneHints, nodeHints}) => (node.zone !== null && zoneHints?.includes(node.zone)) || nodeHints?.includes(node.name),
  );
  if (hinted.length === 0) return promised;
  const names = new Set(hinted.map(({hostPort}) => hostPort));
  const narrowed = promised.choices.map(choice => new Set([...choice].filter(name => names.has(name)))).filter(({size}) => size > 0);
  return {...promised, choices: [...promised.choices, ...narrowed]};
}

/** Whether labels match the selector in an annotation; null for a form that is not known. */
function isSelected(selector: string, labels: Readonly<Record<string, string>>): boolean | null {
  const parts = selectorParts(selector).filter(({part}) => part !== '');
  if (parts.some(({requirement}) => requirement !== null && !matchesRequirement(labels, requirement))) return false;
  return parts.some(({requirement}) => requirement === null) ? null : true;
}
