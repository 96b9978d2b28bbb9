// `node write-cluster.ts DIR SIZE`: writes the bundles of a cluster from a process of its own, so that what measures never has to hold
// a cluster itself.
import {linkSync, mkdirSync, readdirSync, readFileSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {buildCluster} from './build-cluster.ts';
import type {ClusterSize} from './cluster-size.ts';
import {withReplacedEndpoints} from './replace-endpoints.ts';
import {writeApiObjects, writeBundle} from './synthetic-cluster.ts';
import {writeText} from './text-file.ts';
import type {Target, WrittenBundles} from './written-bundles.ts';
import {podAddress, PODS_PER_NODE} from './address-plan.ts';
import type {Cluster, Service} from './model.ts';

const [dir, json] = process.argv.slice(2);
if (dir === undefined || json === undefined) throw new Error('usage: write-cluster.ts DIR SIZE, where SIZE is JSON');
const size = JSON.parse(json) as ClusterSize;
const before = join(dir, 'before');
const after = join(dir, 'after');
const stopped = join(dir, 'stopped');
const cluster = buildCluster(size);
const target = chooseTarget(cluster);
writeBundle(before, cluster, size.proxyMode);
const broken = size.proxyMode === 'nftables' ? [] : writeAfter();
linkFiles(before, stopped, path => path.startsWith('nodes/'));
writeApiObjects(stopped, withReplacedEndpoints(cluster, 0.3, size.seed));
writeFileSync(
  join(dir, 'bundles.json'),
  JSON.stringify({before, after, stopped, nodes: cluster.nodes.map(({name}) => name), target, broken} satisfies WrittenBundles),
);

/** Returns the endpoints without a rule. */
function writeAfter(): readonly string[] {
  const dump = join('nodes', target.node, 'iptables-save');
  linkFiles(before, after, path => path !== dump);
  return writeBroken(join(before, dump), join(after, dump), Math.max(1, Math.round(size.services / 100)));
}

/** Some of the files, without a copy. */
function linkFiles(from: string, to: string, isWanted: (path: string) => boolean): void {
  const files = readdirSync(from, {recursive: true, withFileTypes: true}).filter(entry => entry.isFile());
  for (const path of files.map(entry => join(entry.parentPath, entry.name).slice(from.length + 1))) {
    if (!isWanted(path)) continue;
    mkdirSync(dirname(join(to, path)), {recursive: true});
    linkSync(join(from, path), join(to, path));
  }
}

/** Copies a dump without some of the rules that rewrite to an endpoint, as far from each other as can be. */
function writeBroken(from: string, to: string, count: number): readonly string[] {
  const lines = readFileSync(from, 'latin1').trimEnd().split('\n');
  const rewriting = lines.flatMap((line, index) => (/^-A KUBE-SEP-.* --to-destination /.test(line) ? [index] : []));
  const step = rewriting.length / count;
  const missing = new Set(Array.from({length: count}, (_, number) => rewriting[Math.floor(number * step)] ?? 0));
  writeText(
    to,
    lines.filter((_, index) => !missing.has(index)),
  );
  return [...missing].map(index => lines[index]?.split(' ').at(-1) ?? '').sort();
}

/** The last plain Service of the cluster, asked from a pod of the first node. Throws where there is none. */
function chooseTarget({services, nodes}: Cluster): Target {
  const service = services.findLast(isPlain);
  const [node] = nodes;
  const [port] = service?.ports ?? [];
  if (service === undefined || node === undefined || port === undefined)
    throw new RangeError('the cluster is too small to have a plain Service');
  return {
    node: node.name,
    service: `${service.namespace}/${service.name}`,
    // The first node's pods have its first addresses; the last one is no endpoint.
    source: podAddress('IPv4', 0, PODS_PER_NODE - 1),
    clusterIP: service.clusterIPs[0] ?? '',
    port: port.port,
    endpoints: service.endpoints.IPv4.map(({address}) => `${address}:${port.targetPort}`).sort(),
  };
}

function isPlain({type, name, families, ports, clusterIPs, externalIPs, affinitySeconds, internalLocal, endpoints}: Service): boolean {
  return (
    type === 'ClusterIP' &&
    // The two that every cluster has are not like others.
    !['kubernetes', 'kube-dns'].includes(name) &&
    families.join() === 'IPv4' &&
    ports.length === 1 &&
    ports[0]?.protocol === 'TCP' &&
    clusterIPs[0] !== 'None' &&
    externalIPs.length === 0 &&
    affinitySeconds === 0 &&
    !internalLocal &&
    endpoints.IPv4.length > 0 &&
    endpoints.IPv4.every(({ready}) => ready)
  );
}
