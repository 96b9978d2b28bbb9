import {serviceKey, type PortEntry} from '../../expect/cluster/cluster-view.ts';
import {
  backendBreaches,
  ciliumEndpoints,
  type CiliumNode,
  type FrontendCase,
  isHealthChecked,
  isServedHere,
  isUnspecified,
  openEndpoints,
  type PromisedFrontend,
  isPicked,
  promisedFrontends,
  typeOf,
} from '../../expect/cilium/promised-frontends.ts';
import {headlessLabel, proxyNameLabel, type ServiceObject} from '../../model/api-objects.ts';
import {canonicalAddress, type Family} from '../../model/address.ts';
import {pushTo} from '../../model/lists.ts';
import {entryText, type ServicePort} from '../../model/service-port.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName, someOf} from '../../model/text.ts';
import {type AgentFrontend, usedBackends} from '../../parse/cilium/agent-table.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import type {Symptom, SymptomKind} from '../symptoms/symptom.ts';

/** A Service port with the frontends that it should have, and those of them that the agent has. */
export interface ComparedPort extends FrontendCase {
  /** Endpoints whose state is open. */
  readonly open: ReadonlySet<string>;
  readonly promised: readonly PromisedFrontend[];
  readonly found: readonly FoundFrontend[];
}

export function comparedPort(entry: PortEntry, node: CiliumNode, table: AgentTable): ComparedPort {
  const {port} = entry;
  const slices = node.view.slicesOf(serviceKey(port), node.proxy);
  const promised = promisedFrontends(port, node);
  const found = promised.flatMap(frontend => {
    const own = table.get(frontend.key);
    return own !== undefined && own.namespace === port.namespace && own.service === port.service ? [{frontend, own}] : [];
  });
  return {port, node, open: openEndpoints(entry, slices), endpoints: ciliumEndpoints(entry, node, slices), promised, found};
}

/** Of a Service port, or of a node in one family. */
export function ciliumSymptom(kind: SymptomKind, of: ServicePort | Family, more: Partial<Symptom> & Pick<Symptom, 'detail'>): Symptom {
  const [family, port] = typeof of === 'string' ? [of, null] : [of.family, of];
  return {kind, family, port, expected: [], actual: [], by: 'cilium', ...more};
}

type AgentTable = ReadonlyMap<string, AgentFrontend>;

/** What the agent's table has otherwise than the API promises, of the ports of one Service in one family. */
export function serviceSymptoms(ports: readonly ComparedPort[], table: AgentTable, served: () => ReadonlySet<string>): readonly Symptom[] {
  const refused = refusedService(ports, table, served);
  return refused === null ? ports.flatMap(portSymptoms) : [refused];
}

/** The agent takes nothing of a Service of which one address already belongs to another. */
function refusedService(ports: readonly ComparedPort[], table: AgentTable, served: () => ReadonlySet<string>): Symptom | null {
  const [first] = ports;
  if (first === undefined || ports.some(({found}) => found.length > 0)) return null;
  if (served().has(serviceKey(first.port))) return null;
  const [owner] = ports.flatMap(({promised}) => promised.flatMap(({key}) => table.get(key) ?? []));
  if (owner === undefined) return null;
  const {namespace, service: name, object} = first.port;
  // Whatever the family of the address, nothing is served in either.
  const family = (object.spec?.clusterIPs ?? []).length > 1 ? 'IPv4' : first.port.family;
  const detail = `${serviceKey(first.port)}: the agent refuses the whole Service, because ${owner.key} already belongs to ${serviceKey(owner)}: none of its addresses is served`;
  return {...ciliumSymptom('service-refused', first.port, {detail, family, service: {namespace, name}}), port: null};
}

function portSymptoms(compared: ComparedPort): readonly Symptom[] {
  const {port, promised, found} = compared;
  const policy = policySymptoms(compared);
  if (policy.length > 0) return policy;
  const [other] = found.filter(({own}) => !isOfKind(own, port));
  if (other !== undefined) {
    const {entry} = other.frontend;
    const has = `has ${entryText(entry)} as one of type ${other.own.type}`;
    const texts = {detail: `the agent ${has}`, gist: `the Cilium agent ${has}`};
    return [ciliumSymptom('missing-entry', port, {...texts, entry, severity: 'warning'})];
  }
  const missing =
    found.length === promised.length
      ? []
      : promised.filter(one => (!one.isOptional || one.isBeside) && !found.some(({frontend}) => frontend === one));
  if (found.length === 0 && missing.some(({isOptional}) => !isOptional))
    return [ciliumSymptom('service-not-programmed', port, {detail: 'not programmed on this node: the agent does not have it'})];
  return [...missingEntries(port, missing), ...backendSymptoms(compared)];
}

