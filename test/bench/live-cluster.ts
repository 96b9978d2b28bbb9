// `live-cluster.ts SIZE`: a made-up cluster behind an API server, in a process of its own, so that what measures and what is measured
// hold none of it. Every node's kube-proxy pod prints the rules that it should hold, which are written when they are asked for.
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {startApiServer} from '../stand-in/api-server.ts';
import {bundleObjects} from '../stand-in/bundle-objects.ts';
import type {ExecCommand, ExecReply} from '../stand-in/exec.ts';
import {kubeProxyPods} from '../stand-in/kube-proxy-pods.ts';
import type {StoredObject} from '../stand-in/object-store.ts';
import {buildCluster} from './build-cluster.ts';
import type {ClusterSize} from './cluster-size.ts';
import {dumpLines} from './dump.ts';
import type {Cluster, Family} from './model.ts';
import {interfaces} from './node-files.ts';
import {writeApiObjects} from './synthetic-cluster.ts';

/** The message of the process when it is ready. */
export interface LiveClusterReady {
  readonly kubeconfig: string;
  readonly nodes: number;
  /** Of the first node. */
  readonly rules: number;
}

if (process.send !== undefined) {
  const cluster = buildCluster(JSON.parse(process.argv[2] ?? '') as ClusterSize);
  const nodePage = (node: string, _port: string, path: string) => ({body: pages(cluster, node)[path.slice(1)] ?? ''});
  const server = await startApiServer({objects: objectsOf(cluster), exec: command => reply(cluster, command), nodePage});
  process.on('disconnect', () => void server.close().then(() => process.exit()));
  const [first] = cluster.fleet;
  const rules =
    first === undefined
      ? 0
      : [...dumpLines(cluster, first, 'IPv4'), ...dumpLines(cluster, first, 'IPv6')].filter(line => line.startsWith('-A')).length;
  process.send({kubeconfig: server.kubeconfig, nodes: cluster.fleet.length, rules} satisfies LiveClusterReady);
}

function objectsOf(cluster: Cluster): ReturnType<typeof bundleObjects> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-bench-api-'));
  try {
    writeApiObjects(folder, cluster);
    const objects = bundleObjects(folder);
    return {...objects, pods: kubeProxyPods(objects['nodes'] as readonly StoredObject[])};
  } finally {
    rmSync(folder, {recursive: true});
  }
}

function reply(cluster: Cluster, {node: name, argv}: ExecCommand): ExecReply {
  const node = cluster.fleet.find(other => other.name === name);
  const dump = (family: Family) => (node === undefined ? '' : `${[...dumpLines(cluster, node, family)].join('\n')}\n`);
  const command = argv.join(' ');
  if (command === 'iptables-save --version') return {stdout: 'iptables-save v1.8.9 (nf_tables)\n'};
  if (command === 'iptables-save') return {stdout: dump('IPv4')};
  if (command === 'ip6tables-save') return {stdout: dump('IPv6')};
  if (command === 'kube-proxy --version') return {stdout: 'Kubernetes v1.36.2\n'};
  if (command === 'ip -j addr' && node !== undefined) return {stdout: JSON.stringify(interfaces(node))};
  return {argv: ['no-such-program']};
}

function pages(cluster: Cluster, node: string): Readonly<Record<string, string>> {
  return {proxyMode: 'iptables', configz: configz(cluster, node), healthz: '{}', metrics: ''};
}

function configz({podCIDR}: Cluster, hostnameOverride: string): string {
  const clusterCIDR = `${podCIDR.IPv4},${podCIDR.IPv6}`;
  return JSON.stringify({'kubeproxy.config.k8s.io': {kind: 'KubeProxyConfiguration', mode: 'iptables', hostnameOverride, clusterCIDR}});
}
