import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {onTestFinished} from 'vitest';

/** A folder with these files, gone after the test. */
export function folderWith(files: Readonly<Record<string, string | object>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-kube-'));
  onTestFinished(() => rmSync(folder, {recursive: true, force: true}));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), {recursive: true});
    writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content), {mode: 0o755});
  }
  return folder;
}

interface Parts {
  readonly cluster?: object;
  readonly user?: object;
  readonly context?: object;
}

/** A kubeconfig of one cluster, user and context, all of the same name. */
export function kubeconfig(name: string, {cluster, user, context}: Parts = {}): Record<string, unknown> {
  return {
    'current-context': name,
    clusters: [{name, cluster: {server: `https://${name}.example:6443`, ...cluster}}],
    users: [{name, user: {token: `token-of-${name}`, ...user}}],
    contexts: [{name, context: {cluster: name, user: name, ...context}}],
  };
}
