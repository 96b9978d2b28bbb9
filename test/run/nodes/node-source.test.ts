import {afterEach, expect, test} from 'vitest';
import {openCluster} from '../../../src/run/open-cluster.ts';
import {nodeSource} from '../../../src/run/nodes/node-source.ts';
import {type ApiServer, startApiServer} from '../../stand-in/api-server.ts';

const servers: ApiServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const flags = {transport: 'auto', concurrency: 16, 'node-timeout': '10s'};
const proxyPod = (node: string) => ({
  metadata: {namespace: 'kube-system', name: `kube-proxy-${node}`, labels: {'k8s-app': 'kube-proxy'}},
  spec: {nodeName: node, hostNetwork: true, containers: [{name: 'kube-proxy'}]},
  status: {phase: 'Running'},
});
const objects = [
  {metadata: {name: 'node-a'}, status: {addresses: [{type: 'InternalIP', address: '192.0.2.1'}]}},
  {metadata: {name: 'win-1', labels: {'kubernetes.io/os': 'windows'}}},
];

async function sourceOf(more: object, nodes: typeof objects | null = objects) {
  const server = await startApiServer({objects: {pods: [proxyPod('node-a')]}});
  servers.push(server);
  const {api} = openCluster({kubeconfig: server.kubeconfig});
  try {
    return {source: await nodeSource({...flags, ...more}, {api, objects: nodes}), server};
  } finally {
    api.close();
  }
}

test('nodes have their addresses and the pods through which they are read', async () => {
  const {source} = await sourceOf({});
  expect(source.transport.name).toBe('exec');
  expect(source.timeoutMs).toBe(10_000);
  expect(source.nodes.map(({name, addresses, pods}) => [name, addresses.length, pods.map(({metadata}) => metadata.name)])).toEqual([
    ['node-a', 1, ['kube-proxy-node-a']],
    ['win-1', 0, []],
  ]);
});

test('no pod of kube-proxy is searched for on a Windows node', async () => {
  const {server} = await sourceOf({});
  expect(server.requests).toHaveLength(2);
});

test('without the right to list Nodes, the nodes are those that pods of kube-proxy run on', async () => {
  const {source} = await sourceOf({}, null);
  expect(source.nodes.map(({name}) => name)).toEqual(['node-a']);
});

test('without the right to list Nodes, a named node is trusted', async () => {
  const {source} = await sourceOf({node: ['node-z']}, null);
  expect(source.nodes.map(({name}) => name)).toEqual(['node-z']);
});

test('a transport is chosen by name', async () => {
  const {source} = await sourceOf({transport: 'ssh', 'ssh-user': 'core'});
  expect(source.transport.name).toBe('ssh');
});

test('a timeout that is not a duration is wrong use', async () => {
  await expect(sourceOf({'node-timeout': 'soon'})).rejects.toMatchObject({oclif: {exit: 2}});
});
