import type {EndpointSliceObject, ServiceObject, ServicePortSpec, SlicePort} from '../../model/api-objects.ts';
import {sliceService} from '../../model/endpoint.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

interface RewrittenSlices {
  readonly slices: readonly EndpointSliceObject[];
  readonly notes: readonly string[];
}

/**
 * The EndpointSlices of a Service whose manifest changes its ports, as the EndpointSlice controller will write them: the same endpoints, with
 * the ports of the manifest. Slices of other Services and other controllers stay as they are, and those of a Service without a selector.
 * A note says what only the controller can know: the pods of another selector, and the number of a target port that had no name before.
 * Follows `getEndpointPorts` of `k8s.io/endpointslice`.
 */
export function rewriteSlices(before: ServiceObject, service: ServiceObject, slices: readonly EndpointSliceObject[]): RewrittenSlices {
  const name = namespacedName(service.metadata);
  const [selectorBefore, selector] = [before, service].map(({spec}) => sortedText(spec?.selector ?? {}));
  if (selector === '') return {slices, notes: []};
  const changesPorts = targetsText(before) !== targetsText(service);
  const changes = (slice: EndpointSliceObject): boolean => changesPorts && sliceService(slice) === name && isOfController(slice);
  const written = slices.map(slice => (changes(slice) ? withPorts(slice, before, service) : {slice, unknown: []}));
  return {
    slices: written.map(({slice}) => slice),
    notes: [
      ...(selector === selectorBefore ? [] : [`${name} selects other pods then: today's endpoints stand in for them`]),
      ...[...new Set(written.flatMap(({unknown}) => unknown))].map(
        port => `the number of target port ${port} of ${name} is not known: it has no endpoints here (add its EndpointSlice with -f)`,
      ),
    ],
  };
}

interface RewrittenSlice {
  readonly slice: EndpointSliceObject;
  /** Names of target ports without a known number. */
  readonly unknown: readonly string[];
}

function withPorts(slice: EndpointSliceObject, before: ServiceObject, service: ServiceObject): RewrittenSlice {
  const ports: SlicePort[] = [];
  const unknown: string[] = [];
  for (const port of service.spec?.ports ?? []) {
    const number = targetNumber(port, before.spec?.ports ?? [], slice.ports ?? []);
    if (number === null) unknown.push(String(port.targetPort));
    else ports.push({name: port.name ?? '', protocol: port.protocol ?? 'TCP', port: number});
  }
  return {slice: portsText(ports) === portsText(slice.ports ?? []) ? slice : {...slice, ports}, unknown};
}

/** Pods name their ports: a name stands for the number that a port with the same target has today. */
function targetNumber(
  {targetPort, port = 0}: ServicePortSpec,
  portsBefore: readonly ServicePortSpec[],
  slicePorts: readonly SlicePort[],
): number | null {
  if (typeof targetPort !== 'string') return targetPort ?? port;
  const same = portsBefore.find(other => other.targetPort === targetPort);
  if (same === undefined) return null;
  return slicePorts.find(({name}) => (name ?? '') === (same.name ?? ''))?.port ?? null;
}

/** Slices without the label come from bundles and older controllers. */
function isOfController({metadata: {labels}}: EndpointSliceObject): boolean {
  const manager = labels?.['endpointslice.kubernetes.io/managed-by'];
  return manager === undefined || manager === 'endpointslice-controller.k8s.io';
}

function targetsText({spec}: ServiceObject): string {
  return (spec?.ports ?? [])
    .map(({name = '', protocol = 'TCP', port, targetPort = port}) => `${name} ${protocol} ${targetPort}`)
    .sort()
    .join();
}

function portsText(ports: readonly SlicePort[]): string {
  return ports
    .map(({name, protocol, port}) => `${name ?? ''} ${protocol ?? 'TCP'} ${port}`)
    .sort()
    .join();
}

function sortedText(selector: Readonly<Record<string, string>>): string {
  return Object.entries(selector)
    .map(([key, value]) => `${key}=${value}`)
    .sort()
    .join();
}
