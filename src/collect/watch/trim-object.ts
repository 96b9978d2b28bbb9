import type {ObjectMeta} from '../../model/api-objects.ts';
import type {Shape} from '../objects/usable-items.ts';
import {ofKubernetes} from '../../expect/cluster/service-states.ts';

interface Named {
  readonly metadata: ObjectMeta;
}

/**
 * A Service or a slice with only the fields that are used, because it is kept as long as the process lives. Of managedFields, which can be
 * most of an object, the newest time is kept, and of labels and annotations those of Kubernetes.
 */
export function trimObject<T extends Named>(object: T, shape: Shape, strings: StringPool): T {
  const trimmed = pick(object, shape, strings) as T;
  const {managedFields, labels, annotations, ...metadata} = trimmed.metadata;
  const newest = (managedFields ?? [])
    .flatMap(({time}) => time ?? [])
    .sort()
    .at(-1);
  const kept: ObjectMeta = {
    ...metadata,
    ...(labels === undefined ? {} : {labels: ofKubernetes(labels)}),
    ...(annotations === undefined ? {} : {annotations: ofKubernetes(annotations)}),
    ...(newest === undefined ? {} : {managedFields: [{time: newest}]}),
  };
  return {...trimmed, metadata: kept};
}

/** Returns one string for all equal ones: the name of a node occurs in many endpoints. */
export class StringPool {
  #strings = new Map<string, string>();

  same(text: string): string {
    const known = this.#strings.get(text);
    if (known !== undefined) return known;
    // Names change over time; a string that was removed is only stored twice.
    if (this.#strings.size >= maxStrings) this.#strings = new Map();
    this.#strings.set(text, text);
    return text;
  }
}

const maxStrings = 20_000;

function pick(value: unknown, shape: Shape, strings: StringPool): unknown {
  if (typeof value !== 'object' || value === null || typeof shape === 'string') return value;
  if ('list' in shape) return Array.isArray(value) ? value.map(item => pick(item, shape.list, strings)) : value;
  if ('map' in shape) return value;
  const object = value as Readonly<Record<string, unknown>>;
  const picked: Record<string, unknown> = {};
  for (const name in shape.fields) {
    const [field, inner] = [object[name], shape.fields[name]];
    if (field === undefined || inner === undefined) continue;
    picked[name] = typeof field === 'string' && shared.has(name) ? strings.same(field) : pick(field, inner, strings);
  }
  return picked;
}

/** Fields with equal values in many objects. */
const shared = new Set(['nodeName', 'zone', 'namespace', 'kind', 'protocol', 'addressType']);