/** By its type the agent knows who may use a frontend, and from where. An address can be that of a load balancer, and external, too. */
function isOfKind({type, address}: AgentFrontend, {clusterIP, loadBalancerVIPs, externalIPs}: ServicePort): boolean {
  if (type === typeOf.clusterIP) return address === clusterIP;
  if (type === typeOf.nodePort) return isUnspecified(address);
  if (type === typeOf.loadBalancerIP) return loadBalancerVIPs.includes(address);
  return type !== typeOf.externalIP || externalIPs.includes(address);
}

interface FoundFrontend {
  readonly frontend: PromisedFrontend;
  readonly own: AgentFrontend;
}

/** An agent that has another policy than the API misses a change of the Service: what follows from it is no finding of its own. */
function policySymptoms(compared: ComparedPort): readonly Symptom[] {
  const {externalTrafficPolicy = 'Cluster', internalTrafficPolicy = 'Cluster'} = compared.port.object.spec ?? {};
  const {found} = compared;
  const [other] = found.filter(
    ({own}) => own.isExternalLocal !== (externalTrafficPolicy === 'Local') || own.isInternalLocal !== (internalTrafficPolicy === 'Local'),
  );
  if (other === undefined) return [];
  const named = (isLocal: boolean): string => (isLocal ? 'Local' : 'Cluster');
  const detail = `the agent has externalTrafficPolicy ${named(other.own.isExternalLocal)} and internalTrafficPolicy ${named(other.own.isInternalLocal)}, the API ${externalTrafficPolicy} and ${internalTrafficPolicy}`;
  const isBroken = found.some(({frontend, own}) => backendBreaches(compared, frontend, own.backends).length > 0);
  const gist = 'the Cilium agent has another traffic policy than the API';
  return [ciliumSymptom('traffic-policy-mismatch', compared.port, {detail, severity: isBroken ? 'error' : 'warning', gist})];
}

/** Both scopes of an address are one entry. */
function missingEntries(port: ServicePort, missing: readonly PromisedFrontend[]): readonly Symptom[] {
  const byEntry = Map.groupBy(missing, ({entry}) => entryText(entry));
  return [...byEntry].flatMap(([text, frontends]) => {
    const [first] = frontends;
    const isInside = frontends.every(({isInternal}) => isInternal);
    const detail = `the agent does not have ${text}${isInside ? ' for clients inside the cluster (scope internal)' : ''}`;
    const gist = isInside ? {gist: `${text} is not programmed by the Cilium agent for clients inside the cluster`} : {};
    if (first === undefined) return [];
    const entry = {entry: first.entry, ...gist};
    return first.isBeside
      ? [ciliumSymptom('missing-entry', port, {...entry, detail: `${detail}, and leaves it to kube-proxy`, severity: 'warning'})]
      : [ciliumSymptom('missing-entry', port, {...entry, detail})];
  });
}

/** One symptom for each endpoint, whatever the number of frontends that show it. */
function backendSymptoms(compared: ComparedPort): readonly Symptom[] {
  const {port, open, found} = compared;
  const faulty = found.flatMap(one => {
    const broken = backendBreaches(compared, one.frontend, one.own.backends);
    const late = readyAsTerminating(compared, one.own);
    return broken.length + late.length > 0 && isComparable(one.own, compared) ? [{one, broken, late}] : [];
  });
  if (faulty.length === 0) return [];
  const [extra, lacking] = [new Map<string, FoundFrontend[]>(), new Map<string, FoundFrontend[]>()];
  for (const {one, broken, late} of faulty) {
    for (const {kind, endpoints} of broken) {
      // Nothing is reached at all: every endpoint is missing.
      const names = kind === 'refused' ? choiceOf(compared, one.frontend) : endpoints;
      for (const name of names.filter(name => !open.has(name))) pushTo(kind === 'unwanted' ? extra : lacking, name, one);
    }
    const unwanted = new Set(broken.flatMap(({kind, endpoints}) => (kind === 'unwanted' ? endpoints : [])));
    for (const name of late) if (!unwanted.has(name) && !open.has(name)) pushTo(lacking, name, one);
  }
  const rotated = [...lacking].filter(([name, at]) => at.every(({own}) => isRotatedOut(port.object, stateOf(own, name))));
  const out = new Set(rotated.map(([name]) => name));
  const isUnserved = found.every(({own}) => usedBackends(own.backends).length === 0);
  return [
    ...[...extra].map(([name, at]) => staleSymptom(compared, name, at)),
    ...[...lacking].filter(([name]) => !out.has(name)).map(([name, at]) => missingSymptom(compared, name, at)),
    ...(out.size === 0
      ? []
      : [
          ciliumSymptom('out-of-rotation', port, {
            detail: `health checks of Cilium took ${someOf([...out])} out of rotation: no new connections go there`,
            ...(isUnserved
              ? {severity: 'warning', gist: 'connections fail, health checks of Cilium took all endpoints out of rotation'}
              : {}),
          }),
        ]),
  ];
}

