import {readdirSync, readFileSync, statSync} from 'node:fs';
import {join} from 'node:path';
import {loadAll, YAMLException} from 'js-yaml';
import type {EndpointSliceObject, NodeObject, ServiceObject} from '../../model/api-objects.ts';
import {endpointSliceShape, nodeShape, serviceShape} from '../objects/api-shapes.ts';
import type {Shape} from '../objects/object-shape.ts';
import {whyUnusable} from '../objects/usable-items.ts';
import {errorText} from '../../model/text/error-text.ts';
import {whyInvalidService, whyInvalidSlice} from './why-invalid.ts';

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

/**
 * Reads YAML or JSON, including several documents and Lists; `-` is standard input, and a directory stands for the manifests in it. Throws
 * an UnreadableManifest, also if nothing in the files is of a kind that kube-proxy reads.
 */
export function readManifests(files: readonly string[], namespace: string): Manifests {
  const objects = files.flatMap(filesOf).flatMap(file => documentsOf(file).map(object => ({file, object: inNamespace(object, namespace)})));
  const kinds = [...new Set(objects.map(({object}) => kindOf(object)))];
  if (!kinds.some(kind => kind in usedKinds))
    throw new UnreadableManifest(`no Service, EndpointSlice or Node in ${files.join(', ')}: only ${kinds.join(', ')}`);
  const ofKind = (kind: string) => objects.filter(({object}) => kindOf(object) === kind);
  return {
    services: usable(ofKind('Service'), serviceShape, whyInvalidService),
    endpointSlices: usable(ofKind('EndpointSlice'), endpointSliceShape, whyInvalidSlice),
    nodes: usable(ofKind('Node'), nodeShape, () => null),
    ignored: kinds.filter(kind => !(kind in usedKinds)),
  };
}

/** The kinds that kube-proxy reads, and their API groups. */
const usedKinds: Readonly<Record<string, string>> = {Service: '', EndpointSlice: 'discovery.k8s.io', Node: ''};

/** `Service`, or `Service.serving.knative.dev` if it is not kube-proxy's. */
function kindOf({kind, apiVersion}: Fields): string {
  const [name, version] = [String(kind), typeof apiVersion === 'string' ? apiVersion : ''];
  const group = version.includes('/') ? version.replace(/\/.*/, '') : '';
  return version === '' || !(name in usedKinds) || usedKinds[name] === group ? name : `${name}.${group}`;
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
  const text = textOf(file);
  try {
    return loadAll(separated(text)) as readonly unknown[];
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const {reason, mark} = error;
    throw new UnreadableManifest(`${file} is not valid YAML: ${reason}${mark === undefined ? '' : ` (line ${mark.line + 1})`}`);
  }
}

/** A directory stands for the manifests in it, as in kubectl. */
function filesOf(file: string): readonly string[] {
  if (file === '-' || !statSync(file, {throwIfNoEntry: false})?.isDirectory()) return [file];
  const found = readdirSync(file).filter(name => /\.(?:json|ya?ml)$/.test(name));
  if (found.length === 0) throw new UnreadableManifest(`${file} holds no .yaml, .yml or .json file`);
  return found.toSorted().map(name => join(file, name));
}

/** JSON objects one after the other, as jq prints them, are documents too. */
function separated(text: string): string {
  return text.trimStart().startsWith('{') ? text.replaceAll(/\}[ \t]*\r?\n\s*(?=\{)/g, '}\n---\n') : text;
}

function textOf(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new UnreadableManifest(`cannot read ${file}: ${errorText(error)}`);
  }
}

/** Nodes have no namespace. */
function inNamespace(object: Fields, namespace: string): Fields {
  const metadata = object['metadata'];
  if (object['kind'] === 'Node' || typeof metadata !== 'object' || metadata === null) return object;
  return {...object, metadata: {namespace, ...metadata}};
}

interface ManifestObject {
  readonly file: string;
  readonly object: Fields;
}

/** The objects, if each has a name and the shape, and the API server would not refuse it. */
function usable<T>(objects: readonly ManifestObject[], shape: Shape, whyInvalid: (object: T) => string | null): readonly T[] {
  return objects.map(({file, object}) => {
    const why = whyUnusable(object, shape) ?? whyInvalid(object as T);
    if (why !== null) throw new UnreadableManifest(`${file}: ${nameOf(object)}: ${why}`);
    return object as T;
  });
}

function nameOf({kind, metadata}: Fields): string {
  const {namespace, name} = (metadata ?? {}) as Fields;
  return `${String(kind)}${typeof name === 'string' ? ` ${kind === 'Node' ? '' : `${String(namespace)}/`}${name}` : ''}`;
}
