import {append} from '../model/lists.ts';
import {once} from '../model/once.ts';
import type {PortEntry} from '../expect/cluster/cluster-view.ts';
import type {EndpointSliceObject, PodObject} from '../model/api-objects.ts';
import {type Endpoint, podOf} from '../model/endpoint.ts';
import {areOlder, type Finding, isMissedChange, type Since} from '../model/finding.ts';
import {affectsAllServices} from '../model/report.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {namespacedName} from '../model/text.ts';

interface NodeAgainstApi {
  readonly api: ApiObjects;
  /** The Service ports that the node was compared with. */
  readonly ports: () => readonly PortEntry[];
  /** When kube-proxy says that it last updated the rules, in milliseconds since 1970; null if it did not say. */
  readonly lastUpdated: () => number | null;
}

/**
 * Adds to the findings of a node whose rules are older than the API when they stopped following it: after the newest change that they have,
 * and before the oldest that they lack. A deletion has no time in the API. Nothing is added where these contradict each other: then kube-proxy
 * did not stop, or an object became part of a Service long after it was created.
 */
export function withSince(findings: readonly Finding[], node: NodeAgainstApi): readonly Finding[] {
  const isStuck = findings.some(({code}) => code === 'ST505');
  const missed = findings.some(({code, severity}) => severity !== 'info' && isMissedChange(code));
  // What was flushed does not show how old the rest is.
  if (!missed || findings.some(affectsAllServices) || !(isStuck || areOlder(findings))) return findings;
  const since = sinceOf(findings, node);
  if (since === null) return findings;
  return findings.map(finding => (finding.code === 'ST505' || isMissedChange(finding.code) ? {...finding, since} : finding));
}

function sinceOf(findings: readonly Finding[], {api, ports, lastUpdated}: NodeAgainstApi): Since | null {
  const loud = findings.filter(({severity, service}) => severity !== 'info' && service !== undefined);
  const differing = new Set(loud.map(({service}) => (service === undefined ? '' : namespacedName(service))));
  const lacking = Map.groupBy(loud, ({service, port}) => portKey(service?.namespace, service?.name, port?.name));
  const stale = new Set(loud.flatMap(({code, service}) => (code === 'ST205' && service !== undefined ? [namespacedName(service)] : [])));
  const times = timesOf(api);
  const updated = lastUpdated();
  const has = updated === null ? [] : [updated];
  const lacks: number[] = [];
  for (const entry of ports()) {
    const {namespace, service, portName} = entry.port;
    const name = `${namespace}/${service}`;
    if (!differing.has(name)) append(has, appliedTimes(entry, times));
    const own = [
      ...(lacking.get(portKey(namespace, service, portName)) ?? []),
      ...(lacking.get(portKey(namespace, service, undefined)) ?? []),
    ];
    // A port that was renamed or given another number is as new as that change.
    const isOther = stale.has(name);
    append(
      lacks,
      own.filter(({code}) => code !== 'ST201' || !isOther).flatMap(finding => lackedTime(finding, entry, times) ?? []),
    );
  }
  const [after, before] = [latest(has), earliest(lacks)];
  if ((after === null && before === null) || (after !== null && before !== null && after >= before)) return null;
  return {after: after === null ? undefined : rfc3339(after), before: before === null ? undefined : rfc3339(before)};
}

function portKey(namespace = '', service = '', port = ''): string {
  return `${namespace}/${service}:${port}`;
}

/** Of a Service port in sync: rules with its cluster IP and with its endpoints were written after these were created. */
function* appliedTimes({port, set}: PortEntry, {podOf: pod}: ObjectTimes): Iterable<number> {
  // Which endpoints of these a node has depends on the node.
  if (port.internalPolicyLocal) return;
  const used = set.endpoints.filter(({ready, zoneHints, nodeHints}) => ready && zoneHints === null && nodeHints === null);
  if (used.length === 0) return;
  for (const created of [port.object.metadata, ...used.map(endpoint => pod(endpoint)?.metadata)]) {
    const time = timeOf(created?.creationTimestamp);
    if (time !== null) yield time;
  }
}

