import {readFileSync} from 'node:fs';
import {loadAll} from 'js-yaml';
import type {EndpointSliceObject, NodeObject, ServiceObject} from '../../model/api-objects.ts';
import {endpointSliceShape, nodeShape, serviceShape} from '../objects/api-shapes.ts';
import {usableItems} from '../objects/usable-items.ts';

/** API objects from files, in the form that `kubectl apply -f` accepts. */
interface Manifests {
  readonly services: readonly ServiceObject[];
  readonly endpointSlices: readonly EndpointSliceObject[];
  readonly nodes: readonly NodeObject[];
  /** Kinds that do not affect kube-proxy's rules, without duplicates. */
  readonly ignored: readonly string[];
}

/** A manifest that cannot be used; the message names the file and the reason. */
export class UnreadableManifest extends Error {}

/** Reads YAML or JSON, including several documents and Lists; `-` is standard input. Throws an UnreadableManifest. */
export function readManifests(files: readonly string[], namespace: string): Manifests {
  const objects = files.flatMap(file => documentsOf(file).map(object => inNamespace(object, namespace)));
  const ofKind = (kind: string): readonly Fields[] => objects.filter(object => object['kind'] === kind);
  const kinds = new Set(objects.map(object => String(object['kind'])));
  return {
    services: usable(ofKind('Service'), 'Service', serviceShape),
    endpointSlices: usable(ofKind('EndpointSlice'), 'EndpointSlice', endpointSliceShape),
    nodes: usable(ofKind('Node'), 'Node', nodeShape),
    ignored: [...kinds].filter(kind => !['Service', 'EndpointSlice', 'Node'].includes(kind)),
  };
}

type Fields = Readonly<Record<string, unknown>>;

function documentsOf(file: string): readonly Fields[] {
  const documents = loadDocuments(file);
  const objects = documents.flatMap(document => {
    if (typeof document !== 'object' || document === null) return [];
    const {kind, items} = document as {readonly kind?: unknown; readonly items?: unknown};
    return typeof kind === 'string' && kind.endsWith('List') && Array.isArray(items) ? (items as readonly unknown[]) : [document];
  });
  const found = objects.filter((object): object is Fields => typeof object === 'object' && object !== null && 'kind' in object);
  if (found.length === 0) throw new UnreadableManifest(`${file} holds no API object: each has a kind`);
  return found;
}

function loadDocuments(file: string): readonly unknown[] {
  try {
    const documents: unknown[] = [];
    documents.push(...(loadAll(readFileSync(file === '-' ? 0 : file, 'utf8')) as readonly unknown[]));
    return documents;
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n', 1)[0] : String(error);
    throw new UnreadableManifest(`cannot read ${file}: ${reason}`);
  }
}

/** Nodes have no namespace. */
function inNamespace(object: Fields, namespace: string): Fields {
  const metadata = object['metadata'];
  if (object['kind'] === 'Node' || typeof metadata !== 'object' || metadata === null) return object;
  return {...object, metadata: {namespace, ...metadata}};
}

function usable<T>(objects: readonly Fields[], kind: string, shape: Parameters<typeof usableItems>[2]): readonly T[] {
  const {items, problems} = usableItems<T>(kind, objects, shape);
  const [problem] = problems;
  if (problem !== undefined) throw new UnreadableManifest(problem.message.replace(' is left out', ''));
  return items;
}