/**
 * The ready endpoints that the agent has as terminating, and uses only because it has no others. One that is ready while it terminates
 * (publishNotReadyAddresses) has the state that it has for other Services.
 */
function readyAsTerminating({endpoints}: ComparedPort, {backends}: AgentFrontend): readonly string[] {
  if (backends.some(({state}) => state === 'active')) return [];
  const settled = new Set(endpoints.flatMap(one => (one.ready && !one.terminating ? one.hostPort : [])));
  return usedBackends(backends).flatMap(({hostPort}) => (settled.has(hostPort) ? hostPort : []));
}

/** The endpoints that a frontend should use, where it uses none. */
function choiceOf(compared: ComparedPort, frontend: PromisedFrontend): readonly string[] {
  const usable = compared.endpoints.filter(({ready}) => ready);
  const all = (usable.length > 0 ? usable : compared.endpoints).map(({hostPort}) => hostPort);
  const backends = all.map(hostPort => ({hostPort, protocol: compared.port.protocol, state: 'active'}));
  const unwanted = new Set(
    backendBreaches(compared, frontend, backends).flatMap(({kind, endpoints}) => (kind === 'unwanted' ? endpoints : [])),
  );
  return all.filter(name => !unwanted.has(name));
}

function isRotatedOut(service: ServiceObject, state: string | undefined): boolean {
  return state === 'quarantined' || (state === undefined && isHealthChecked(service));
}

function stateOf({backends}: AgentFrontend, name: string): string | undefined {
  return backends.find(({hostPort}) => hostPort === name)?.state;
}

/** Backends of local redirects, of proxies and of other clusters are in no EndpointSlice of this cluster. */
export function isComparable(own: AgentFrontend, {port, node}: ComparedPort): boolean {
  const isProxied = node.state.map.get(own.key)?.flags.includes('l7-load-balancer') === true;
  return own.type !== 'LocalRedirect' && !isProxied && !isGlobal(port.object);
}

export function isGlobal({metadata: {annotations}}: ServiceObject): boolean {
  return ['service.cilium.io/global', 'io.cilium/global-service'].some(name => annotations?.[name] === 'true');
}

function staleSymptom(compared: ComparedPort, name: string, at: readonly FoundFrontend[]): Symptom {
  const {port, endpoints} = compared;
  const known = endpoints.find(({hostPort}) => hostPort === name);
  const others = endpoints.filter(({address, hostPort}) => hostPort !== name && address === splitHostPort(name).address);
  const why =
    known !== undefined
      ? known.ready
        ? 'which is on another node: the traffic policy is Local'
        : known.terminating
          ? 'which is terminating'
          : 'which is not ready'
      : others.length > 0
        ? `which no EndpointSlice has: there it is ${someOf(others.map(({hostPort}) => hostPort))}`
        : 'which no EndpointSlice has';
  const kind = known?.ready === true ? 'traffic-policy-mismatch' : 'stale-endpoint';
  return ciliumSymptom(kind, port, {
    detail: `the agent still sends to ${name}, ${why}${atSome(compared, at)}`,
    ...(kind === 'stale-endpoint' ? {} : {gist: `the Cilium agent still sends to ${name}, which is on another node`}),
    endpoint: name,
    entries: at.map(({frontend}) => frontend.entry),
  });
}

function missingSymptom(compared: ComparedPort, name: string, at: readonly FoundFrontend[]): Symptom {
  const states = [...new Set(at.map(({own}) => stateOf(own, name) ?? 'missing'))].filter(state => state !== 'missing');
  const state = states.length === 0 ? 'the agent does not have it' : `for the agent it is ${states.join(' or ')}`;
  const isUsed = at.every(({own}) => readyAsTerminating(compared, own).includes(name));
  const effect = isUsed ? 'gets connections only as long as no other endpoint is active' : 'gets no traffic';
  return ciliumSymptom('missing-endpoint', compared.port, {
    detail: `${name} ${effect}: it is ready, and ${state}${atSome(compared, at)}`,
    endpoint: name,
    entries: at.map(({frontend}) => frontend.entry),
    ...(isUsed ? {severity: 'warning', variant: 'ready-as-terminating'} : {}),
  });
}

