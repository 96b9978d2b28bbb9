import {afterEach, describe, expect, test} from 'vitest';
import {type CheckResult, SelfCheck} from '../../src/agent/self-check.ts';
import {createKubeApi} from '../../src/collect/kube/create-kube-api.ts';
import {loadConnection} from '../../src/collect/kube/load-connection.ts';
import {CommandFailed, type Transport} from '../../src/collect/node/transport.ts';
import {ClusterWatch} from '../../src/collect/watch/cluster-watch.ts';
import {containing} from '../scenario.ts';
import type {ApiServerOptions} from '../stand-in/api-server.ts';
import {CiliumCluster} from '../stand-in/cilium-agent.ts';

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** The agent runs on the node itself, which has no rules of kube-proxy. */
const bare: Transport = {
  name: 'local',
  open: async () => ({
    description: 'local',
    run: async argv => {
      if (/^ip6?tables-save$/.test(argv[0] ?? '')) return Buffer.from('*filter\n:INPUT ACCEPT [0:0]\n:CILIUM_INPUT - [0:0]\nCOMMIT\n');
      throw new CommandFailed(argv, {exitCode: 127, stderr: '', notFound: true});
    },
    async [Symbol.asyncDispose]() {},
  }),
};

/** One check of a node of Cilium by the agent of svc-trace on it. */
async function check(cluster: CiliumCluster, options: ApiServerOptions = {}): Promise<CheckResult> {
  ends.push(async () => cluster[Symbol.asyncDispose]());
  cluster.tables.writeMap();
  const {kubeconfig} = await cluster.start(options);
  const api = createKubeApi(loadConnection({kubeconfig}, {environment: {}}), {backoff: 1});
  const watch = new ClusterWatch(api, {backoffMs: 1});
  const stop = new AbortController();
  const running = watch.run(stop.signal);
  ends.push(async () => {
    stop.abort();
    await running;
    api.close();
  });
  await expect.poll(() => watch.isListed).toBe(true);
  let time = Date.now();
  const sleep = async (milliseconds: number): Promise<void> => {
    time += milliseconds;
  };
  return new SelfCheck({
    ...{api, watch, node: 'node-a', transport: bare, options: {toolVersion: '0.0.0'}, clock: {now: () => time, sleep}},
    ...{timeoutMs: 600_000, intervalMs: 60_000, gracePeriodMs: 50},
  }).check(new AbortController().signal);
}

describe('an agent of svc-trace on a node of Cilium that may exec into its agent', () => {
  test('checks it by the tables of Cilium', async () => {
    const look = await check(new CiliumCluster());
    expect(look).toMatchObject({kind: 'result', result: {report: {status: 'checked', proxyMode: 'cilium', ciliumVersion: '1.19.4'}}});
    expect(look).toMatchObject({result: {findings: [], problems: []}});
  });

  test('reports what is there in a second reading too', async () => {
    const cluster = new CiliumCluster();
    cluster.tables.row('10.96.1.1:80/TCP').backends.push('10.1.1.9:8080');
    const look = await check(cluster);
    expect(look).toMatchObject({result: {findings: [{code: 'ST203', endpoint: '10.1.1.9:8080'}]}});
    expect(cluster.readings).toBe(2);
  });
});

test('one that may not get the settings of Cilium names the node, and tries no exec', async () => {
  const cluster = new CiliumCluster();
  const look = await check(cluster, {allow: ({resource}) => resource !== 'configmaps'});
  expect(look).toMatchObject({result: {report: {status: 'unsupported'}, findings: [{code: 'ST903', severity: 'info'}]}});
  expect(cluster.readings).toBe(0);
});

test('one that may get the settings and not exec says that it lacks that right', async () => {
  const look = await check(new CiliumCluster(), {allow: ({subresource}) => subresource !== 'exec'});
  expect(look).toMatchObject({result: {report: {status: 'unread', reason: containing('pods/exec')}}});
});
