import {hostname} from 'node:os';
import {describe, expect, test} from 'vitest';
import {ApiError} from '../../../src/collect/kube/kube-api.ts';
import {CommandFailed, type NodeInfo} from '../../../src/collect/node/transport.ts';
import {debugPod, debugTransport, removeLeftovers, thisOwner} from '../../../src/collect/transports/debug.ts';
import {absent, FakeKubeApi} from './fake-kube-api.ts';

const signal = new AbortController().signal;
const node: NodeInfo = {name: 'node-a', addresses: [], pods: []};

describe('debug', () => {
  test('creates a pod on the node that tolerates every taint, ends by itself and names its owner', async () => {
    const api = new FakeKubeApi();
    await using _shell = await debugTransport(api, {namespace: 'ops', imagePullSecret: 'pull', runId: 'r1', lifetimeMs: 90_000}).open(
      node,
      signal,
    );
    const [pod] = [...api.pods.values()];
    expect(pod?.metadata).toMatchObject({
      namespace: 'ops',
      labels: {'app.kubernetes.io/managed-by': 'svc-trace', 'svc-trace/run': 'r1', 'svc-trace/node': 'node-a'},
      annotations: {'svc-trace/owner': expect.stringContaining(hostname()), 'svc-trace/process': String(process.pid)},
    });
    expect(pod?.spec).toMatchObject({
      nodeName: 'node-a',
      hostNetwork: true,
      hostPID: true,
      activeDeadlineSeconds: 90,
      restartPolicy: 'Never',
      tolerations: [{operator: 'Exists'}],
      imagePullSecrets: [{name: 'pull'}],
      containers: [{command: ['sleep', '90'], securityContext: {privileged: true}}],
    });
  });

  test('runs commands in the namespaces of the host, and deletes the pod at the end', async () => {
    const api = new FakeKubeApi();
    const commands: (readonly string[])[] = [];
    api.onExec = argv => {
      commands.push(argv);
      return 'dump';
    };
    {
      await using shell = await debugTransport(api).open(node, signal);
      expect((await shell.run(['iptables-save'], signal)).toString()).toBe('dump');
      expect(shell.description).toMatch(/^on the host, by the debug pod kube-system\/svc-trace-/);
      expect(api.pods.size).toBe(1);
    }
    expect(commands.at(-1)).toEqual(['nsenter', '-t', '1', '-m', '-n', '--', 'iptables-save']);
    expect(api.pods.size).toBe(0);
  });

  test('the iptables of the image is used if the host has none', async () => {
    const api = new FakeKubeApi();
    api.onExec = argv => {
      if (argv[0] === 'nsenter') throw new CommandFailed(argv, {exitCode: 127, stderr: "nsenter: can't execute 'iptables-save'"});
      return argv.join(' ');
    };
    await using shell = await debugTransport(api).open(node, signal);
    expect((await shell.run(['iptables-save'], signal)).toString()).toBe('iptables-save');
  });

  test.each([
    {stderr: "nsenter: can't open '/proc/1/ns/net': Permission denied", exitCode: 1},
    {stderr: 'nsenter: cannot open /proc/1/ns/net: Permission denied', exitCode: 1},
    {stderr: 'nsenter: reassociate to namespace ns/mnt failed: Operation not permitted', exitCode: 1},
    {stderr: "nsenter: can't execute 'iptables-save': No such file or directory", exitCode: 127},
    {stderr: 'nsenter: failed to execute iptables-save: No such file or directory', exitCode: 127},
  ])('the tools of the image are used if nsenter prints "$stderr", which is reported', async ({stderr, exitCode}) => {
    const api = new FakeKubeApi();
    api.onExec = argv => {
      if (argv[0] === 'nsenter') throw new CommandFailed(argv, {exitCode, stderr: `${stderr}\n`});
      return argv.join(' ');
    };
    await using shell = await debugTransport(api, {image: 'tools:1'}).open(node, signal);
    expect((await shell.run(['iptables-save'], signal)).toString()).toBe('iptables-save');
    expect(shell.description).toMatch(/^with the tools of the image tools:1, in the debug pod kube-system\/svc-trace-\S+ \(/);
    expect(shell.description).toContain(`(${stderr})`);
  });

  test('an iptables-save of the host that does not know --version is used', async () => {
    const api = new FakeKubeApi();
    api.onExec = argv => {
      if (argv.includes('--version'))
        throw new CommandFailed(argv, {exitCode: 2, stderr: "iptables-save: unrecognized option '--version'"});
      return argv.join(' ');
    };
    await using shell = await debugTransport(api).open(node, signal);
    expect(shell.description).toMatch(/^on the host/);
  });

  test('an unusable image is reported with both reasons, and the pod is deleted', async () => {
    const api = new FakeKubeApi();
    api.onExec = argv => {
      if (argv[0] === 'nsenter') throw new CommandFailed(argv, {exitCode: 1, stderr: 'nsenter: cannot open /proc/1/ns/net'});
      throw absent(argv);
    };
    await expect(debugTransport(api, {image: 'tiny'}).open(node, signal)).rejects.toThrow(
      /neither node-a itself nor the image tiny has iptables-save .*--debug-image \(nsenter: cannot open \/proc\/1\/ns\/net; in the image: executable file not found in \$PATH\)/,
    );
    expect(api.pods.size).toBe(0);
  });

  test.each([
    {
      status: waiting('ImagePullBackOff', 'Back-off pulling image "x"'),
      message: /cannot pull the image .*ImagePullBackOff: Back-off.*--debug-image.*--image-pull-secret/,
    },
    {status: waiting('InvalidImageName'), message: /cannot pull the image/},
    {status: waiting('CreateContainerError', 'no command'), message: /CreateContainerError: no command; the image .* needs "sleep"/},
    {status: {phase: 'Failed', reason: 'OutOfpods', message: 'Node has no room'}, message: /ended at once \(OutOfpods: Node has no room\)/},
    {status: {phase: 'Pending'}, message: /has not started in time \(Pending\): the kubelet has not taken it: is the node ready\?/},
    {status: waiting('ContainerCreating'), message: /has not started in time \(Pending, ContainerCreating\): a bigger --node-timeout/},
  ])('a pod that does not start is reported with the reason and deleted: $message', async ({status, message}) => {
    const api = new FakeKubeApi();
    api.statuses = [status];
    await expect(debugTransport(api, {startTimeoutMs: 10}).open(node, signal)).rejects.toThrow(message);
    expect(api.pods.size).toBe(0);
  });

  test('the first failure to pull the image is not final', async () => {
    const api = new FakeKubeApi();
    api.statuses = [waiting('ErrImagePull'), {phase: 'Running'}];
    await using shell = await debugTransport(api).open(node, signal);
    expect(shell.description).toContain('debug pod');
  });

  test.each([
    {
      error: {message: 'pods "x" is forbidden: violates PodSecurity "restricted:latest"', status: 403},
      message: /--debug-namespace, or use --transport ssh/,
    },
    {error: {message: 'User "dev" cannot create resource "pods"', status: 403}, message: /verbs create, get and delete on pods/},
    {error: {message: 'namespaces "ops" not found', status: 404}, message: /choose a namespace that is there/},
  ])('a pod that may not be created is reported with what to do: $message', async ({error, message}) => {
    const api = new FakeKubeApi();
    api.onCreate = () => {
      throw new ApiError(error.message, {status: error.status});
    };
    await expect(debugTransport(api).open(node, signal)).rejects.toThrow(message);
  });

  test('an API server that does not answer the DELETE of a pod holds nothing', async () => {
    const api = new FakeKubeApi();
    api.onExec = () => 'iptables-save v1.8.9';
    const shell = await debugTransport(api).open(node, new AbortController().signal);
    await shell[Symbol.asyncDispose]();
    api.onCreate = () => {
      throw new ApiError('no', {status: 403});
    };
    await expect(debugTransport(api).open(node, new AbortController().signal)).rejects.toThrow();
    expect(api.deletesWithLimit).toEqual([true, true]);
  });

  test('a pod whose creation was not confirmed is deleted anyway', async () => {
    const api = new FakeKubeApi();
    api.onCreate = () => {
      throw new ApiError('no answer', {status: null});
    };
    await expect(debugTransport(api).open(node, signal)).rejects.toThrow('no answer');
    expect(api.calls.at(-1)).toMatch(/^DELETE .*\/pods\/svc-trace-/);
  });

  test('an interruption while the pod starts leaves no pod', async () => {
    const api = new FakeKubeApi();
    api.statuses = [{phase: 'Pending'}];
    const stop = new AbortController();
    const opening = debugTransport(api).open(node, stop.signal);
    setTimeout(() => stop.abort(new Error('interrupted')), 50);
    await expect(opening).rejects.toThrow('has not started in time');
    expect(api.pods.size).toBe(0);
  });

  test('nothing is created after the run was aborted', async () => {
    const api = new FakeKubeApi();
    await expect(debugTransport(api).open(node, AbortSignal.abort())).rejects.toThrow('no pod was created');
    expect(api.calls.filter(call => call.startsWith('POST'))).toEqual([]);
  });
});

describe('leftovers of killed runs', () => {
  const now = Date.parse('2026-11-21T12:00:00Z');
  /** No process has this number: it is beyond the biggest there can be. */
  const dead = String(2 ** 22 + 1);
  const cases = [
    {pod: 'is old', age: 700, removed: true},
    {pod: 'is new and belongs to another user', age: 30, removed: false},
    {pod: 'is old and meant to live longer', age: 700, lifetime: 3600, removed: false},
    {pod: 'is of a dead process of this user', age: 30, owner: thisOwner(), process: dead, removed: true},
    {pod: 'is of a process of this user that runs', age: 30, owner: thisOwner(), process: String(process.pid), removed: false},
    {pod: 'has ended', age: 30, phase: 'Failed', removed: true},
    {pod: 'is not ours', age: 7000, owner: null, removed: false},
  ];

  test.each(cases)('a pod that $pod: removed is $removed', async ({age, lifetime, owner, process: id, phase, removed}) => {
    const api = new FakeKubeApi();
    const made = debugPod({
      name: 'p',
      namespace: 'ops',
      node: 'n',
      runId: 'r',
      image: 'i',
      imagePullSecret: undefined,
      lifetimeSeconds: lifetime ?? 600,
    });
    const pod = made as {metadata: Record<string, unknown>};
    pod.metadata['creationTimestamp'] = new Date(now - age * 1000).toISOString();
    pod.metadata['annotations'] = owner === null ? {} : {'svc-trace/owner': owner ?? 'someone@elsewhere', 'svc-trace/process': id ?? '1'};
    await api.create('/api/v1/namespaces/ops/pods', {...pod, status: {phase: phase ?? 'Running'}});
    expect(await removeLeftovers(api, 'ops', now)).toEqual(removed ? ['p'] : []);
    expect(api.pods.size).toBe(removed ? 0 : 1);
  });
});

function waiting(reason: string, message?: string): object {
  return {phase: 'Pending', containerStatuses: [{state: {waiting: {reason, ...(message === undefined ? {} : {message})}}}]};
}
