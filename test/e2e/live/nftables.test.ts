import {join} from 'node:path';
import {afterAll, beforeAll, expect, onTestFinished, test} from 'vitest';
import {capturePath} from '../../fixtures.ts';
import {describeWith} from '../../require.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import {confined, LiveAgent} from './live-agent.ts';
import {type CheckReport, svcTrace, withoutReading} from './svc-trace.ts';

const capture = 'nftables/1.36';

describeWith([...clusterNeeds, 'nft'], 'check of a live cluster in nftables mode', () => {
  let cluster: LiveCluster;
  beforeAll(async () => {
    cluster = await LiveCluster.open(capture, {tokens: {'agent-token': {user: 'agent'}}});
    cluster.api.store.put('serviceaccounts', {metadata: {namespace: 'svc-trace', name: 'svc-trace-reader'}});
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  async function check(...args: readonly string[]): Promise<{readonly report: CheckReport; readonly exitCode: number | undefined}> {
    const {api, folder} = cluster;
    const options = {kubeconfig: api.kubeconfig, bin: join(folder, 'bin'), temporary: join(folder, 'tmp')};
    const {stdout, stderr, exitCode} = await svcTrace(['check', '-A', '-o', 'json', ...args], options);
    expect(stderr).toBe('');
    return {report: withoutReading(JSON.parse(stdout) as CheckReport), exitCode};
  }

  test('by exec and ssh nothing is found on healthy nodes, as in their capture', async () => {
    // The iptables rules of the captured nodes were not read, which is reported.
    const skip = ['--skip', 'ST902'];
    const [exec, ssh, captured] = await Promise.all([
      check('--transport', 'exec', ...skip),
      check(...cluster.ssh.flags(), ...skip),
      check('--from', capturePath(capture), ...skip),
    ]);
    expect(exec).toEqual(captured);
    expect(ssh).toEqual(captured);
    expect(exec.exitCode).toBe(0);
    expect(exec.report.findings.filter(({node}) => node !== undefined)).toEqual([]);
    expect(exec.report.summary).toMatchObject({errors: 0, nodesChecked: 3, nodesUnread: 0});
  });

  test('a manual change on one node is found on that node', async () => {
    cluster.node('node-a').run('nft', 'delete element ip kube-proxy service-ips { 10.96.1.1 . tcp . 80 }');
    const chain = 'chain inet guard before { type filter hook prerouting priority raw; policy accept; }';
    for (const command of ['table inet guard', chain, 'rule inet guard before ip daddr 10.96.1.1 tcp dport 80 drop'])
      cluster.node('node-b').run('nft', `add ${command}`);
    cluster.node('node-c').run('iptables', ...'-t raw -A PREROUTING -d 10.96.1.1 -p tcp --dport 80 -j DROP'.split(' '));
    const [exec, ssh, bundle] = await Promise.all([
      check('--transport', 'exec'),
      check(...cluster.ssh.flags()),
      check('--from', cluster.bundle()),
    ]);
    expect(exec.report.findings.filter(({node}) => node !== undefined)).toEqual([
      expect.objectContaining({code: 'ST201', node: 'node-a', service: web}),
      expect.objectContaining({code: 'ST402', node: 'node-b', service: web, message: expect.stringContaining('a pod of this node')}),
      expect.objectContaining({code: 'ST402', node: 'node-c', service: web, message: expect.stringContaining('a pod of this node')}),
    ]);
    expect(exec.exitCode).toBe(1);
    expect(ssh).toEqual(exec);
    expect(bundle.report.findings).toEqual(exec.report.findings);
    // Nodes that judge themselves say the same, from within what a pod may do.
    const agents = ['node-a', 'node-b', 'node-c'].map(node => new LiveAgent(cluster, node, {confine: confined}));
    onTestFinished(async () => void (await Promise.all(agents.map(agent => agent[Symbol.asyncDispose]()))));
    await Promise.all(agents.map(agent => agent.ready()));
    const collected = await check('--agents');
    expect(collected.report.findings.filter(({node}) => node !== undefined)).toEqual(
      exec.report.findings.filter(({node}) => node !== undefined),
    );
    expect(collected.report.summary).toMatchObject({nodesChecked: 3, nodesUnread: 0});
  });
});

const web = {namespace: 'shop', name: 'web'};
