import {join} from 'node:path';
import {setTimeout as sleep} from 'node:timers/promises';
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest';
import {describeWith} from '../../require.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import {LiveKubeProxies, replaceEndpoint} from './live-kube-proxy.ts';
import {type CheckReport, svcTrace} from './svc-trace.ts';

const capture = 'healthy/1.30-iptables';

describeWith(clusterNeeds, 'check --wait on a live cluster', () => {
  let cluster: LiveCluster;
  let proxies: LiveKubeProxies;
  let replaced = 0;

  beforeAll(async () => {
    cluster = await LiveCluster.open(capture);
    proxies = await LiveKubeProxies.open(cluster, capture);
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  /** A pod of shop/web has been replaced. node-a and node-c have followed, the kube-proxy of node-b has not. */
  beforeEach(() => {
    cluster.api.faults.splice(0);
    cluster.api.requests.splice(0);
    cluster.api.commands.splice(0);
    proxies.ready('node-b', true);
    proxies.sync('node-a', 'node-b', 'node-c');
    replaced++;
    replaceEndpoint(cluster, 'web', `10.244.11.${100 + replaced}`);
    proxies.sync('node-a', 'node-c');
  });

  function check(wait: string, ...args: readonly string[]) {
    const {api, folder} = cluster;
    return svcTrace(['check', 'shop/web', '--wait', wait, ...args], {kubeconfig: api.kubeconfig, temporary: join(folder, 'tmp')});
  }

  /** How often the rules of a node were read. */
  function looks(node: string): number {
    return cluster.api.commands.filter(one => one.node === node && one.argv.join(' ') === 'iptables-save').length;
  }

  /** Resolves when it is true; what is checked must not end before. */
  async function until(isTrue: () => boolean, running: PromiseLike<unknown>): Promise<void> {
    const ended = {state: false};
    running.then(() => {
      ended.state = true;
    });
    while (!isTrue()) {
      expect(ended).toEqual({state: false});
      await sleep(20);
    }
  }

  test('waits for a slow kube-proxy, and reports how long it took', async () => {
    const running = check('60s', '-o', 'json');
    await until(() => looks('node-b') === 2, running);
    proxies.sync('node-b');
    const {stdout, exitCode} = await running;
    const {wait, summary} = JSON.parse(stdout) as CheckReport & {
      wait: {clean: boolean; nodes: readonly {name: string; look: number; seconds: number}[]};
    };
    expect(exitCode).toBe(0);
    expect(summary['errors']).toBe(0);
    expect(wait).toMatchObject({
      clean: true,
      nodes: [
        {name: 'node-a', look: 1},
        {name: 'node-b', look: 3},
        {name: 'node-c', look: 1},
      ],
    });
    expect(wait.nodes[1]?.seconds).toBeGreaterThan(wait.nodes[0]?.seconds ?? Infinity);
    expect([looks('node-a'), looks('node-c')]).toEqual([1, 1]);
  });

  test('names a stopped kube-proxy in the first line, with what its node lacks', async () => {
    proxies.ready('node-b', false);
    const {stdout, stderr, exitCode} = await check('4s');
    expect(exitCode).toBe(1);
    expect(stdout.split('\n', 1)[0]).toMatch(
      /^FAULTY: .*; \d errors? on 1 of 3 nodes, 1 warning \(1 Service with findings\); after \d+(\.\d)? s not in sync: node-b; kube-proxy does not keep up on node-b \(ST505\)$/,
    );
    expect(stdout).toContain('NODE    CONVERGED\nnode-b  not yet');
    expect(stdout).toMatch(new RegExp(`ST202 error {2}missing-endpoint {2}node-b\\n.*10\\.244\\.11\\.${100 + replaced}:8080`));
    expect(stdout).toContain('its pod kube-system/kube-proxy-node-b is not ready');
    expect(stderr).toContain('converged: 2 of 3 nodes; waiting for node-b');
  });

  test('waits for it once it is started again', async () => {
    proxies.ready('node-b', false);
    const running = check('60s');
    await until(() => looks('node-b') === 2, running);
    proxies.ready('node-b', true);
    proxies.sync('node-b');
    const {stdout, stderr, exitCode} = await running;
    expect(exitCode).toBe(0);
    expect(stdout.split('\n', 1)[0]).toMatch(/^OK: shop\/web is in sync on all 3 nodes; converged in \d+(\.\d)? s$/);
    expect(stderr).toMatch(/node-b converged in \d+(\.\d)? s/);
  });

  test('decides nothing while the API server is away', async () => {
    const running = check('60s', '-o', 'json');
    await until(() => looks('node-b') === 2, running);
    cluster.api.faults.push({kind: 'reset', match: /./});
    const before = cluster.api.requests.length;
    await until(() => cluster.api.requests.length > before + 3, running);
    proxies.sync('node-b');
    cluster.api.faults.splice(0);
    const {stdout, exitCode} = await running;
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({summary: {verdict: 'ok'}, wait: {clean: true}});
  });

  test('reports the earlier results if the API server does not return', async () => {
    const running = check('15s', '-o', 'json');
    await until(() => looks('node-b') === 1, running);
    // What is being read of the nodes is read to its end.
    cluster.api.faults.push({kind: 'reset', match: /services|endpointslices/});
    const {stdout, exitCode} = await running;
    const report = JSON.parse(stdout) as CheckReport;
    expect(exitCode).toBe(1);
    expect(report.findings).toContainEqual(expect.objectContaining({code: 'ST202', node: 'node-b'}));
    expect(report.findings).toContainEqual(
      expect.objectContaining({code: 'ST901', message: expect.stringContaining('broke off the connection')}),
    );
  });

  test('exits with 3 if a node could not be checked', async () => {
    proxies.sync('node-b');
    cluster.api.faults.push({
      kind: 'status',
      match: /kube-proxy-node-b\/exec/,
      status: 500,
      message: 'error dialing backend: dial tcp: timeout',
    });
    const {stdout, exitCode} = await check('3s');
    expect(exitCode).toBe(3);
    expect(stdout.split('\n', 1)[0]).toMatch(
      /^INCOMPLETE: 1 of 3 nodes was not checked \(node-b\): cannot exec .* timeout\. No problems .*; after \d+(\.\d)? s not in sync: node-b$/,
    );
  });

  test('ends at once if a permission is missing for a node', async () => {
    proxies.sync('node-b');
    cluster.api.faults.push({kind: 'status', match: /kube-proxy-node-b\/exec/, status: 403, message: 'pods is forbidden'});
    const {stderr, exitCode} = await check('10m');
    expect(exitCode).toBe(3);
    expect(stderr).toContain('not waited for (permanent error): node-b: not allowed to exec into kube-system/kube-proxy-node-b');
  });
});
