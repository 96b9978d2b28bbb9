import type {ApiObjects} from '../../src/model/snapshot.ts';

/** The objects of `randomCluster` with so many copies of each Service, which differ in names, addresses and node ports alone. */
export function withClones(api: ApiObjects, copies: number): ApiObjects {
  const numbers = Array.from({length: copies + 1}, (_, index) => index);
  return {
    ...api,
    services: numbers.flatMap(copy => (api.services ?? []).map(service => cloned(service, copy))),
    endpointSlices: numbers.flatMap(copy => (api.endpointSlices ?? []).map(slice => cloned(slice, copy))),
  };
}

function cloned<T>(object: T, copy: number): T {
  if (copy === 0) return object;
  return JSON.parse(JSON.stringify(object), (key, value: unknown) => {
    if (typeof value === 'number') return /nodePort$/i.test(key) ? value + 500 * copy : value;
    return typeof value === 'string' ? clonedText(value, copy) : value;
  }) as T;
}

/** Addresses of nodes and source ranges stay as they are. */
function clonedText(text: string, copy: number): string {
  return text
    .replace(/^svc-\d+/, name => `${name}-copy-${copy}`)
    .replace(/^10\.96\.0\.(\d+)$/, `10.96.${copy}.$1`)
    .replace(/^10\.244\.(\d)\.(\d+)$/, (_, node: string, host: string) => `10.244.${node}.${Number(host) + 80 * copy}`)
    .replace(/^203\.0\.113\.(\d+)$/, `203.0.${113 + copy}.$1`)
    .replace(/^fd00:96::(\w+)$/, `fd00:96::${copy}:$1`)
    .replace(/^fd00:10:(\d)::(\w+)$/, `fd00:10:$1::${copy}:$2`)
    .replace(/^2001:db8:1::(\w+)$/, `2001:db8:1:${copy}::$1`);
}
