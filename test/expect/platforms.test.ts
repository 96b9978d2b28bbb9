import {readdirSync} from 'node:fs';
import {load} from 'js-yaml';
import {describe, expect, test} from 'vitest';
import {k3sRunsKubeProxy, kubeProxyPod} from '../../src/expect/kube-proxy-pod.ts';
import {resolveProxyConfig} from '../../src/expect/resolve-proxy-config.ts';
import type {ConfigMapObject, NodeObject, PodObject} from '../../src/model/api-objects.ts';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import {parseNodeArgs} from '../../src/parse/kube-proxy/kube-proxy-config.ts';
import {apiObjects, nodeDump} from '../cluster.ts';
import {fixture, readFixture} from '../fixtures.ts';

interface Platform {
  readonly nodes: readonly NodeObject[];
  readonly pods: readonly PodObject[];
  readonly configMaps: readonly ConfigMapObject[];
}

const platform = (name: string) => load(readFixture(`platforms/${name}.yaml`).toString()) as Platform;
const objectsOf = ({nodes, pods, configMaps}: Platform): ApiObjects => apiObjects({nodes, pods, configMaps});
const inferred = {clusterCIDRs: ['192.0.2.0/24'], masqueradeBit: 3};

function resolve(objects: Platform, node = objects.nodes.at(-1)?.metadata.name ?? '') {
  return resolveProxyConfig(nodeDump(node, {}), objectsOf(objects), {}, () => inferred);
}

/** What the last node of a platform's objects comes to: pod, version, and the settings that are not kube-proxy's default. */
function settingsOf(name: string): Record<string, unknown> {
  const objects = platform(name);
  const {config, problems} = resolve(objects);
  expect(problems).toEqual([]);
  const {version, nodeName, zone: _, ...others} = config;
  const found = Object.entries(others).filter(([, {source}]) => source !== 'kube-proxy default');
  return {
    pod: kubeProxyPod(objectsOf(objects), objects.nodes.at(-1)?.metadata.name ?? '')?.metadata.name ?? null,
    version: [version.value.text, version.source, version.value.guessed === true ? 'guessed' : 'said'],
    nodeName: nodeName.value,
    ...Object.fromEntries(found.map(([key, {value, source}]) => [key, [value, source]])),
  };
}

