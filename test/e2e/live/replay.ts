import {existsSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {capturePath} from '../../fixtures.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';
import {bundleObjects} from '../../stand-in/bundle-objects.ts';
import type {ExecCommand, ExecReply} from '../../stand-in/exec.ts';
import type {ObjectLists, StoredObject} from '../../stand-in/object-store.ts';
import {kubeProxyAnswer} from '../../stand-in/kube-proxy-answers.ts';
import {kubeProxyPods} from '../../stand-in/kube-proxy-pods.ts';

export type ReplayOptions = Omit<ApiServerOptions, 'objects' | 'nodes'>;

/** An API server whose kube-proxy pods answer with what was captured of their node: for tests of what goes wrong on the way. */
export function startReplay(name: string, options: ReplayOptions = {}): Promise<ApiServer> {
  const capture = capturePath(name);
  const exec = (command: ExecCommand) => options.exec?.(command) ?? replay(join(capture, 'nodes', command.node), command.argv);
  const nodePage: ApiServerOptions['nodePage'] = (node, port, path) => kubeProxyAnswer(capture, node, port, path);
  return startApiServer({nodePage, ...options, objects: replayedObjects(capture), exec});
}

function replayedObjects(capture: string): ObjectLists {
  const objects = bundleObjects(capture);
  return {...objects, pods: [...(objects['pods'] ?? []), ...kubeProxyPods(objects['nodes'] as readonly StoredObject[])]};
}

/** What a command of a node printed. The node has no other programs than those of which something was captured. */
function replay(folder: string, argv: readonly string[]): ExecReply {
  const command = argv[0] === 'nsenter' ? argv.slice(argv.indexOf('--') + 1) : argv;
  if (command.join(' ') === 'iptables-save --version') return {stdout: 'iptables-save v1.8.9 (nf_tables)\n'};
  const contentOf = (file: string) => (existsSync(join(folder, file)) ? readFileSync(join(folder, file)) : null);
  if (command[0] === 'curl') return curlReply(command, url => contentOf(byUrl[url] ?? 'none'));
  const content = contentOf(byProgram[command[0] ?? ''] ?? 'none');
  if (content === null) return {argv: ['no-such-program']};
  return {stdout: command[0] === 'kube-proxy' ? `Kubernetes ${content.toString('utf8')}` : content};
}

const byProgram: Readonly<Record<string, string>> = {
  'iptables-save': 'iptables-save',
  'ip6tables-save': 'ip6tables-save',
  ip: 'addresses.json',
  sysctl: 'sysctls',
  'kube-proxy': 'kube-proxy-version',
};

const byUrl: Readonly<Record<string, string>> = {
  'http://127.0.0.1:10249/proxyMode': 'proxy-mode',
  'http://127.0.0.1:10249/configz': 'configz.json',
  'http://127.0.0.1:10249/metrics': 'metrics',
  'http://127.0.0.1:10256/healthz': 'healthz.json',
};

/** What curl prints for its URLs, each followed by what `-w` says; a page that is null is one of which nothing is known. */
function curlReply(argv: readonly string[], pageAt: (url: string) => Buffer | string | null): ExecReply {
  const pages = argv.filter(word => word.startsWith('http://')).map(url => ({url, page: pageAt(url)}));
  if (pages.some(({page}) => page === null)) return {exitCode: 52, stderr: 'curl: (52) Empty reply from server'};
  const format = argv.includes('-w') ? (argv[argv.indexOf('-w') + 1] ?? '') : '';
  const after = (url: string) => Buffer.from(format.replaceAll('\\n', '\n').replace('%{url_effective}', url));
  return {stdout: Buffer.concat(pages.flatMap(({url, page}) => [Buffer.from(page ?? ''), after(url)]))};
}
