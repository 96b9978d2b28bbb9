import {readManifests, UnreadableManifest} from '../../collect/manifests/read-manifests.ts';
import type {EndpointSliceObject, ServiceObject, ServicePortSpec, SlicePort} from '../../model/api-objects.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import {addManifests} from '../../preview/manifests/add-manifests.ts';
import {sliceService, serviceNameLabel} from '../../model/endpoint.ts';
import {namespacedName} from '../../model/text.ts';
import {parseAddress} from '../../model/address.ts';
import {wrongUse} from '../wrong-use.ts';

interface PlannedFlags {
  readonly filename?: readonly string[] | undefined;
  readonly endpoint?: readonly string[] | undefined;
  readonly namespace?: string | undefined;
  readonly 'all-namespaces'?: boolean | undefined;
}

/**
 * The snapshot with the objects of `-f` and the endpoints of `--endpoint` applied. Throws a CLIError (exit 2). `services`: the Services of
 * the manifests, as written. `notes`: what was assumed or left out, as text for people.
 */
export function withPlannedObjects(
  snapshot: Snapshot,
  {filename = [], endpoint = [], namespace, 'all-namespaces': isOfAll = false}: PlannedFlags,
) {
  if (filename.length === 0) {
    if (endpoint.length > 0) throw wrongUse('--endpoint is for Services of -f');
    return {snapshot, services: [], notes: []};
  }
  const {ignored, ...planned} = manifestsOf(filename, namespace ?? 'default');
  if (namespace !== undefined && !isOfAll) requireNamespace([...planned.services, ...planned.endpointSlices], namespace);
  const applied = addManifests(snapshot.api, planned);
  if (typeof applied === 'string') throw wrongUse(applied);
  const given = endpoint.map(endpointOf);
  const slices = given.length === 0 ? [] : givenSlices(planned.services, applied.api.endpointSlices ?? [], given);
  return {
    snapshot: {...snapshot, api: {...applied.api, endpointSlices: [...(applied.api.endpointSlices ?? []), ...slices]}},
    services: planned.services,
    notes: [
      ...applied.notes,
      ...(ignored.length === 0 ? [] : [`not used: ${ignored.join(', ')} (kube-proxy reads Services, EndpointSlices and Nodes)`]),
    ],
  };
}

/** As `kubectl apply -n` does. */
function requireNamespace(objects: readonly (ServiceObject | EndpointSliceObject)[], namespace: string): void {
  const other = objects.find(({metadata}) => metadata.namespace !== namespace);
  if (other !== undefined)
    throw wrongUse(`${namespacedName(other.metadata)} of -f is not in namespace ${namespace}: leave out -n, or use -A`);
}

function manifestsOf(files: readonly string[], namespace: string): ReturnType<typeof readManifests> {
  try {
    return readManifests(files, namespace);
  } catch (error) {
    if (error instanceof UnreadableManifest) throw wrongUse(error.message);
    throw error;
  }
}

function endpointOf(text: string): GivenEndpoint {
  const endpoint = parseEndpoint(text);
  if (endpoint === null) throw wrongUse(`--endpoint ${text} is not IP[:PORT][@NODE]`);
  return endpoint;
}

/** Services of the manifests without a slice get the endpoints of the command line. */
function givenSlices(
  services: readonly ServiceObject[],
  slices: readonly EndpointSliceObject[],
  endpoints: readonly GivenEndpoint[],
): readonly EndpointSliceObject[] {
  const owned = new Set(slices.map(sliceService));
  const without = services.filter(({metadata}) => !owned.has(namespacedName(metadata)));
  if (without.length === 0) throw wrongUse('--endpoint is for Services of -f that have no EndpointSlice');
  return without.flatMap(service => {
    const made = slicesOf(service, endpoints);
    if (typeof made !== 'string') return made;
    throw wrongUse(`the target port "${made}" of ${service.metadata.name} has no number: write --endpoint IP:PORT`);
  });
}

/** `IP[:PORT][@NODE]`, as given on a command line. */
interface GivenEndpoint {
  readonly address: string;
  readonly family: 'IPv4' | 'IPv6';
  readonly port: number | null;
  readonly node: string | null;
}

/**
 * Reads `10.0.0.1`, `10.0.0.1:8080@node-a`, `fd00::1`, `[fd00::1]:8080`; null if it is none of these.
 * @internal
 */
export function parseEndpoint(text: string): GivenEndpoint | null {
  const [place = '', node = null, ...rest] = text.split('@');
  if (rest.length > 0 || node === '') return null;
  const found = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(place) ?? /^([0-9a-fA-F:]+)$/.exec(place);
  const address = parseAddress(found?.[1] ?? found?.[2] ?? '');
  const port = found?.[3] === undefined ? null : Number(found[3]);
  if (address === null || (port !== null && (port < 1 || port > 65_535))) return null;
  return {address: address.text, family: address.family, port, node};
}

/**
 * The slices that the given endpoints of a Service would be in. A port's name where a named target port has no number.
 * @internal
 */
export function slicesOf(service: ServiceObject, endpoints: readonly GivenEndpoint[]): readonly EndpointSliceObject[] | string {
  const ports = service.spec?.ports ?? [];
  const groups = Map.groupBy(endpoints, ({family, port}) => `${family} ${port}`);
  const slices: EndpointSliceObject[] = [];
  for (const [index, group] of [...groups.values()].entries()) {
    const [first] = group;
    if (first === undefined) continue;
    const slicePorts = ports.map(port => slicePort(port, first.port));
    const named = slicePorts.find(port => typeof port === 'string');
    if (typeof named === 'string') return named;
    const name = `${service.metadata.name}-given-${index}`;
    slices.push({
      metadata: {name, namespace: service.metadata.namespace ?? 'default', labels: {[serviceNameLabel]: service.metadata.name}},
      addressType: first.family,
      ports: slicePorts.filter(port => typeof port !== 'string'),
      endpoints: group.map(({address, node}) => ({
        addresses: [address],
        conditions: {ready: true, serving: true, terminating: false},
        nodeName: node ?? undefined,
      })),
    });
  }
  return slices;
}

function slicePort({name = '', protocol = 'TCP', port, targetPort}: ServicePortSpec, typedPort: number | null): SlicePort | string {
  if (typedPort === null && typeof targetPort === 'string') return targetPort;
  const number = typedPort ?? (typeof targetPort === 'number' ? targetPort : (port ?? 0));
  return {name, protocol, port: number};
}
