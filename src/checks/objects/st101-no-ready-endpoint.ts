import {someOf} from '../../model/text/some-of.ts';
import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {readsEndpoints, usesTerminatingEndpoints} from '../../expect/cluster/proxy-versions.ts';
import type {PodObject, ServiceObject} from '../../model/api-objects.ts';
import {type Endpoint, podOf} from '../../model/endpoint.ts';
import type {Observation} from '../../model/finding.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {families} from '../../model/family.ts';
import type {Check, ClusterContext} from '../check.ts';
import {askedEntries, unusualEntries} from './port-entries.ts';
import {nameOf, ofPort} from '../service-observation.ts';
import {isNamedInSlices} from './st102-port-without-endpoint.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {showPods, showSlices} from '../commands/service-commands.ts';

export const noReadyEndpoint: Check<'ST101'> = {
  code: 'ST101',
  name: 'no-ready-endpoint',
  severity: 'warning',
  summary: 'A Service that kube-proxy serves has no endpoint that it would use',
  remedy: 'Start ready pods that match the selector, or delete the Service. kube-proxy is behaving correctly.',
  // Silent for a port whose name is in no slice although the Service has endpoints: that is ST102.
  *cluster(context) {
    // Slices that were not read may exist.
    if (context.api.endpointSlices === null && context.api.endpoints === null) return;
    const concerned = new Set(unusualEntries(context).flatMap(entry => (isUsed(entry, context) ? [] : entry.port.object)));
    if (concerned.size === 0) return;
    const named = askedEntries(context).filter(entry => concerned.has(entry.port.object) && isNamedInSlices(entry, context));
    for (const family of families)
      for (const ofService of Map.groupBy(
        named.filter(({port}) => port.family === family),
        ({port}) => port.object,
      ).values())
        yield* observe(ofService, context);
  },
};

function* observe(entries: readonly PortEntry[], context: ClusterContext): Iterable<Observation> {
  const empty = entries.filter(entry => !isUsed(entry, context));
  const [first] = empty;
  if (first === undefined) return;
  const {port} = first;
  const whole = empty.length === entries.length;
  const subject = whole ? `${port.namespace}/${port.service}` : port.servicePortName;
  const message = `${subject} has no endpoint that kube-proxy would use${port.family === 'IPv6' ? ' for IPv6' : ''}: ${whyEmpty(first, context)}. Connections are refused`;
  const command = {...candidates(port.object), ...(hasSelector(port.object) ? {} : {remedy: withoutSelector})};
  yield whole ? {service: nameOf(port.object), family: port.family, message, ...command} : {...ofPort(port), message, ...command};
}

/** Shows what can become an endpoint: the pods that the selector matches, or the slices of a Service without a selector. */
function candidates(object: ServiceObject): Pick<Observation, 'command'> {
  const name = nameOf(object);
  return hasSelector(object) ? showPods(name.namespace, object.spec?.selector ?? {}) : showSlices(name, 'labels');
}

function hasSelector({spec}: ServiceObject): boolean {
  return Object.keys(spec?.selector ?? {}).length > 0;
}

const withoutSelector =
  'Check the program that writes its EndpointSlices, or write one (label kubernetes.io/service-name), or delete the Service. kube-proxy is behaving correctly.';

function isUsed({set}: PortEntry, context: ClusterContext): boolean {
  return set.endpoints.some(endpoint => isUsable(endpoint, context));
}

function isUsable(endpoint: Endpoint, {proxy}: ClusterContext): boolean {
  return endpoint.ready || (usesTerminatingEndpoints(proxy.version, proxy.gates) && endpoint.serving && endpoint.terminating);
}

function whyEmpty({port, set}: PortEntry, {api, proxy}: ClusterContext): string {
  const {object} = port;
  const holder = readsEndpoints(proxy.version, proxy.gates) || api.endpointSlices === null ? 'Endpoints object' : 'EndpointSlice';
  if (set.endpoints.length > 0) {
    const leaving = set.endpoints.every(({terminating}) => terminating);
    const names = someOf(set.endpoints.map(endpoint => podOf(endpoint) ?? endpoint.hostPort));
    return leaving ? `all its endpoints are terminating (${names})` : `none of its endpoints is ready (${names})`;
  }
  if (!hasSelector(object)) return `it has no selector, and no ${holder} gives it endpoints`;
  const pods = matchingPods(object, api);
  if (pods === null) return `no ${holder} holds an endpoint for it (selector ${selectorText(object)})`;
  if (pods.length === 0) return `its selector ${selectorText(object)} matches no pod`;
  return `its selector matches ${someOf(pods.map(({metadata}) => metadata.name))}, and no ${holder} holds an endpoint of it`;
}

/** Null if the pods were not read. */
function matchingPods({metadata, spec}: ServiceObject, {pods, podsOf}: ApiObjects): readonly PodObject[] | null {
  const wanted = Object.entries(spec?.selector ?? {});
  if (pods === null || podsOf?.has(namespacedName(metadata)) === false) return null;
  return pods.filter(
    pod => pod.metadata.namespace === metadata.namespace && wanted.every(([key, value]) => pod.metadata.labels?.[key] === value),
  );
}

function selectorText({spec}: ServiceObject): string {
  return Object.entries(spec?.selector ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}
