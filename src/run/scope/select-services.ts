import {Errors} from '@oclif/core';
import type {ServiceObject} from '../../model/api-objects.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {escapeText} from '../../render/escape.ts';
import {matchesSelector, parseSelector} from './label-selector.ts';
import {closest} from './closest.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

export interface Selection {
  readonly selects: (service: ServiceObject) => boolean;
  /** For a Service that the API does not have: whether it lies in what was asked for. */
  readonly concerns: (service: ServiceName) => boolean;
  readonly byName: boolean;
}

export interface SelectionInput {
  /** `name`, `svc/name` or `namespace/name`. */
  readonly names: readonly string[];
  readonly namespace: string | undefined;
  readonly allNamespaces: boolean;
  readonly selector: string | undefined;
}

/**
 * The Services that the arguments and flags ask for. Throws a CLIError (exit 2) for a name that no Service has, with the
 * nearest ones that there are. In a bundle a name without a namespace is looked for in all of them.
 */
export function selectServices(input: SelectionInput, api: Pick<ApiObjects, 'services'>): Selection {
  const services = api.services ?? [];
  const wanted = input.names.map(name => parseServiceName(name, input));
  const unknown = wanted.find(({namespace, name}) => !services.some(service => isNamed(service, namespace, name)));
  if (unknown !== undefined) throw unknownService(unknown, services);
  const requirements = input.selector === undefined ? [] : parseSelector(input.selector);
  const inNamespace = (service: ServiceObject): boolean =>
    input.namespace === undefined || input.allNamespaces || service.metadata.namespace === input.namespace;
  const none =
    wanted.length === 0 &&
    api.services !== null &&
    !services.some(service => inNamespace(service) && matchesSelector(service.metadata.labels ?? {}, requirements));
  if (none && (input.namespace !== undefined || requirements.length > 0)) throw nothingSelected(input, services);
  return {
    byName: wanted.length > 0,
    concerns: service =>
      wanted.length === 0 &&
      requirements.length === 0 &&
      (input.namespace === undefined || input.allNamespaces || service.namespace === input.namespace),
    selects: service =>
      (wanted.length === 0 ? inNamespace(service) : wanted.some(({namespace, name}) => isNamed(service, namespace, name))) &&
      matchesSelector(service.metadata.labels ?? {}, requirements),
  };
}

export interface WantedService {
  /** Undefined looks in all namespaces. */
  readonly namespace: string | undefined;
  readonly name: string;
}

/** Reads `name`, `svc/name` or `namespace/name`. Throws a CLIError (exit 2). */
export function parseServiceName(text: string, {namespace, allNamespaces}: SelectionInput): WantedService {
  const [first = '', second, ...rest] = text.split('/');
  if (rest.length > 0 || first === '' || second === '')
    throw new Errors.CLIError(`"${text}" is no Service: write NAME, svc/NAME or NAMESPACE/NAME`, {exit: 2});
  const own = allNamespaces ? undefined : namespace;
  if (second === undefined) return {namespace: own, name: first};
  return ['svc', 'service', 'services'].includes(first) ? {namespace: own, name: second} : {namespace: first, name: second};
}

function isNamed({metadata}: ServiceObject, namespace: string | undefined, name: string): boolean {
  return metadata.name === name && (namespace === undefined || (metadata.namespace ?? 'default') === namespace);
}

/** A gate that looks at nothing must not pass. */
function nothingSelected({namespace, selector, allNamespaces}: SelectionInput, services: readonly ServiceObject[]): Error {
  const where = namespace === undefined || allNamespaces ? '' : ` in namespace ${namespace}`;
  const labels = selector === undefined ? '' : ` with the labels ${selector}`;
  const near = closest(
    namespace ?? '',
    services.map(({metadata}) => metadata.namespace ?? 'default'),
  );
  return new Errors.CLIError(escapeText(`there is no Service${where}${labels}`), {
    exit: 2,
    suggestions: near.map(name => escapeText(`-n ${name}`)),
  });
}

function unknownService({namespace, name}: WantedService, services: readonly ServiceObject[]): Error {
  const near = closest(
    name,
    services.map(({metadata}) => metadata.name),
  );
  const suggestions = services
    .filter(({metadata}) => near.includes(metadata.name))
    .map(({metadata}) => escapeText(namespacedName(metadata)));
  const where = namespace === undefined ? 'any namespace' : `namespace ${namespace}`;
  return new Errors.CLIError(
    `there is no Service ${name} in ${where}${services.length === 0 ? ': there is a dump and no API objects. Put api/services.json and the endpoints beside it, or ask what its rules do to one packet: svc-trace packet' : ''}`,
    {
      exit: 2,
      ...(suggestions.length === 0 ? {} : {suggestions: suggestions.slice(0, 3)}),
    },
  );
}
