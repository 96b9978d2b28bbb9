import {existsSync, readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {type ApiServer, type ApiServerOptions, startApiServer} from './api-server.ts';
import {bundleObjects} from './bundle-objects.ts';
import type {ExecCommand, ExecReply} from './exec.ts';
import {kubeProxyAnswer} from './kube-proxy-answers.ts';

/** None but in the long tests: each exec has a connection of its own, and TLS takes a third of the time of such a run. */
export const usualCertificate = process.env['SVC_TRACE_LONG'] === '1' ? 'server' : 'none';

/** A cluster made of a bundle: its API objects, and on every node a pod of kube-proxy in which commands print what the bundle holds. */
export function startBundleCluster(folder: string, options: ApiServerOptions = {}): Promise<ApiServer> {
  const objects = bundleObjects(folder);
  const nodes = readdirSync(join(folder, 'nodes'));
  const pods = [...(objects['pods'] ?? []), ...nodes.map(proxyPod)];
  const exec = (command: ExecCommand) => options.exec?.(command) ?? bundleReply(folder, command);
  const nodePage: ApiServerOptions['nodePage'] = (node, port, path) => kubeProxyAnswer(folder, node, port, path);
  return startApiServer({certificate: usualCertificate, nodePage, ...options, objects: {...objects, pods, ...options.objects}, exec});
}

/** As kubeadm makes it. */
export function proxyPod(node: string): object {
  return {
    metadata: {namespace: 'kube-system', name: `kube-proxy-${node}`, labels: {'k8s-app': 'kube-proxy'}},
    spec: {nodeName: node, hostNetwork: true, containers: [{name: 'kube-proxy', image: ''}]},
    status: {phase: 'Running'},
  };
}

/** The file that a command's output would be, else "command not found". */
export function bundleReply(folder: string, {node, argv}: Pick<ExecCommand, 'node' | 'argv'>): ExecReply {
  const [program = '', ...args] = argv;
  if (program === 'iptables-save' && args.length > 0) return {stdout: 'iptables-save v1.8.9 (nf_tables)\n'};
  const contentOf = (file: string) =>
    existsSync(join(folder, 'nodes', node, file)) ? readFileSync(join(folder, 'nodes', node, file)) : null;
  const stdout = contentOf(program === 'nft' ? 'nft.json' : (programFiles[program] ?? program));
  // One file holds the tables of both families.
  if (stdout !== null && argv.join(' ') === 'nft list flowtables') return {stdout: 'table ip kube-proxy {\n}\n'};
  return stdout === null ? {exitCode: 127, stderr: `${program}: not found`} : {stdout};
}

const programFiles: Readonly<Record<string, string>> = {'kube-proxy': 'kube-proxy-version', ip: 'addresses.json', sysctl: 'sysctls'};
