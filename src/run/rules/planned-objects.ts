import {Errors} from '@oclif/core';
import {readManifests, UnreadableManifest} from '../../collect/manifests/read-manifests.ts';
import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import {addManifests} from '../../preview/manifests/add-manifests.ts';
import {type GivenEndpoint, parseEndpoint, slicesOf} from '../../preview/manifests/endpoint-flag.ts';
import {escapeText} from '../../render/terminal-text.ts';
import {sliceService} from '../../model/endpoint.ts';
import {namespacedName} from '../../model/text.ts';

interface PlannedFlags {
  readonly filename?: readonly string[] | undefined;
  readonly endpoint?: readonly string[] | undefined;
  readonly namespace?: string | undefined;
  readonly 'all-namespaces'?: boolean | undefined;
}

interface PlannedSnapshot {
  readonly snapshot: Snapshot;
  /** The Services of the manifests, as written. */
  readonly services: readonly ServiceObject[];
  /** What was assumed or left out, as text for people. */
  readonly notes: readonly string[];
}

/** The snapshot with the objects of `-f` and the endpoints of `--endpoint` applied. Throws a CLIError (exit 2). */
export function withPlannedObjects(
  snapshot: Snapshot,
  {filename = [], endpoint = [], namespace, 'all-namespaces': isOfAll = false}: PlannedFlags,
): PlannedSnapshot {
  if (filename.length === 0) {
    if (endpoint.length > 0) throw new Errors.CLIError('--endpoint is for Services of -f', {exit: 2});
    return {snapshot, services: [], notes: []};
  }
  const {ignored, ...planned} = manifestsOf(filename, namespace ?? 'default');
  if (namespace !== undefined && !isOfAll) requireNamespace([...planned.services, ...planned.endpointSlices], namespace);
  const applied = addManifests(snapshot.api, planned);
  if (typeof applied === 'string') throw new Errors.CLIError(escapeText(applied), {exit: 2});
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
    throw new Errors.CLIError(
      escapeText(`${namespacedName(other.metadata)} of -f is not in namespace ${namespace}: leave out -n, or use -A`),
      {
        exit: 2,
      },
    );
}

function manifestsOf(files: readonly string[], namespace: string): ReturnType<typeof readManifests> {
  try {
    return readManifests(files, namespace);
  } catch (error) {
    if (error instanceof UnreadableManifest) throw new Errors.CLIError(escapeText(error.message), {exit: 2});
    throw error;
  }
}

function endpointOf(text: string): GivenEndpoint {
  const endpoint = parseEndpoint(text);
  if (endpoint === null) throw new Errors.CLIError(escapeText(`--endpoint ${text} is not IP[:PORT][@NODE]`), {exit: 2});
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
  if (without.length === 0) throw new Errors.CLIError('--endpoint is for Services of -f that have no EndpointSlice', {exit: 2});
  return without.flatMap(service => {
    const made = slicesOf(service, endpoints);
    if (typeof made !== 'string') return made;
    throw new Errors.CLIError(escapeText(`the target port "${made}" of ${service.metadata.name} has no number: write --endpoint IP:PORT`), {
      exit: 2,
    });
  });
}
