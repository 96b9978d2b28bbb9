import {Errors} from '@oclif/core';
import {canonicalAddress} from '../../model/address.ts';
import type {NodeObject, PodObject} from '../../model/api-objects.ts';
import {serviceNameLabel} from '../../model/endpoint.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {commandLine, namespacedName} from '../../model/text.ts';
import {escapeText} from '../../render/terminal-text.ts';

/** Pods show that a namespace exists; they are missing where it is known otherwise. */
export type SelectableObjects = Pick<ApiObjects, 'services'> & Partial<Pick<ApiObjects, 'pods' | 'endpointSlices' | 'nodes'>>;

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
export function refuse(text: string, owners: readonly ServiceName[] = []): Error {
  const suggestions = [...new Set(owners.map(owner => escapeText(namespacedName(owner))))].slice(0, 3);
  return new Errors.CLIError(escapeText(text), {exit: 2, ...(suggestions.length === 0 ? {} : {suggestions})});
}

/** What an address, a number, or the name of a pod or node is that names no Service; null for other names. */
export function ofPlace(wanted: WantedService, api: SelectableObjects): Error | null {
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
  const backed = servicesWith(wanted, api);
  if (pod !== undefined) return refuse(`${what}: it is ${that}pod ${namespacedName(pod.metadata)}`, backed);
  if (node !== undefined) {
    const command = commandLine`kubectl svc-trace check -A --node ${node}`;
    return refuse(`${what}: it is ${that}node ${node}${command === null ? '' : `; "${command}" checks the node`}`, backed);
  }
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

function isPodNamed({namespace, name}: PodObject['metadata'], wanted: WantedService): boolean {
  return name === wanted.name && (wanted.namespace === undefined || podKinds.has(wanted.namespace) || namespace === wanted.namespace);
}

const podKinds: ReadonlySet<string> = new Set(['po', 'pod', 'pods']);

/** The Services with an endpoint at this address, or of the pod of this name. */
export function servicesWith(wanted: WantedService, {endpointSlices}: SelectableObjects): readonly ServiceName[] {
  return (endpointSlices ?? []).flatMap(({metadata, endpoints}) => {
    const isOwn = (endpoints ?? []).some(({addresses, targetRef}) =>
      wanted.address === undefined
        ? targetRef?.kind === 'Pod' && isPodNamed({namespace: targetRef.namespace ?? '', name: targetRef.name ?? ''}, wanted)
        : addresses?.some(one => canonicalAddress(one) === wanted.address),
    );
    const name = metadata.labels?.[serviceNameLabel];
    return isOwn && name !== undefined ? [{namespace: metadata.namespace ?? 'default', name}] : [];
  });
}