const image = "image of kube-proxy's pod";
const expected: Readonly<Record<string, object>> = {
  kubeadm: {
    pod: 'kube-proxy-p4jmn',
    version: ['v1.33.5', image, 'said'],
    nodeName: 'node-a',
    clusterCIDRs: [['10.244.0.0/16'], 'ConfigMap kube-proxy'],
    masqueradeAll: [false, 'ConfigMap kube-proxy'],
    bindAddress: ['0.0.0.0', 'ConfigMap kube-proxy'],
  },
  eks: {
    pod: 'kube-proxy-7xk2d',
    version: ['v1.28.8-minimal-eksbuild.2', image, 'said'],
    nodeName: 'ip-10-0-1-7.eu-west-1.compute.internal',
    mode: ['iptables', 'ConfigMap kube-proxy-config'],
    masqueradeAll: [true, 'ConfigMap kube-proxy-config'],
    masqueradeBit: [14, 'ConfigMap kube-proxy-config'],
    bindAddress: ['0.0.0.0', 'ConfigMap kube-proxy-config'],
  },
  gke: {
    pod: 'kube-proxy-gke-c1-default-pool-1a2b3c4d-wxyz',
    version: ['v1.28.1-gke.100', image, 'said'],
    nodeName: 'gke-c1-default-pool-1a2b3c4d-wxyz',
    clusterCIDRs: [['10.8.0.0/14'], 'arguments of pod kube-proxy-gke-c1-default-pool-1a2b3c4d-wxyz'],
    detectLocalMode: ['NodeCIDR', 'arguments of pod kube-proxy-gke-c1-default-pool-1a2b3c4d-wxyz'],
    featureGates: [
      {DynamicKubeletConfig: false, RotateKubeletServerCertificate: true},
      'arguments of pod kube-proxy-gke-c1-default-pool-1a2b3c4d-wxyz',
    ],
  },
  aks: {
    pod: 'kube-proxy-9pqrs',
    version: ['v1.29.4-hotfix.20240527', image, 'said'],
    nodeName: 'aks-nodepool1-12345678-vmss000000',
    clusterCIDRs: [['10.251.0.0/16'], 'arguments of pod kube-proxy-9pqrs'],
    detectLocalMode: ['InterfaceNamePrefix', 'arguments of pod kube-proxy-9pqrs'],
    interfaceNamePrefix: ['azv', 'arguments of pod kube-proxy-9pqrs'],
  },
  rke2: {
    pod: 'kube-proxy-worker-1',
    version: ['v1.28.2-rke2r1-build20230913', image, 'said'],
    nodeName: 'worker-1',
    mode: ['iptables', 'arguments of pod kube-proxy-worker-1'],
    clusterCIDRs: [['10.42.0.0/16'], 'arguments of pod kube-proxy-worker-1'],
  },
  k3s: {
    pod: null,
    version: ['v1.31.1+k3s1', 'k3s in the Node status: kube-proxy is a part of it', 'said'],
    nodeName: 'k3s-agent',
    mode: ['iptables', 'arguments of k3s in the Node'],
    clusterCIDRs: [['10.42.0.0/16'], 'arguments of k3s in the Node'],
    masqueradeAll: [true, 'arguments of k3s in the Node'],
    masqueradeBit: [15, 'arguments of k3s in the Node'],
  },
  'openshift-kube-proxy': {
    pod: 'openshift-kube-proxy-f5xsc',
    version: ['v1.29.6+aba1e8d', 'Node status', 'guessed'],
    nodeName: 'worker-0',
    mode: ['iptables', 'ConfigMap proxy-config'],
    clusterCIDRs: [['10.128.0.0/14'], 'ConfigMap proxy-config'],
    masqueradeAll: [false, 'ConfigMap proxy-config'],
    masqueradeBit: [0, 'ConfigMap proxy-config'],
    bindAddress: ['0.0.0.0', 'ConfigMap proxy-config'],
  },
  'openshift-sdn': {
    pod: 'sdn-x4tqp',
    version: ['v1.25.4+77bec7a', 'Node status', 'guessed'],
    nodeName: 'worker-0',
    mode: ['iptables', 'ConfigMap sdn-config'],
    clusterCIDRs: [['10.128.0.0/14'], 'ConfigMap sdn-config'],
    masqueradeAll: [false, 'ConfigMap sdn-config'],
    masqueradeBit: [0, 'ConfigMap sdn-config'],
    bindAddress: ['0.0.0.0', 'ConfigMap sdn-config'],
  },
  talos: {
    pod: 'kube-proxy-8bqkd',
    version: ['v1.33.2', image, 'said'],
    nodeName: 'talos-abc-123',
    mode: ['nftables', 'arguments of pod kube-proxy-8bqkd'],
    clusterCIDRs: [['10.244.0.0/16'], 'arguments of pod kube-proxy-8bqkd'],
  },
};

test.each(Object.keys(expected))('kube-proxy and its settings are found on %s', name => {
  expect(settingsOf(name)).toEqual(expected[name]);
});

test('every platform with fixtures is tested', () => {
  expect(readdirSync(fixture('platforms')).map(file => file.replace('.yaml', ''))).toEqual(Object.keys(expected).sort());
});

describe('a ConfigMap', () => {
  test('that the pod does not mount is a leftover, and is ignored', () => {
    const {pods, nodes} = platform('talos');
    const {configMaps} = platform('kubeadm');
    expect(resolve({pods, nodes, configMaps}).config.masqueradeAll.source).toBe('kube-proxy default');
  });

  test('is used if no pod is known', () => {
    const {nodes, configMaps} = platform('eks');
    expect(resolve({pods: [], nodes, configMaps}).config.masqueradeAll).toEqual({value: true, source: 'ConfigMap kube-proxy-config'});
  });
});

