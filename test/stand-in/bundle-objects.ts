import {existsSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import type {ObjectLists} from './object-store.ts';

const files = ['services', 'endpointslices', 'endpoints', 'nodes', 'pods', 'configmaps', 'servicecidrs', 'networkpolicies'];

/** The API objects of a bundle, for `startApiServer`. */
export function bundleObjects(folder: string): ObjectLists {
  const found = files.map(name => [name, join(folder, 'api', `${name}.json`)] as const).filter(([, file]) => existsSync(file));
  return Object.fromEntries(found.map(([name, file]) => [name, (JSON.parse(readFileSync(file, 'utf8')) as {items: object[]}).items ?? []]));
}
