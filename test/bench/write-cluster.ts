// `node write-cluster.ts DIR SIZE`: writes a cluster from a process of its own.
// What a process holds is copied, and charged for, when it starts a child; the
// one that measures must never have held a cluster itself.
import process from 'node:process';
import type {ClusterSize} from './cluster-size.ts';
import {writeCluster} from './synthetic-cluster.ts';

const [dir, size] = process.argv.slice(2);
if (dir === undefined || size === undefined) {
  throw new Error('usage: write-cluster.ts DIR SIZE, where SIZE is JSON');
}
writeCluster(dir, JSON.parse(size) as ClusterSize);
