import {cpSync, globSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {root} from './run.ts';

/** The digest of each image, such as `sha256:…`, by the name of the image without its registry. */
export type Digests = Readonly<Record<string, string>>;

/** Those that the release workflow passes on as JSON in `SVC_TRACE_IMAGES`; undefined where images are not built yet. */
export function givenDigests(): Digests | undefined {
  const given = process.env['SVC_TRACE_IMAGES'];
  return given === undefined ? undefined : JSON.parse(given);
}

/** Copies the manifests of deploy/ into `folder`, with the digests, if they are known, beside the tags of images. */
export function writeManifests(folder: string, digests?: Digests): void {
  cpSync(join(root, 'deploy'), folder, {recursive: true, filter: path => !/deploy[\\/](?:images|chart)\b/.test(path)});
  if (digests === undefined) return;
  for (const file of globSync('**/*.yaml', {cwd: folder})) {
    const path = join(folder, file);
    const text = readFileSync(path, 'utf8');
    writeFileSync(
      path,
      text.replace(/ghcr\.io\/svc-trace\/([\w-]+):[\w.-]+$/gm, (image, name: string) => `${image}@${digestOf(name, digests)}`),
    );
  }
}

/** Throws if there is none. */
export function digestOf(name: string, digests: Digests): string {
  const digest = digests[name];
  if (digest === undefined || !/^sha256:[0-9a-f]{64}$/.test(digest))
    throw new Error(`the digest of the image ${name} is ${digest ?? 'missing'}`);
  return digest;
}
