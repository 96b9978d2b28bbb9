import {createHash} from 'node:crypto';
import {mkdtempSync, readFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {load} from 'js-yaml';
import packageJson from '../../package.json' with {type: 'json'};

/** Where `npm run release` has built what these tests are about. */
export const releaseFolder = process.env['SVC_TRACE_RELEASE'] ?? join(import.meta.dirname, '../../release');
export const {version} = packageJson;

export interface KrewPlatform {
  readonly selector: {readonly matchLabels: {readonly os: string; readonly arch: string}};
  readonly uri: string;
  readonly sha256: string;
  readonly bin: string;
  readonly files?: readonly {readonly from: string; readonly to: string}[];
}

export interface KrewManifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {readonly name: string};
  readonly spec: {
    readonly version: string;
    readonly homepage: string;
    readonly shortDescription: string;
    readonly description: string;
    readonly caveats: string;
    readonly platforms: readonly KrewPlatform[];
  };
}

export function krewManifestAt(path: string): KrewManifest {
  return load(readFileSync(path, 'utf8')) as KrewManifest;
}

export function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), 'svc-trace-package-'));
}
