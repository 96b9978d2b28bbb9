/**
 * What a part of an API object must be for the rest of the program: a plain value, a list, a map, or an object with fields.
 * Fields that are not named here are not read, and may hold anything.
 */
export type Shape =
  | 'string'
  | 'number'
  | 'boolean'
  | {readonly list: Shape}
  | {readonly map: Shape}
  | {readonly fields: Readonly<Record<string, Shape>>};

/**
 * Says what is wrong with a value that has not the shape, such as `spec.ports[0].port is no number`; null when it has it.
 * A field that is null is taken out: no part of the program tells it from one that is not there.
 */
export function whyMisshapen(value: unknown, shape: Shape, path: string): string | null {
  if (typeof shape === 'string') return typeof value === shape ? null : `${path} is no ${shape}`;
  if ('list' in shape) return whyMisshapenList(value, shape.list, path);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return `${path} is no object`;
  const object = value as Record<string, unknown>;
  return 'map' in shape ? whyMisshapenMap(object, shape.map, path) : whyMisshapenFields(object, shape.fields, path);
}

function whyMisshapenList(value: unknown, item: Shape, path: string): string | null {
  if (!Array.isArray(value)) return `${path} is no list`;
  for (const [index, entry] of value.entries()) {
    const wrong = whyMisshapen(entry, item, `${path}[${index}]`);
    if (wrong !== null) return wrong;
  }
  return null;
}

function whyMisshapenMap(object: Record<string, unknown>, value: Shape, path: string): string | null {
  for (const key of Object.keys(object)) {
    const wrong = whyMisshapen(object[key], value, `${path}.${key}`);
    if (wrong !== null) return wrong;
  }
  return null;
}

function whyMisshapenFields(object: Record<string, unknown>, fields: Readonly<Record<string, Shape>>, path: string): string | null {
  for (const name in fields) {
    const [value, shape] = [object[name], fields[name]];
    if (value === undefined || shape === undefined) continue;
    if (value === null) {
      delete object[name];
      continue;
    }
    const wrong = whyMisshapen(value, shape, path === '' ? name : `${path}.${name}`);
    if (wrong !== null) return wrong;
  }
  return null;
}
