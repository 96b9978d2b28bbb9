import type {Problem} from '../model/snapshot.ts';

export interface ApiList<T> {
  /** Null when the file is not there or cannot be read at all. */
  readonly items: readonly T[] | null;
  readonly problems: readonly Problem[];
}

/** Reads a list as `kubectl get -o json` prints it. Items that are no objects with a name are left out and said. */
export function readApiList<T extends {readonly metadata: {readonly name: string}}>(file: string, content: Buffer | null): ApiList<T> {
  if (content === null) return {items: null, problems: []};
  const parsed = parseJson(content.toString('utf8'));
  if (parsed instanceof Error)
    return {
      items: null,
      problems: [
        {message: `${file} is not valid JSON: ${parsed.message}. Was the file cut off? Write it again with: kubectl get … -A -o json`},
      ],
    };
  const list = itemsOf(parsed);
  if (list === null)
    return {items: null, problems: [{message: `${file} holds no list: it has no "items". Write it with: kubectl get … -A -o json`}]};
  const problems: Problem[] = [];
  const items = list.filter((item, index): item is T => {
    const wrong = whyUnusable(item);
    if (wrong !== null) problems.push({message: `${file}: item ${index} is left out: ${wrong}`});
    return wrong === null;
  });
  const more = continuation(parsed);
  if (more)
    problems.push({
      message: `${file} is only the first page of a longer list (metadata.continue is set): what is missing here may be on the next page`,
    });
  return {items, problems};
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}

function itemsOf(value: unknown): readonly unknown[] | null {
  if (typeof value !== 'object' || value === null) return null;
  if ('items' in value && Array.isArray(value.items)) return value.items;
  // A list of no items is printed by some tools as null.
  return 'items' in value && value.items === null ? [] : null;
}

function continuation(value: unknown): boolean {
  const metadata = (value as {metadata?: {continue?: unknown}}).metadata;
  return typeof metadata?.continue === 'string' && metadata.continue !== '';
}

/** Checks what the rest of the program takes for granted: objects where objects belong, lists where lists do. */
function whyUnusable(item: unknown): string | null {
  if (typeof item !== 'object' || item === null) return 'it is no object';
  const {metadata, spec, status, endpoints, ports, subsets} = item as Record<string, unknown>;
  if (typeof metadata !== 'object' || metadata === null) return 'it has no metadata';
  if (typeof (metadata as {name?: unknown}).name !== 'string') return 'it has no metadata.name';
  for (const [name, value] of Object.entries({spec, status}))
    if (value !== undefined && !isObject(value)) return `its ${name} is no object`;
  for (const [name, value] of Object.entries({endpoints, ports, subsets}))
    if (value !== undefined && value !== null && !isListOfObjects(value)) return `its ${name} is no list of objects`;
  return whyBadSpec((spec ?? {}) as Record<string, unknown>) ?? whyBadStatus((status ?? {}) as Record<string, unknown>);
}

function whyBadSpec(spec: Record<string, unknown>): string | null {
  if (spec['ports'] !== undefined && !isListOfObjects(spec['ports'])) return 'its spec.ports is no list of objects';
  for (const name of ['clusterIPs', 'ipFamilies', 'externalIPs', 'loadBalancerSourceRanges', 'podCIDRs']) {
    const value = spec[name];
    if (value !== undefined && value !== null && !(Array.isArray(value) && value.every(entry => typeof entry === 'string')))
      return `its spec.${name} is no list of strings`;
  }
  return null;
}

function whyBadStatus(status: Record<string, unknown>): string | null {
  const {loadBalancer, addresses} = status;
  if (addresses !== undefined && !isListOfObjects(addresses)) return 'its status.addresses is no list of objects';
  const ingress = isObject(loadBalancer) ? loadBalancer['ingress'] : undefined;
  return ingress !== undefined && ingress !== null && !isListOfObjects(ingress)
    ? 'its status.loadBalancer.ingress is no list of objects'
    : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isListOfObjects(value: unknown): boolean {
  return Array.isArray(value) && value.every(isObject);
}
