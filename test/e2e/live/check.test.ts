import {join} from 'node:path';
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