/** When the change was made that the rules lack: a Service or an endpoint that is ready since then, or one that no longer is. */
function lackedTime({code, endpoint: name, port: own}: Finding, entry: PortEntry, times: ObjectTimes): number | null {
  const {port, set} = entry;
  const creation = timeOf(port.object.metadata.creationTimestamp);
  const created = creation ?? 0;
  const readyAt = (endpoint: Endpoint): number | null => {
    const time = times.changeOf(endpoint, 'True');
    return time === null ? null : Math.max(time, created);
  };
  // One of several ports may have been added later.
  const isWhole = creation !== null && (own === undefined || (port.object.spec?.ports ?? []).length < 2);
  if (code === 'ST201' && isWhole) return earliest(set.endpoints.flatMap(endpoint => (endpoint.ready ? (readyAt(endpoint) ?? []) : [])));
  const endpoint = name === undefined ? undefined : endpointsOf(entry).get(name);
  if (endpoint === undefined) return null;
  if (code === 'ST202' && endpoint.ready) return readyAt(endpoint);
  return code === 'ST203' && !endpoint.ready && !endpoint.terminating ? times.changeOf(endpoint, 'False') : null;
}

/** The endpoints of a Service port, each once. A stopped kube-proxy has many findings of one port. */
export const endpointsOf = once(
  ({set}: PortEntry): ReadonlyMap<string, Endpoint> => new Map(set.endpoints.map(each => [each.hostPort, each])),
);

interface ObjectTimes {
  readonly podOf: (endpoint: Endpoint) => PodObject | undefined;
  /** When an endpoint became ready (`True`), or stopped being ready; the last change of its slice is later. Null if unknown. */
  readonly changeOf: (endpoint: Endpoint, ready: 'True' | 'False') => number | null;
}

/** Every node asks for the same. */
const timesOf = once(({pods, endpointSlices}: ApiObjects): ObjectTimes => {
  const byName = new Map((pods ?? []).map(pod => [namespacedName(pod.metadata), pod]));
  const slices = new Map((endpointSlices ?? []).map(slice => [namespacedName(slice.metadata), slice]));
  const podOfEndpoint = (endpoint: Endpoint): PodObject | undefined => byName.get(podOf(endpoint) ?? '');
  return {
    podOf: podOfEndpoint,
    changeOf: (endpoint, ready) => {
      const pod = podOfEndpoint(endpoint);
      const condition = (pod?.status?.conditions ?? []).find(({type}) => type === 'Ready');
      const times = [condition?.status === ready ? condition.lastTransitionTime : undefined, pod?.metadata.creationTimestamp];
      const ofPod = condition?.status === ready ? latest(times.flatMap(time => timeOf(time) ?? [])) : null;
      return ofPod ?? sliceTime(slices.get(namespacedName({namespace: endpoint.sliceEndpoint.targetRef?.namespace, name: endpoint.slice})));
    },
  };
});

/** When a slice was last written; null if that is not known, as where the times that it has are older than itself. */
function sliceTime(slice: EndpointSliceObject | undefined): number | null {
  const {managedFields, annotations, creationTimestamp} = slice?.metadata ?? {};
  const written = [...(managedFields ?? []).map(({time}) => time), annotations?.['endpoints.kubernetes.io/last-change-trigger-time']];
  const changed = written.flatMap(time => timeOf(time) ?? []);
  const last = latest(changed);
  return last === null || last < (timeOf(creationTimestamp) ?? 0) ? null : last;
}

function timeOf(text: string | undefined): number | null {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? null : time;
}

function latest(times: readonly number[]): number | null {
  return times.reduce<number | null>((newest, time) => (newest === null || time > newest ? time : newest), null);
}

function earliest(times: readonly number[]): number | null {
  return times.reduce<number | null>((oldest, time) => (oldest === null || time < oldest ? time : oldest), null);
}

function rfc3339(time: number): string {
  return `${new Date(Math.floor(time / 1000) * 1000).toISOString().slice(0, -5)}Z`;
}
