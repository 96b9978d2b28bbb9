import {setTimeout as sleep} from 'node:timers/promises';
import {join} from 'node:path';
import {afterAll, beforeAll, expect, test} from 'vitest';
import type {EndpointSliceObject} from '../../../src/model/api-objects.ts';
import {seededRandom} from '../../bench/random.ts';
import {describeWith} from '../../require.ts';
import type {StoredObject} from '../../stand-in/object-store.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import {LiveKubeProxies} from './live-kube-proxy.ts';
import {type CheckReport, svcTrace} from './svc-trace.ts';

const capture = 'healthy/1.30-iptables';
const nodes = ['node-a', 'node-b', 'node-c'] as const;

describeWith(clusterNeeds, 'check while endpoints change several times a second', () => {
  let cluster: LiveCluster;
  let proxies: LiveKubeProxies;
  /** A node on which somebody deletes a rule whenever kube-proxy has written it. */
  let broken: string | null = null;
  const stop = new AbortController();
  let work: Promise<unknown>;

  beforeAll(async () => {
    cluster = await LiveCluster.open(capture);
    proxies = await LiveKubeProxies.open(cluster, capture);
    proxies.sync(...nodes);
    work = Promise.all([churn(), ...nodes.map(follow)]);
  });
  afterAll(async () => {
    stop.abort();
    await work;
    await cluster?.[Symbol.asyncDispose]();
  });

  /** Endpoints become ready and not ready, one every 0.1 to 0.5 s; sometimes the watches get a 410. */
  async function churn(): Promise<void> {
    const random = seededRandom(7);
    const {store} = cluster.api;
    while (!stop.signal.aborted) {
      const slices = store.all('endpointslices').filter(({metadata}) => metadata.namespace === 'shop') as unknown as EndpointSliceObject[];
      const slice = slices[random.below(slices.length)];
      const endpoints = [...(slice?.endpoints ?? [])];
      const at = random.below(Math.max(1, endpoints.length));
      const one = endpoints[at];
      if (one !== undefined) endpoints[at] = {...one, conditions: {...one.conditions, ready: one.conditions?.ready === false}};
      // As the API server notes it, to the second.
      const managedFields = [{time: `${new Date().toISOString().slice(0, 19)}Z`}];
      if (slice !== undefined)
        store.put('endpointslices', {...slice, endpoints, metadata: {...slice.metadata, managedFields}} as unknown as StoredObject);
      if (random.chance(0.02)) for (const watch of cluster.api.watches) watch.fail(410);
      await sleep(100 + random.below(400));
    }
  }

  /** Each kube-proxy writes its rules in its own time. */
  async function follow(node: string): Promise<void> {
    const random = seededRandom(node.length + node.charCodeAt(5));
    while (!stop.signal.aborted) {
      await sleep(500 + random.below(2500));
      proxies.sync(node);
      if (broken === node) cluster.node(node).run('sh', '-c', removeEntry);
    }
  }

  async function check(): Promise<CheckReport> {
    const {api, folder} = cluster;
    const {stdout} = await svcTrace(['check', '-A', '-o', 'json'], {kubeconfig: api.kubeconfig, temporary: join(folder, 'tmp')});
    return JSON.parse(stdout) as CheckReport;
  }

  const found = ({findings}: CheckReport) =>
    findings.filter(({node, code}) => node !== undefined && (/^ST2|^ST3|^ST904/.test(code) || code === 'ST505'));

  test('finds nothing on nodes that are only behind', async () => {
    for (let round = 0; round < 4; round++) {
      const loud = found(await check()).filter(({severity}) => severity !== 'info');
      expect(loud.map(({code, node, message}) => `${code} ${node} ${message}`)).toEqual([]);
    }
  }, 120_000);

  test('finds a rule that is gone, on its node alone', async () => {
    broken = 'node-b';
    await sleep(4000);
    for (let round = 0; round < 3; round++) {
      const loud = found(await check()).filter(({severity}) => severity !== 'info');
      expect([...new Set(loud.map(({node}) => node))]).toEqual(['node-b']);
      expect(loud.map(({service}) => service?.name)).toContain('web');
    }
  }, 120_000);
});

/** Deletes the entry of the cluster IP of shop/web. */
const removeEntry = `iptables-save -t nat | grep -- '-A KUBE-SERVICES .*"shop/web:http cluster IP" .*-j KUBE-SV' | sed 's/^-A/iptables -t nat -D/' | sh`;
