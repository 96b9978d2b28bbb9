import {endpointSet} from '../expect/cluster/endpoint-sets.ts';
import {type Endpoint, sliceService} from '../model/endpoint.ts';
import type {StateHistory} from '../model/state-history.ts';
import {namespacedName} from '../model/text.ts';
import {uniqueBy} from '../model/lists.ts';
import {diagnoseNode, type NodeSurroundings} from '../diagnosis/diagnose-node.ts';
import type {PortEntry} from '../expect/cluster/cluster-view.ts';
import {nodeFacts} from '../expect/read-node-facts.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {PortTrace} from '../model/service-trace.ts';
import type {NodeDump} from '../model/snapshot.ts';

/** What is known of a node before its counters are read: its mode, and the shares that its rules give to endpoints. */
export interface NodeSurvey {
  readonly name: string;
  readonly status: 'checked' | 'unread' | 'unsupported';
  readonly reason?: string;
  readonly mode: string | null;
  /** The 36 of kube-proxy 1.36; left out where the node was not checked. */
  readonly kubeProxyMinor?: number;
  /** The addresses that the node answers on: node ports. */
  readonly addresses: readonly string[];
  readonly ports: readonly SurveyedPort[];
}

export interface SurveyedPort extends PortEntry {
  /** Of one Service port in one family, the same on every node. */
  readonly key: string;
  /** The share of new connections to the cluster IP that the node's rules give an endpoint, by `ip:port`; null if unknown. */
  readonly shares: ReadonlyMap<string, number> | null;
  /** The share that kube-proxy should give an endpoint; null if unknown. */
  readonly due: ReadonlyMap<string, number> | null;
  /** Each new connection is assigned to an endpoint at random, independently of earlier ones. */
  readonly isRandom: boolean;
}

/** The shares that a node's rules give to endpoints. `options.trace` has to be set. */
export function surveyNode(node: NodeDump, surroundings: NodeSurroundings): NodeSurvey {
  const {report, proxy, traces} = diagnoseNode(node, surroundings);
  const mode = report.proxyMode ?? null;
  if (mode === 'cilium') return {...unreadSurvey(node.name, uncounted), status: 'unsupported'};
  const asked = new Set(surroundings.services);
  const entries = proxy === null ? [] : report.families.flatMap(family => surroundings.view.entries(family, proxy));
  const ports = entries
    .filter(({port}) => asked.has(port.object))
    .map((entry): SurveyedPort => {
      const isRandom = (mode === 'iptables' || mode === 'nftables') && entry.port.affinitySeconds === null;
      return {...entry, key: portKey(entry.port), ...sharesOf(entry.port, traces), isRandom};
    });
  const {addresses} = nodeFacts(node, surroundings.api);
  return {
    name: node.name,
    status: report.status,
    mode,
    addresses,
    ports,
    kubeProxyMinor: proxy?.version.minor,
    reason: report.reason,
  };
}

export const uncounted = 'Cilium serves its Services, and its map counts no connections';

/** A node that could not be read. */
export function unreadSurvey(name: string, reason: string): NodeSurvey {
  return {name, status: 'unread', reason, mode: null, addresses: [], ports: []};
}

function portKey({servicePortName, protocol, family}: ServicePort): string {
  return `${servicePortName} ${protocol} ${family}`;
}

function sharesOf(port: ServicePort, traces: readonly PortTrace[]): Pick<SurveyedPort, 'shares' | 'due'> {
  const trace = traces.find(
    ({family, service, port: {name, protocol, port: number}}) =>
      family === port.family &&
      service.namespace === port.namespace &&
      service.name === port.service &&
      name === port.portName &&
      protocol === port.protocol &&
      number === port.port,
  );
  const entry = trace?.entries.find(({entry: {kind}}) => kind === 'clusterIP');
  const of = (key: 'share' | 'expectedShare'): ReadonlyMap<string, number> | null =>
    entry === undefined
      ? null
      : new Map(entry.endpoints.flatMap(({hostPort, [key]: share}) => (share === null ? [] : [[hostPort, share] as const])));
  return {shares: of('share'), due: of('expectedShare')};
}

/**
 * What a node is to give to whom, with the endpoints that a Service port had until shortly before: kube-proxy may still send them new
 * connections, and these are not stale. They count as terminating. `since`: how long back, in milliseconds since 1970.
 */
export function withLeavingEndpoints(survey: NodeSurvey, {changes}: StateHistory, since: number): NodeSurvey {
  const former = changes.flatMap(({kind, at, before}) => (kind === 'EndpointSlice' && at >= since && before !== null ? [before] : []));
  const minor = survey.kubeProxyMinor;
  if (former.length === 0 || minor === undefined) return survey;
  const leaving = ({port, set}: SurveyedPort): readonly Endpoint[] => {
    const own = former.filter(slice => sliceService(slice) === namespacedName({namespace: port.namespace, name: port.service}));
    const usable = own.flatMap(slice => endpointSet(port, [slice], {text: `1.${minor}`, minor, patch: null}).endpoints).filter(isUsable);
    const still = new Set(set.endpoints.filter(isUsable).map(({hostPort}) => hostPort));
    return uniqueBy(usable, ({hostPort}) => hostPort).filter(({hostPort}) => !still.has(hostPort));
  };
  return {
    ...survey,
    ports: survey.ports.map(surveyed => {
      const gone = leaving(surveyed).map(endpoint => ({...endpoint, ready: false, serving: true, terminating: true}));
      if (gone.length === 0) return surveyed;
      const names = new Set(gone.map(({hostPort}) => hostPort));
      const endpoints = [...surveyed.set.endpoints.filter(({hostPort}) => !names.has(hostPort)), ...gone];
      return {...surveyed, set: {...surveyed.set, endpoints}};
    }),
  };
}

function isUsable({ready, serving, terminating}: Endpoint): boolean {
  return ready || (terminating && serving);
}
