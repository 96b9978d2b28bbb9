import {mkdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {writeEndpointSlices, writeNodes, writeServices} from './api-objects.ts';
import {buildCluster} from './build-cluster.ts';
import type {ClusterSize, ProxyMode} from './cluster-size.ts';
import {dumpLines} from './dump.ts';
import type {Cluster} from './model.ts';
import {nftDump} from './nft-dump.ts';
import {writeNodeFiles} from './node-files.ts';
import {writeText} from './text-file.ts';

/**
 * Writes a bundle of a made-up cluster whose nodes are in step with its API
 * objects: what kube-proxy 1.36 would write in iptables mode, or 1.35 in
 * nftables mode, rule by rule.
 *
 * Nothing here comes from the product's own sources. The two were written
 * apart, from what kube-proxy does, so that a mistake in one shows in the other.
 * There are no pods: a missing file is "not looked at", an endpoint without its
 * pod would be a finding.
 */
export function writeCluster(dir: string, size: ClusterSize): void {
  writeBundle(dir, buildCluster(size), size.proxyMode);
}

export function writeBundle(dir: string, cluster: Cluster, mode: ProxyMode = 'iptables'): void {
  writeApiObjects(dir, cluster);
  for (const node of cluster.nodes) {
    const nodeDir = join(dir, 'nodes', node.name);
    mkdirSync(nodeDir, {recursive: true});
    writeNodeFiles(nodeDir, {cluster, node, mode});
    if (mode === 'nftables') writeFileSync(join(nodeDir, 'nft.json'), nftDump(cluster, node));
    else {
      writeText(join(nodeDir, 'iptables-save'), dumpLines(cluster, node, 'IPv4'));
      writeText(join(nodeDir, 'ip6tables-save'), dumpLines(cluster, node, 'IPv6'));
    }
  }
}

export function writeApiObjects(dir: string, cluster: Cluster): void {
  const api = join(dir, 'api');
  mkdirSync(api, {recursive: true});
  writeServices(join(api, 'services.json'), cluster);
  writeEndpointSlices(join(api, 'endpointslices.json'), cluster);
  writeNodes(join(api, 'nodes.json'), cluster);
}
