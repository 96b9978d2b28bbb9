import {ciliumAgentOn} from '../../collect/transports/host-agents.ts';
import {servedByCilium} from '../../preview/preview-run.ts';
import {readCluster} from '../../collect/cluster/read-cluster.ts';
import type {NodeDump, Snapshot} from '../../model/snapshot.ts';
import type {PreviewRunInput} from '../../preview/preview-run.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {emptyNodeDump, requireServices} from '../rules/choose-rules-node.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import {clearLeftovers, collectFrom} from '../nodes/node-intake.ts';
import {type NodeSourceFlags, nodeSource} from '../nodes/node-source.ts';

/** Takes nodes one by one: a `PreviewRun` or a `PlanCheckRun`. */
export interface NodeByNode<T> {
  add(node: NodeDump): void;
  addExpected(node: NodeDump, reason: string): void;
  addUnread(name: string, reason: string): void;
  result(): T;
}

interface PreviewClusterRun<T> extends Pick<ClusterRun, 'cluster' | 'signal' | 'progress'> {
  readonly flags: NodeSourceFlags;
  /** The planned change, which can depend on the API objects. */
  readonly input: (snapshot: Snapshot) => PreviewRunInput;
  readonly start: (input: PreviewRunInput) => NodeByNode<T>;
  readonly chooses: (snapshot: Snapshot) => (name: string) => boolean;
}

/** Reads the API and the nodes of a cluster, and adds each node as it arrives. */
export async function previewCluster<T>({flags, cluster, signal, progress, input, start, chooses}: PreviewClusterRun<T>): Promise<T> {
  progress.say('reading the API');
  const {api, problems} = await unlessAborted(readCluster(cluster.api, {kind: 'cluster'}), signal);
  const snapshot: Snapshot = {origin: cluster.description, api, nodes: [], problems};
  requireServices(snapshot);
  const plan = input(snapshot);
  if (plan.expectedOnly) {
    const run = start(plan);
    const names = api.nodes?.map(({metadata}) => metadata.name).filter(chooses(snapshot)) ?? flags.node ?? [];
    for (const name of names) run.add(emptyNodeDump(name));
    return run.result();
  }
  const source = await unlessAborted(nodeSource(flags, {api: cluster.api, objects: api.nodes}), signal);
  const {nodes, transport, pods} = source;
  await clearLeftovers(transport, {cluster, flags});
  const run = start({
    ...plan,
    api: {...plan.api, pods},
    apiAfter: plan.apiAfter === plan.api ? {...plan.api, pods} : {...plan.apiAfter, pods},
  });
  for await (const node of collectFrom(source, nodes, {signal, progress, wants: file => !file.startsWith('conntrack')})) {
    const reason = node.problems.map(({message}) => message).join('; ');
    if (node.status !== 'unread') run.add(node);
    else if (nodes.some(info => info.name === node.name && ciliumAgentOn(info) !== null)) run.addUnread(node.name, servedByCilium);
    // Without the right to read nodes, the change of kube-proxy's own rules is still previewed.
    else if (node.problems.some(({isPermanent}) => isPermanent === true)) run.addExpected(emptyNodeDump(node.name), reason);
    else run.addUnread(node.name, reason);
  }
  return run.result();
}
