import {homedir} from 'node:os';
import {delimiter, dirname, isAbsolute, join, resolve, sep} from 'node:path';
import {CORE_SCHEMA, load} from 'js-yaml';
import {errorText} from '../../model/text.ts';
import {isObject} from '../../parse/attempt.ts';
import {readTextFile} from '../text-file.ts';
import {type Context, emptyKubeconfig, type ExecConfig, type Kubeconfig, KubeconfigError, type User} from './kubeconfig.ts';

export interface LoadedKubeconfig {
  readonly config: Kubeconfig;
  /** Text for messages: which files were looked for, and which of them do not exist. */
  readonly tried: string;
}

/**
 * Reads the files kubectl would read: `--kubeconfig` (must exist), or the list in KUBECONFIG, or ~/.kube/config. Follows client-go's
 * ClientConfigLoadingRules.Load: the first file that has a name wins it whole, missing files are skipped.
 */
export function loadKubeconfig(explicit: string | undefined, environment: NodeJS.ProcessEnv): LoadedKubeconfig {
  const paths = explicit ? [explicit] : kubeconfigPaths(environment);
  const files = paths.map(path => ({path, content: readKubeconfigFile(path)}));
  const [only] = files;
  if (explicit && only?.content === null) {
    throw new KubeconfigError(`there is no kubeconfig ${explicit}. Was the path given to --kubeconfig right?`);
  }
  return {
    config: files.map(({content}) => content ?? emptyKubeconfig).reduce(merge, emptyKubeconfig),
    tried: files.map(({path, content}) => (content === null ? `${path} (not found)` : path)).join(', '),
  };
}

/** An empty KUBECONFIG counts as unset. */
function kubeconfigPaths(environment: NodeJS.ProcessEnv): readonly string[] {
  const list = environment['KUBECONFIG'] ?? '';
  if (list === '') return [join(environment['HOME'] || homedir(), '.kube', 'config')];
  return [...new Set(list.split(delimiter))].filter(path => path !== '');
}

function merge(first: Kubeconfig, second: Kubeconfig): Kubeconfig {
  return {
    currentContext: first.currentContext || second.currentContext,
    clusters: new Map([...second.clusters, ...first.clusters]),
    users: new Map([...second.users, ...first.users]),
    contexts: new Map([...second.contexts, ...first.contexts]),
  };
}

/** Reads one file and resolves its relative paths against its folder. Null if the file does not exist. Throws KubeconfigError. */
function readKubeconfigFile(path: string): Kubeconfig | null {
  const text = contentOf(path);
  if (text === null) return null;
  try {
    return isBlank(text) ? emptyKubeconfig : kubeconfigOf(load(text, {schema: CORE_SCHEMA}), resolve(path));
  } catch (error) {
    throw new KubeconfigError(`cannot use the kubeconfig ${path}: ${errorText(error).split('\n', 1)[0]}`, {cause: error});
  }
}

function contentOf(path: string): string | null {
  try {
    return readTextFile(path);
  } catch (error) {
    const {code} = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw new KubeconfigError(`cannot read the kubeconfig ${path}: ${errorText(error)}`, {cause: error});
  }
}

function isBlank(text: string): boolean {
  return text.split('\n').every(line => /^\s*(?:#|$)/.test(line));
}

function kubeconfigOf(document: unknown, path: string): Kubeconfig {
  const folder = dirname(path);
  if (document === undefined || document === null) return emptyKubeconfig;
  const file = mapping(document, 'the file');
  const currentContext = file['current-context'] ?? '';
  if (typeof currentContext !== 'string') throw new Error('current-context is not a string');
  return {
    currentContext,
    clusters: named(file, 'clusters', 'cluster', cluster => withPaths(cluster, ['certificate-authority'], folder)),
    users: named(file, 'users', 'user', user => ({...userOf(user, folder), origin: path})),
    contexts: named(file, 'contexts', 'context', context => context as Context),
  };
}

/** A list such as `clusters: [{name, cluster: {…}}]` by name. Like client-go, refuses a name that occurs twice in one file. */
function named<T>(file: Record<string, unknown>, list: string, key: string, read: (value: Record<string, unknown>) => T): Map<string, T> {
  const entries = new Map<string, T>();
  for (const [index, item] of listOf(file[list], list).entries()) {
    const where = `${list}[${index}]`;
    const entry = mapping(item, where);
    const name = entry['name'] ?? '';
    if (typeof name !== 'string') throw new Error(`the name of ${where} is not a string: put it in quotes`);
    if (entries.has(name)) throw new Error(`${list} has the name "${name}" twice`);
    const value = mapping(entry[key] ?? {}, `${key} "${name}"`);
    checkStrings(value, `${key} "${name}"`);
    entries.set(name, read(value));
  }
  return entries;
}

/** A plugin's command is a path relative to the file only if it has a separator; otherwise it is looked up in PATH. */
function userOf(value: Record<string, unknown>, folder: string): User {
  const user: User = withPaths(value, ['client-certificate', 'client-key', 'tokenFile'], folder);
  const command = user.exec?.command;
  if (!command?.includes(sep)) return user;
  return {...user, exec: {...(user.exec as ExecConfig), command: absolute(command, folder)}};
}

function withPaths(value: Record<string, unknown>, fields: readonly string[], folder: string): Record<string, unknown> {
  const result = {...value};
  for (const field of fields) {
    const path = result[field];
    if (typeof path === 'string' && path !== '') result[field] = absolute(path, folder);
  }
  return result;
}

function absolute(path: string, folder: string): string {
  return isAbsolute(path) ? path : join(folder, path);
}

const lists = new Set(['as-groups', 'args', 'env', 'extensions']);
const objects = new Set(['as-user-extra', 'auth-provider', 'exec', 'config']);
const booleans = new Set(['insecure-skip-tls-verify', 'disable-compression', 'provideClusterInfo']);

/** A token of digits is a number in YAML. Converted to a string it could lose leading zeros, so it is refused, like in kubectl. */
function checkStrings(value: Record<string, unknown>, where: string): void {
  for (const [field, content] of Object.entries(value)) {
    if (content === null || content === undefined) continue;
    const at = `${field} of ${where}`;
    if (lists.has(field)) listOf(content, at);
    else if (objects.has(field)) checkStrings(mapping(content, at), where);
    else if (booleans.has(field)) {
      if (typeof content !== 'boolean') throw new Error(`${at} is neither true nor false`);
    } else if (typeof content === 'number' || typeof content === 'boolean') throw new Error(`${at} is not a string: put it in quotes`);
  }
}

function mapping(value: unknown, where: string): Record<string, unknown> {
  if (!isObject(value)) throw new Error(`${where} is no mapping`);
  return value;
}

function listOf(value: unknown, where: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Error(`${where} is not a list`);
  return value;
}
