/** Any JSON. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [name: string]: Json | undefined;
}

export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : value === undefined || value === null ? [] : [value];
}

export function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** Name and content of `{"name": content}`; an empty name when it is nothing of that kind. */
export function onlyEntry(value: Json | undefined): readonly [name: string, content: Json] {
  const [entry] = isJsonObject(value) ? Object.entries(value) : [];
  return entry === undefined ? ['', null] : [entry[0], entry[1] ?? null];
}
