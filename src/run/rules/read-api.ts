import {readProxyPods} from '../../collect/cluster/read-agent-pods.ts';
import {readCluster} from '../../collect/cluster/read-cluster.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import type {OpenCluster} from '../open-cluster.ts';
import {emptyNodeDump} from './choose-rules-node.ts';

/**
 * The API objects of a cluster, and its nodes without dumps: no node is read. kube-proxy's pod on the node of this name, or on the only
 * one, tells its version and arguments where pods may be listed.
 */
export async function readApi({api, description}: OpenCluster, node: string | undefined): Promise<Snapshot> {
  const reading = await readCluster(api, {kind: 'cluster'});
  const names = (reading.api.nodes ?? []).map(({metadata}) => metadata.name);
  const wanted = node ?? (names.length === 1 ? names[0] : undefined);
  const pods = wanted === undefined ? null : (await readProxyPods(api, wanted)).pods;
  return {origin: description, api: {...reading.api, pods}, nodes: names.map(emptyNodeDump), problems: reading.problems};
}
