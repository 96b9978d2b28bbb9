import {readCluster} from '../../collect/cluster/read-cluster.ts';
import type {Snapshot} from '../../model/snapshot.ts';
import type {OpenCluster} from '../open-cluster.ts';
import {emptyNodeDump} from './choose-rules-node.ts';

/** The API objects of a cluster, and its nodes without dumps: no node is read. */
export async function readApi({api, description}: OpenCluster): Promise<Snapshot> {
  const reading = await readCluster(api, {kind: 'cluster'});
  const nodes = (reading.api.nodes ?? []).map(({metadata}) => emptyNodeDump(metadata.name));
  return {origin: description, api: reading.api, nodes, problems: reading.problems};
}
