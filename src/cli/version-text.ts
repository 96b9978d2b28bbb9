import process from 'node:process';
import {packageJson} from './package-json.ts';

/** The version of the program in this folder, and what it runs on: `kubectl-svc-trace/1.2.3 linux-x64 node-v24.21.0`. */
export function versionText(root: string): string {
  const {name, version} = packageJson(root);
  return `${name}/${version} ${process.platform}-${process.arch} node-${process.version}`;
}