/** Names the frontends if these are not all. */
function atSome({promised}: ComparedPort, at: readonly FoundFrontend[]): string {
  const keys = at.map(({frontend}) => frontend.key);
  return promised.every(({key}) => keys.includes(key)) ? '' : ` (at ${someOf(keys)})`;
}

/** How frontends are listed that the API of this cluster does not ask for; null for one that should not be there. */
export function kindApart({type, service, isRemote}: AgentFrontend): string | null {
  if (type === 'LocalRedirect') return 'of a local redirect policy';
  if (isRemote) return 'of another cluster';
  if (service.endsWith(':healthserver')) return 'of a health check port';
  return type === 'HostPort' ? 'of a host port' : null;
}

/** Frontends of Services that the API does not have, one symptom for each Service, and of addresses that none of its Services has. */
export function staleFrontends(
  frontends: readonly AgentFrontend[],
  {
    family,
    api,
    node,
    ports,
  }: {readonly family: Family; readonly api: ApiObjects; readonly node: CiliumNode; readonly ports: readonly ComparedPort[]},
): readonly Symptom[] {
  const promised = new Set(ports.flatMap(({port, found}) => found.flatMap(({own}) => (isOfKind(own, port) ? own : []))));
  const own = frontends.filter(one => !promised.has(one) && kindApart(one) === null);
  if (own.length === 0) return [];
  const services = new Map((api.services ?? []).map(service => [namespacedName(service.metadata), service]));
  const byService = Map.groupBy(own, ({namespace, service}) => `${namespace}/${service}`);
  return [...byService].flatMap(([key, all]) => {
    const object = services.get(key);
    const isOthers = object?.metadata.labels?.[proxyNameLabel] !== undefined && node.state.settings.proxyName === '';
    const isElsewhere = object !== undefined && isServedHere(object, node) === false;
    const stale = object === undefined || isOthers || isElsewhere ? all : all.filter(one => !isAddressOf(one, object));
    const [first] = stale;
    if (first === undefined) return [];
    const name = {namespace: first.namespace, name: first.service};
    const keys = someOf(stale.map(({key}) => key));
    const why =
      object === undefined
        ? ': the API has no such Service (any more)'
        : isOthers
          ? `: its label ${proxyNameLabel} gives it to another proxy`
          : isElsewhere
            ? ': its annotations leave this node out'
            : ', which the Service does not have in the API (any more)';
    const detail = `the agent still serves ${key} at ${keys}${why}`;
    // A label of the node that changed has an effect when the Service changes.
    const severity = !isElsewhere && stale.some(({backends}) => usedBackends(backends).length > 0) ? 'error' : 'info';
    const some = someOf(
      stale.map(({key}) => key),
      {max: 1},
    );
    const gist =
      object === undefined
        ? 'not in the API, and the Cilium agent still serves it'
        : `the Cilium agent still serves ${some}, which the API ${isOthers || isElsewhere ? 'leaves to others' : 'no longer has'}`;
    return [ciliumSymptom('stale-service', family, {service: name, severity, detail, gist})];
  });
}

/** Whether the API has the address in any of the Service's lists, whatever Cilium takes of them. */
function isAddressOf({address, port, protocol, type}: AgentFrontend, service: ServiceObject): boolean {
  const {metadata, spec = {}, status} = service;
  if (metadata.labels?.[headlessLabel] !== undefined || spec.type === 'ExternalName' || !isPicked(type, service)) return false;
  const ports = (spec.ports ?? []).filter(one => (one.protocol ?? 'TCP') === protocol);
  if (isUnspecified(address)) return ports.some(({nodePort}) => nodePort === port);
  const ingress = (status?.loadBalancer?.ingress ?? []).map(({ip, ipMode}) => (ipMode === 'Proxy' ? '' : (ip ?? '')));
  const addresses = [spec.clusterIP ?? '', ...(spec.clusterIPs ?? []), ...(spec.externalIPs ?? []), ...ingress];
  return ports.some(one => one.port === port) && addresses.some(text => text !== '' && canonicalAddress(text) === address);
}