describe('k3s', () => {
  const [server, agent] = platform('k3s').nodes;
  if (server === undefined || agent === undefined) throw new Error('no nodes');
  const withArgs = (node: NodeObject, ...args: readonly string[]): NodeObject => ({
    ...node,
    metadata: {...node.metadata, annotations: {'k3s.io/node-args': JSON.stringify(args)}},
  });
  const cidrs = (...nodes: readonly NodeObject[]) => resolve({nodes, pods: [], configMaps: []}, 'k3s-agent').config.clusterCIDRs;

  test('has the network of its servers', () => {
    const nodes = [withArgs(server, 'server', '--cluster-cidr', '10.7.0.0/16,fd00:7::/56'), agent];
    expect(cidrs(...nodes).value).toEqual(['10.7.0.0/16', 'fd00:7::/56']);
  });

  test.each([
    ['no server is seen', [agent]],
    ['the servers do not agree', [server, withArgs({...server, metadata: {name: 'other'}}, 'server', '--cluster-cidr=10.7.0.0/16'), agent]],
    ['the pods of the node are elsewhere', [server, {...agent, spec: {podCIDR: '10.7.1.0/24'}}]],
  ])('whose %s gets the network from the rules', (_, nodes) => {
    expect(cidrs(...nodes)).toEqual({value: ['192.0.2.0/24'], source: "seen in the node's rules"});
  });

  test('passes its own flags on to kube-proxy, which ignores them if it has a configuration file', () => {
    const mode = (...args: readonly string[]) =>
      resolve({nodes: [server, withArgs(agent, 'agent', ...args)], pods: [], configMaps: []}).config.mode;
    expect(mode('--kube-proxy-arg=proxy-mode=ipvs').value).toBe('ipvs');
    expect(mode('--kube-proxy-arg', '--proxy-mode=nftables').value).toBe('nftables');
    expect(mode('--kube-proxy-arg=config=/etc/kp.yaml').source).toBe('kube-proxy default');
  });

  test('shows when it does not run kube-proxy', () => {
    const off = withArgs(server, 'server', '--disable-kube-proxy');
    const runs = (...nodes: readonly NodeObject[]) => k3sRunsKubeProxy(agent, apiObjects({nodes}));
    expect(runs(server, agent)).toBe(true);
    expect(runs(off, agent)).toBe(false);
    expect(runs(withArgs(server, 'server', '--disable-kube-proxy', 'false'), agent)).toBe(true);
    // Nobody knows.
    expect(runs(agent)).toBeNull();
    expect(runs(off, {...server, metadata: {...server.metadata, name: 'other'}}, agent)).toBeNull();
    expect(k3sRunsKubeProxy({metadata: {name: 'x'}}, apiObjects({nodes: [server]}))).toBeNull();
  });

  test.each(['', '{', '{}', '[1]'])('an annotation that is not a list of words (%j) is ignored', text => {
    expect(parseNodeArgs(text)).toBeNull();
  });
});

describe('of two pods on a node', () => {
  const pod = (name: string, more: {readonly deletionTimestamp?: string; readonly phase?: string}): PodObject => ({
    metadata: {
      name,
      namespace: 'kube-system',
      labels: {'k8s-app': 'kube-proxy'},
      ...(more.deletionTimestamp === undefined ? {} : {deletionTimestamp: more.deletionTimestamp}),
    },
    spec: {nodeName: 'node-a'},
    status: {phase: more.phase ?? 'Running'},
  });

  test.each([
    ['goes', {deletionTimestamp: '2026-11-21T10:00:00Z'}],
    ['has not started', {phase: 'Pending'}],
  ])('the pod that %s is skipped', (_, more) => {
    const pods = [pod('kube-proxy-a', more), pod('kube-proxy-b', {})];
    expect(kubeProxyPod(apiObjects({pods}), 'node-a')?.metadata.name).toBe('kube-proxy-b');
    expect(kubeProxyPod(apiObjects({pods: pods.slice(0, 1)}), 'node-a')?.metadata.name).toBe('kube-proxy-a');
  });
});

test.each([
  ['registry.k8s.io/kube-proxy-amd64:v1.27.3', 'v1.27.3'],
  ['rancher/hyperkube:v1.24.17-rancher1', 'v1.24.17-rancher1'],
  ['mcr.microsoft.com/oss/kubernetes/kube-proxy:v1.28.101-akslts', 'v1.28.101-akslts'],
  ['public.ecr.aws/eks-distro/kubernetes/kube-proxy:v1.28.3-eks-1-28-11', 'v1.28.3-eks-1-28-11'],
  ['602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/kube-proxy:v1.29.3-eksbuild.2', 'v1.29.3-eksbuild.2'],
  [`docker.io/rancher/hardened-kubernetes:v1.31.6-rke2r1-build20250213@sha256:${'0'.repeat(64)}`, 'v1.31.6-rke2r1-build20250213'],
  // Tags of other software are no versions of kube-proxy.
  ['registry.example.com/network/node-proxy:v1.2.3', 'v1.33.2'],
  [`registry.k8s.io/kube-proxy@sha256:${'0'.repeat(64)}`, 'v1.33.2'],
])('the version by the image %s is %s', (name, version) => {
  const objects = platform('talos');
  const pods = objects.pods.map(pod => ({...pod, spec: {...pod.spec, containers: [{name: 'kube-proxy', image: name}]}}));
  const {config, problems} = resolve({...objects, pods});
  expect(config.version.value.text).toBe(version);
  expect(problems).toEqual([]);
});
