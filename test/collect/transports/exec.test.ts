import {describe, expect, test} from 'vitest';
import {ApiError, type ExecTarget} from '../../../src/collect/kube/kube-api.ts';
import {CommandFailed, type NodeInfo} from '../../../src/collect/node/transport.ts';
import {execTransport} from '../../../src/collect/transports/exec.ts';
import type {PodObject} from '../../../src/model/api-objects.ts';
import {absent, FakeKubeApi, hostPod} from './fake-kube-api.ts';

const signal = new AbortController().signal;

function nodeWith(...pods: readonly PodObject[]): NodeInfo {
  return {name: 'node-a', addresses: [], pods};
}

/** Where a command ends up. */
async function targetOn(node: NodeInfo, api = new FakeKubeApi()): Promise<ExecTarget | undefined> {
  let used: ExecTarget | undefined;
  const answer = api.onExec;
  api.onExec = (argv, target) => {
    used = target;
    return answer(argv, target);
  };
  await using shell = await execTransport(api).open(node, signal);
  await shell.run(['ip', '-j', 'addr'], signal);
  return used;
}

describe('exec', () => {
  test('kube-proxy comes before every CNI agent', async () => {
    const node = nodeWith(
      hostPod('calico-node-1', {containers: ['calico-node']}),
      hostPod('kube-proxy-x', {containers: ['istio', 'kube-proxy']}),
    );
    expect(await targetOn(node)).toEqual({namespace: 'kube-system', pod: 'kube-proxy-x', container: 'kube-proxy'});
  });

  test.each([
    {pod: hostPod('kube-proxy-gke-node-a', {labels: {component: 'kube-proxy'}, containers: ['kube-proxy']}), container: 'kube-proxy'},
    {pod: hostPod('kp-1', {labels: {'k8s-app': 'kube-proxy'}}), container: 'main'},
    {pod: hostPod('canal-1', {labels: {'k8s-app': 'canal'}, containers: ['calico-node', 'kube-flannel']}), container: 'calico-node'},
    {pod: hostPod('calico-node-1', {namespace: 'calico-system', containers: ['calico-node']}), container: 'calico-node'},
    {pod: hostPod('kube-flannel-ds-1', {namespace: 'kube-flannel', containers: ['kube-flannel']}), container: 'kube-flannel'},
    {pod: hostPod('weave-net-1', {containers: ['weave', 'weave-npc']}), container: 'weave'},
    {pod: hostPod('antrea-agent-1', {containers: ['antrea-agent', 'antrea-ovs']}), container: 'antrea-agent'},
    {pod: hostPod('kindnet-1', {containers: ['kindnet-cni']}), container: 'kindnet-cni'},
    {pod: hostPod('aws-node-1', {containers: ['aws-node', 'aws-eks-nodeagent']}), container: 'aws-node'},
    {pod: hostPod('azure-cns-1', {containers: ['cns-container']}), container: 'cns-container'},
    {pod: hostPod('cilium-1', {labels: {'k8s-app': 'cilium'}, containers: ['cilium-agent']}), container: 'cilium-agent'},
    {pod: hostPod('kube-router-1', {containers: ['kube-router']}), container: 'kube-router'},
  ])('$pod.metadata.name can be used for exec', async ({pod, container}) => {
    expect(await targetOn(nodeWith(pod))).toMatchObject({pod: pod.metadata.name, container});
  });

  test.each([
    {why: 'does not run', pod: hostPod('kube-proxy-x', {phase: 'Pending'}), says: 'kube-system/kube-proxy-x is Pending'},
    {
      why: 'is not in the host network',
      pod: hostPod('kube-proxy-x', {hostNetwork: false}),
      says: 'kube-system/kube-proxy-x is not in the host network',
    },
    {why: 'runs on another node', pod: hostPod('kube-proxy-x', {node: 'node-b'}), says: 'neither kube-proxy'},
    {
      why: "is in a user's namespace",
      pod: hostPod('kube-proxy-x', {namespace: 'shop'}),
      says: 'shop/kube-proxy-x is not in a system namespace',
    },
    {why: 'is not an agent', pod: hostPod('etcd-node-a'), says: 'its 1 pod there is something else'},
  ])('a pod that $why is not used, and the reason is reported', async ({pod, says}) => {
    const opening = execTransport(new FakeKubeApi()).open(nodeWith(pod), signal);
    await expect(opening).rejects.toThrow(says);
    await expect(opening).rejects.toThrow(
      /^no pod to exec into on node-a: .*; use --transport debug, which creates a pod, or --transport ssh$/,
    );
  });

  test('for a node without any such pod the message names the pods that were searched for, and no missing permission', async () => {
    await expect(execTransport(new FakeKubeApi()).open(nodeWith(), signal)).rejects.toThrow(
      'no pod to exec into on node-a: neither kube-proxy (label k8s-app=kube-proxy or component=kube-proxy) nor a known CNI agent runs on it in kube-system or the namespaces of CNI agents; use',
    );
  });

  test('if pods could not be listed, the message gives that reason', async () => {
    const node: NodeInfo = {...nodeWith(), unlisted: 'not allowed to list pods in namespace kube-system.', isUnlisted: true};
    await expect(execTransport(new FakeKubeApi()).open(node, signal)).rejects.toMatchObject({
      message: expect.stringContaining('on node-a: its pods are not known: not allowed to list pods in namespace kube-system; use'),
      isPermanent: true,
    });
  });

  test('a pod without the tools, or a deleted one, is skipped', async () => {
    const api = new FakeKubeApi();
    api.onExec = (argv, {pod}) => {
      if (pod === 'kube-proxy-x') throw new ApiError('pods "kube-proxy-x" not found', {status: 404});
      if (pod === 'calico-node-1') throw absent(argv);
      return '';
    };
    expect(await targetOn(nodeWith(hostPod('kube-proxy-x'), hostPod('calico-node-1'), hostPod('kindnet-1')), api)).toMatchObject({
      pod: 'kindnet-1',
    });
  });

  test('if no pod has the tools, all are named', async () => {
    const api = new FakeKubeApi();
    api.onExec = argv => {
      throw absent(argv);
    };
    const opening = execTransport(api).open(nodeWith(hostPod('kindnet-1'), hostPod('cilium-1')), signal);
    await expect(opening).rejects.toThrow('no iptables-save in kube-system/kindnet-1, kube-system/cilium-1 on node-a');
  });

  const stopped = 'unable to upgrade connection: container not found ("kube-proxy")';

  test('if kube-proxy does not run, the next pod is used', async () => {
    const api = new FakeKubeApi();
    api.onExec = (_, {pod}) => {
      if (pod === 'kube-proxy-x') throw new ApiError(stopped, {status: 500});
      return '';
    };
    expect(await targetOn(nodeWith(hostPod('kube-proxy-x'), hostPod('kindnet-1')), api)).toMatchObject({pod: 'kindnet-1'});
  });

  test('and if no other pod exists, this is reported', async () => {
    const api = new FakeKubeApi();
    api.onExec = (argv, {pod}) => {
      throw pod === 'kube-proxy-x' ? new ApiError(stopped, {status: 500}) : absent(argv);
    };
    const open = (...pods: readonly PodObject[]) => execTransport(api).open(nodeWith(...pods), signal);
    await expect(open(hostPod('kube-proxy-x'))).rejects.toThrow(
      'kube-system/kube-proxy-x does not run; no other pod there has the tools: use',
    );
    await expect(open(hostPod('kube-proxy-x'), hostPod('kindnet-1'))).rejects.toThrow(
      'kube-system/kube-proxy-x does not run; no iptables-save in kube-system/kindnet-1 on node-a: use',
    );
  });

  test('a missing permission for exec is named', async () => {
    const api = new FakeKubeApi();
    api.onExec = () => {
      throw new ApiError('User "dev" cannot create resource "pods/exec"', {status: 403, reason: 'Forbidden'});
    };
    await expect(execTransport(api).open(nodeWith(hostPod('kube-proxy-x')), signal)).rejects.toThrow(
      /cannot exec into kube-system\/kube-proxy-x.*pods\/exec/,
    );
  });

  test('after a refused exec, one request is sent to each further node, and all again where it is allowed', async () => {
    const api = new FakeKubeApi();
    const asked: string[] = [];
    const allowed = new Set(['kube-proxy-c']);
    api.onExec = (argv, {pod}) => {
      asked.push(pod);
      if (!allowed.has(pod)) throw new ApiError('forbidden', {status: 403, reason: 'Forbidden'});
      return argv[0] === 'ip' ? '[]' : 'iptables-save v1.8.9 (nf_tables)\n';
    };
    const transport = execTransport(api);
    const early = [
      ['ip', '-j', 'addr'],
      ['kube-proxy', '--version'],
    ];
    for (const name of ['kube-proxy-a', 'kube-proxy-b'])
      await expect(transport.open(nodeWith(hostPod(name)), signal, early)).rejects.toThrow('pods/exec');
    await using shell = await transport.open(nodeWith(hostPod('kube-proxy-c')), signal, early);
    expect((await shell.run(['ip', '-j', 'addr'], signal)).toString()).toBe('[]');
    expect(asked).toEqual(['kube-proxy-a', 'kube-proxy-a', 'kube-proxy-b', 'kube-proxy-c', 'kube-proxy-c']);
  });

  test('an iptables-save that does not know --version counts as existing', async () => {
    const api = new FakeKubeApi();
    api.onExec = argv => {
      if (argv[1] === '--version') throw new CommandFailed(argv, {exitCode: 1, stderr: 'unrecognized option'});
      return '';
    };
    expect(await targetOn(nodeWith(hostPod('kube-proxy-x')), api)).toMatchObject({pod: 'kube-proxy-x'});
  });

  test('known results are not requested again', async () => {
    const api = new FakeKubeApi();
    const asked: string[] = [];
    api.onExec = argv => {
      asked.push(argv.join(' '));
      return 'iptables-save v1.8.9 (nf_tables)\n';
    };
    await using shell = await execTransport(api).open(nodeWith(hostPod('kube-proxy-x')), signal);
    expect((await shell.run(['iptables-save', '--version'], signal)).toString()).toBe('iptables-save v1.8.9 (nf_tables)\n');
    await shell.run(['iptables-save'], signal);
    expect(asked).toEqual(['sh', 'iptables-save --version', 'iptables-save']);
  });

  test('first commands run while the tools are searched for, and a second time if they are requested twice', async () => {
    const api = new FakeKubeApi();
    const asked: string[] = [];
    api.onExec = (argv, {pod}) => {
      asked.push(`${pod}: ${argv.join(' ')}`);
      if (pod === 'kube-proxy-x') throw absent(argv);
      return `dump ${asked.length}`;
    };
    const node = nodeWith(hostPod('kube-proxy-x'), hostPod('calico-node-1', {containers: ['calico-node']}));
    await using shell = await execTransport(api).open(node, signal, [['iptables-save']]);
    expect(asked).toEqual([...['kube-proxy-x: sh', 'kube-proxy-x: iptables-save', 'calico-node-1: sh', 'calico-node-1: iptables-save']]);
    expect(String(await shell.run(['iptables-save'], signal))).toBe('dump 4');
    expect(asked).toHaveLength(4);
    expect(String(await shell.run(['iptables-save'], signal))).toBe('dump 5');
  });
});
