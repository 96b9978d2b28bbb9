import {join} from 'node:path';
import {setTimeout as sleep} from 'node:timers/promises';
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest';
import {capturePath} from '../../fixtures.ts';
import {describeWith} from '../../require.ts';
import {breakages} from './breakages.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import {type CheckReport, type SvcTraceOptions, svcTrace, withoutReading} from './svc-trace.ts';

const capture = 'healthy/1.30-iptables';

describeWith(clusterNeeds, 'check of a live cluster', () => {
  let cluster: LiveCluster;
  beforeAll(async () => {
    cluster = await LiveCluster.open(capture);
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  type TracePath = 'exec' | 'debug' | 'ssh' | 'docker';
  const flagsOf = (way: TracePath) => (way === 'ssh' ? cluster.ssh.flags() : ['--transport', way]);

  function run(args: readonly string[], options: Partial<SvcTraceOptions> = {}) {
    const {api, folder} = cluster;
    return svcTrace(args, {kubeconfig: api.kubeconfig, bin: join(folder, 'bin'), temporary: join(folder, 'tmp'), ...options});
  }

  async function reportOf(...args: readonly string[]): Promise<CheckReport> {
    const {stdout, stderr} = await run(['check', '-A', '-o', 'json', ...args]);
    expect(stderr).toBe('');
    return withoutReading(JSON.parse(stdout) as CheckReport);
  }

  test.each<TracePath>(['exec', 'debug', 'ssh', 'docker'])(
    'by %s nothing is found on healthy nodes, as in what was captured of them',
    async way => {
      const {stdout, stderr, exitCode} = await run(['check', '-A', '-o', 'json', ...flagsOf(way)]);
      expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 0});
      const live = withoutReading(JSON.parse(stdout) as CheckReport);
      expect(live).toEqual(await reportOf('--from', capturePath(capture)));
      expect(onNodes(live)).toEqual([]);
      expect(live.summary).toMatchObject({errors: 0, nodesChecked: 3, nodesUnread: 0});
    },
  );

  test('reads the node that it runs on', async () => {
    const onNode = {enter: cluster.node('node-b').enter, bin: join(cluster.folder, 'node-bin')};
    const {stdout, stderr, exitCode} = await run(['check', '-A', '-o', 'json', '--transport', 'local', '--node', 'node-b'], onNode);
    expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 0});
    expect(withoutReading(JSON.parse(stdout) as CheckReport)).toEqual(await reportOf('--from', capturePath(capture), '--node', 'node-b'));
  });

  test('leaves no debug pod behind, and creates no other pod', async () => {
    const created = cluster.api.requests.filter(
      ({method, resource}) => method === 'POST' && resource?.resource === 'pods' && resource.subresource === '',
    );
    expect(created).toHaveLength(3);
    const pods = cluster.api.store.all('pods').map(({metadata}) => metadata.name);
    expect(pods.filter(name => name.startsWith('svc-trace'))).toEqual([]);
  });

  describe('with forwarding switched off on one node', () => {
    const forward = (value: 0 | 1) => cluster.node('node-b').run('sysctl', '-q', '-w', `net.ipv4.ip_forward=${value}`);
    afterEach(() => forward(1));

    test.each<TracePath>(['exec', 'ssh'])('by %s ST601 is found on that node alone, and nothing once it is on again', async way => {
      forward(0);
      const off = await run(['check', '-A', '-o', 'json', ...flagsOf(way)]);
      expect(off.exitCode).toBe(1);
      const found = onNodes(JSON.parse(off.stdout) as CheckReport);
      expect(found).toMatchObject([{code: 'ST601', severity: 'error', node: 'node-b', family: 'IPv4'}]);
      forward(1);
      const on = await run(['check', '-A', '-o', 'json', ...flagsOf(way)]);
      expect([on.exitCode, onNodes(JSON.parse(on.stdout) as CheckReport)]).toEqual([0, []]);
    });

    test('packet and preview say that the node forwards nothing, and --wait ends when it does again', async () => {
      forward(0);
      const packet = ['packet', '--node', 'node-b', '--source', '10.244.12.4', '--destination', 'shop/web', '--port', '80'];
      expect((await run([...packet, ...flagsOf('exec')])).stdout).toContain('the node forwards no such packets (net.ipv4.');
      const preview = await run(['preview', '-A', '--node', 'node-b', '--proxy-mode', 'nftables', ...flagsOf('exec')]);
      expect(preview.stdout.split('\n', 1)[0]).toContain(
        '1 of 1 node forwards no packets and serves Services only to what runs in the host network, today and after the change',
      );
      expect(preview.stdout).toContain('net.ipv4.ip_forward is 0: the node forwards no IPv4 packets');
      const waiting = run(['check', '-A', '--node', 'node-b', '--wait', '60s', ...flagsOf('exec')]);
      await sleep(3000);
      forward(1);
      const {stdout, exitCode} = await waiting;
      expect([exitCode, stdout.split('\n', 1)[0]]).toEqual([0, expect.stringMatching(/^OK/)]);
    });
  });

  describe('with rules that were changed manually', () => {
    afterEach(() => cluster.heal());

    test.each(breakages)('$what is found on $node, and only there', async ({node, apply, expected}) => {
      apply(cluster.node(node));
      const [exec, ssh] = await Promise.all([reportOf(...flagsOf('exec')), reportOf(...flagsOf('ssh'))]);
      expect(exec.findings).toContainEqual(expect.objectContaining({...expected, node}));
      expect(onNodes(exec).filter(finding => finding.node !== node)).toEqual([]);
      expect(ssh).toEqual(exec);
      // The dump of the kernel, read here, says the same.
      expect((await reportOf('--from', cluster.bundle())).findings).toEqual(exec.findings);
    });
  });
});

/** What is said of nodes, and not of the objects of the API. */
function onNodes({findings}: CheckReport): CheckReport['findings'] {
  return findings.filter(({node}) => node !== undefined);
}
