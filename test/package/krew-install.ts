import {mkdirSync, mkdtempSync, symlinkSync} from 'node:fs';
import {join} from 'node:path';
import {extract} from 'tar';
import type {KrewPlatform} from './release-folder.ts';

/**
 * Installs an archive as krew does on Linux and macOS (internal/installation): unpacks it to store/NAME/VERSION, and links the `bin` of the
 * manifest as kubectl-NAME, with "_" for "-". Returns the folder that krew has its users put on PATH.
 */
export async function krewInstall(root: string, archive: string, {bin}: KrewPlatform): Promise<string> {
  const store = join(root, 'store/svc-trace');
  mkdirSync(store, {recursive: true});
  const folder = mkdtempSync(join(store, 'v'));
  await extract({file: archive, cwd: folder});
  mkdirSync(join(root, 'bin'));
  symlinkSync(join(folder, bin), join(root, 'bin/kubectl-svc_trace'));
  return join(root, 'bin');
}
