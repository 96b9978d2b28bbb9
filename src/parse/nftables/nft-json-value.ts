/** Any JSON. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

export interface JsonObject {
  readonly [name: string]: JsonValue | undefined;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? (value as readonly JsonValue[]) : value === undefined || value === null ? [] : [value];
}

export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** Name and content of `{"name": content}`; an empty name for any other value. */
export function onlyEntry(value: JsonValue | undefined): readonly [name: string, content: JsonValue] {
  const name = isJsonObject(value) ? Object.keys(value)[0] : undefined;
  return name === undefined || !isJsonObject(value) ? ['', null] : [name, value[name] ?? null];
}
