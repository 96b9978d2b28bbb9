import {readFileSync} from 'node:fs';
import {dirname, isAbsolute, join, resolve, sep} from 'node:path';
import {CORE_SCHEMA, load} from 'js-yaml';
import {type Cluster, type Context, emptyKubeconfig, type ExecConfig, type Kubeconfig, KubeconfigError, type User} from './kubeconfig.ts';
import {errorText} from '../../model/text/error-text.ts';

/** Reads one file and resolves its relative paths against its folder. Null if the file does not exist. Throws KubeconfigError. */
export function readKubeconfigFile(path: string): Kubeconfig | null {
  const text = contentOf(path);
  if (text === null) return null;
  try {
    return isBlank(text) ? emptyKubeconfig : kubeconfigOf(load(text, {schema: CORE_SCHEMA}), resolve(path));
  } catch (error) {
    throw new KubeconfigError(`cannot use the kubeconfig ${path}: ${errorText(error).split('\n', 1)[0]}`, {
      cause: error,
    });
  }
}

function contentOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
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
    clusters: named(file, 'clusters', 'cluster', cluster => clusterOf(cluster, folder)),
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

function clusterOf(value: Record<string, unknown>, folder: string): Cluster {
  return withPaths(value, ['certificate-authority'], folder);
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
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error(`${where} is no mapping`);
  return value as Record<string, unknown>;
}

function listOf(value: unknown, where: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Error(`${where} is not a list`);
  return value;
}
