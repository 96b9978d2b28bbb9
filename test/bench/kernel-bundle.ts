// `kernel-bundle.ts DIR BACKEND`: the cluster of a bundle of one node behind an API server, in a process of its own. The rules of the node
// are in the kernel, in a network namespace, and what lists them are iptables' own programs of that backend, `nft` or `legacy`.
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {Namespace} from '../e2e/kernel/namespace.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import type {ExecCommand, ExecReply} from '../stand-in/exec.ts';
import type {LiveBundleReady} from './live-bundle.ts';

if (process.send !== undefined) {
  const [folder = '', backend = ''] = process.argv.slice(2);
  const [node = ''] = readdirSync(join(folder, 'nodes'));
  const namespace = await Namespace.open();
  for (const program of ['iptables', 'ip6tables'])
    namespace.run(`${program}-${backend}-restore`, [], readFileSync(join(folder, 'nodes', node, `${program}-save`), 'latin1'));
  const server = await startBundleCluster(folder, {certificate: 'server', exec: command => inNamespace(namespace, backend, command)});
  process.on('disconnect', () => void Promise.all([server.close(), namespace[Symbol.asyncDispose]()]).then(() => process.exit()));
  process.send({kubeconfig: server.kubeconfig} satisfies LiveBundleReady);
}

/** `iptables` and its kin are those of the backend, as the links of an image make them; null for other commands. */
function inNamespace({enter}: Namespace, backend: string, {argv: [program = '', ...args]}: ExecCommand): ExecReply | null {
  const [, name, save = ''] = /^(ip6?tables)(-save)?$/.exec(program) ?? [];
  return name === undefined ? null : {argv: [...enter, `${name}-${backend}${save}`, ...args]};
}
