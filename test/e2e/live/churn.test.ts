import {setTimeout as sleep} from 'node:timers/promises';
import {join} from 'node:path';
import {afterAll, beforeAll, expect, test} from 'vitest';
import type {EndpointSliceObject} from '../../../src/model/api-objects.ts';
import {seededRandom} from '../../bench/random.ts';
import {describeWith} from '../../require.ts';
import type {StoredObject} from '../../stand-in/object-store.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import {LiveAgent} from './live-agent.ts';
import {LiveKubeProxies} from './live-kube-proxy.ts';
import {type CheckReport, svcTrace} from './svc-trace.ts';

const capture = 'healthy/1.30-iptables';
const nodes = ['node-a', 'node-b', 'node-c'] as const;

describeWith(clusterNeeds, 'while endpoints change several times a second', () => {
  let cluster: LiveCluster;
  let proxies: LiveKubeProxies;
  const agents = new Map<string, LiveAgent>();
  const stop = new AbortController();
  let isBusy = false;
  /** After one change in fifty the watches expire (410 Gone). */
  let isForgetful = false;
  let work: Promise<unknown>;

  beforeAll(async () => {
    cluster = await LiveCluster.open(capture, {tokens: {'agent-token': {user: 'agent'}}});
    proxies = await LiveKubeProxies.open(cluster, capture);
    proxies.sync(...nodes);
    work = Promise.all([churn(), ...nodes.map(follow)]);
  });
  afterAll(async () => {
    stop.abort();
    await work;
    for (const agent of agents.values()) await agent[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  /** Endpoints get ready and unready, one every 0.1 to 0.5 s. */
  async function churn(): Promise<void> {
    const random = seededRandom(7);
    const {store} = cluster.api;
    for (; !stop.signal.aborted; await sleep(100 + random.below(400))) {
      if (!isBusy) continue;
      const slices = store.all('endpointslices').filter(({metadata}) => metadata.namespace === 'shop') as unknown as EndpointSliceObject[];
      const slice = slices[random.below(slices.length)];
      const endpoints = [...(slice?.endpoints ?? [])];
      const at = random.below(Math.max(1, endpoints.length));
      const one = endpoints[at];
      const isLast = one?.conditions?.ready !== false && endpoints.filter(({conditions}) => conditions?.ready !== false).length === 1;
      // A Service without endpoints has no entry that could be missed.
      if (one === undefined || isLast) continue;
      endpoints[at] = {...one, conditions: {...one.conditions, ready: one.conditions?.ready === false}};
      // As the API server notes it, to the second.
      const managedFields = [{time: `${new Date().toISOString().slice(0, 19)}Z`}];
      if (slice !== undefined)
        store.put('endpointslices', {...slice, endpoints, metadata: {...slice.metadata, managedFields}} as unknown as StoredObject);
      if (isForgetful && random.chance(0.02)) for (const watch of cluster.api.watches) watch.fail(410);
    }
  }

  /** Each kube-proxy writes its rules in its own time. */
  async function follow(node: string): Promise<void> {
    const random = seededRandom(node.length + node.charCodeAt(5));
    for (; !stop.signal.aborted; await sleep(500 + random.below(2500))) if (isBusy) proxies.sync(node);
  }

  interface Checked extends CheckReport {
    /** How often the rules of a node were read. */
    readonly reads: number;
  }

  async function check(): Promise<Checked> {
    const {api, folder} = cluster;
    const before = api.commands.length;
    const {stdout} = await svcTrace(['check', '-A', '-o', 'json'], {kubeconfig: api.kubeconfig, temporary: join(folder, 'tmp')});
    const reads = api.commands.slice(before).filter(({argv}) => argv.join(' ') === 'iptables-save').length;
    return {...(JSON.parse(stdout) as CheckReport), reads};
  }

  const found = ({findings}: CheckReport) =>
    findings.filter(({node, code, severity}) => node !== undefined && severity !== 'info' && (/^ST2|^ST3/.test(code) || code === 'ST505'));
  const texts = (report: CheckReport) => found(report).map(({code, node, message}) => `${code} ${node} ${message}`);

  /** Without it the node does not serve shop/web. */
  const withoutEntry = (dump: string) => dump.replace(/^-A KUBE-SERVICES .*"shop\/web:http cluster IP" .*-j KUBE-SV.*\n/m, '');

  test('a check finds nothing on nodes that are only behind, and reads each of them once', async () => {
    expect([(await check()).reads, isBusy]).toEqual([nodes.length, false]);
    isBusy = true;
    await sleep(5000);
    let reads = 0;
    for (let round = 0; round < 6; round++) {
      const report = await check();
      expect(texts(report)).toEqual([]);
      reads += report.reads;
    }
    // At most 1.5 times of what a quiet cluster takes.
    expect(reads / 6).toBeLessThanOrEqual(1.5 * nodes.length);
  });

  test('a check finds a rule that is gone, on its node alone, and reads no more for it', async () => {
    proxies.edit('node-b', withoutEntry);
    await sleep(4000);
    let reads = 0;
    for (let round = 0; round < 6; round++) {
      const report = await check();
      expect([...new Set(found(report).map(({node}) => node))]).toEqual(['node-b']);
      expect(found(report).map(({service}) => service?.name)).toContain('web');
      expect(report.findings.filter(({code}) => code === 'ST904')).toEqual([]);
      reads += report.reads;
    }
    expect(reads / 6).toBeLessThanOrEqual(1.5 * nodes.length);
  });

  test('both where the API server forgets where watches were', async () => {
    isBusy = true;
    isForgetful = true;
    proxies.edit('node-b', withoutEntry);
    await sleep(4000);
    const report = await check();
    expect([...new Set(found(report).map(({node}) => node))]).toEqual(['node-b']);
    proxies.edit('node-b', dump => dump);
    await sleep(4000);
    for (let round = 0; round < 3; round++) expect(texts(await check())).toEqual([]);
    isForgetful = false;
  });

  test('a captured bundle gives the same report as a check of the cluster', async () => {
    isBusy = true;
    const {api, folder} = cluster;
    const options = {kubeconfig: api.kubeconfig, temporary: join(folder, 'tmp')};
    const checkCaptured = async (name: string): Promise<CheckReport> => {
      await svcTrace(['capture', '-o', join(folder, name)], options);
      return JSON.parse((await svcTrace(['check', '-A', '--from', join(folder, name), '-o', 'json'], options)).stdout) as CheckReport;
    };
    proxies.edit('node-b', dump => dump);
    await sleep(4000);
    for (let round = 0; round < 3; round++) expect(texts(await checkCaptured(`healthy-${round}`))).toEqual([]);
    proxies.edit('node-b', withoutEntry);
    await sleep(4000);
    const report = await checkCaptured('faulty');
    expect([...new Set(found(report).map(({node}) => node))]).toEqual(['node-b']);
    proxies.edit('node-b', dump => dump);
  });

  test('watch reports no error, each pass reads each node once, and top and trace report none', async () => {
    isBusy = true;
    await sleep(4000);
    const {api, folder} = cluster;
    const options = {kubeconfig: api.kubeconfig, temporary: join(folder, 'tmp')};
    const [before, ran] = [api.requests.length, api.commands.length];
    const watch = svcTrace(['watch', '-A', '--interval', '3s'], options);
    await sleep(20_000);
    watch.kill('SIGINT');
    const {stdout} = await watch;
    expect(stdout.match(/ (?:ST2\d\d|ST3\d\d|ST505|ST904) /g) ?? []).toEqual([]);
    const asked = api.requests.slice(before);
    const countOf = (what: (request: (typeof asked)[number]) => boolean) => asked.filter(what).length;
    const passes = countOf(({path, query}) => path === '/api/v1/services' && query.has('watch'));
    expect(passes).toBeGreaterThan(1);
    const reads = api.commands.slice(ran).filter(({argv}) => argv.join(' ') === 'iptables-save').length;
    expect([reads > 0, reads <= passes * nodes.length]).toEqual([true, true]);
    const traced = await svcTrace(['trace', 'shop/web'], options);
    expect([traced.exitCode, traced.stdout]).toEqual([0, expect.stringMatching(/^OK: shop\/web is in sync on all 3 nodes/)]);
    const top = await svcTrace(['top', '-n', 'shop', '--once', '--interval', '2s'], options);
    expect([top.exitCode, top.stderr]).toEqual([0, '']);
  });

  test('agents publish nothing of nodes that are only behind in all of eight checks, and find a rule that is gone', async () => {
    isBusy = true;
    isForgetful = false;
    proxies.edit('node-b', dump => dump);
    // An agent does not exec into the pod of kube-proxy: the image shows the version.
    for (const pod of cluster.api.store.all('pods').filter(({metadata}) => metadata.name.startsWith('kube-proxy-')))
      Object.assign(pod['spec'] as object, {containers: [{name: 'kube-proxy', image: 'registry.k8s.io/kube-proxy:v1.30.5'}]});
    for (const node of nodes) agents.set(node, new LiveAgent(cluster, node, {interval: '3s', settle: '15s'}));
    await Promise.all([...agents.values()].map(agent => agent.ready()));
    const looks = () => Promise.all([...agents.values()].map(agent => agent.metric('svc_trace_agent_looks_total')));
    const judged = () => Promise.all([...agents.values()].map(agent => agent.metric('svc_trace_agent_last_judged_timestamp_seconds')));
    const published = async () =>
      (await Promise.all([...agents].map(async ([node, agent]) => [node, (await agent.ask('/metrics')).text] as const))).flatMap(
        ([node, text]) =>
          [...text.matchAll(/^svc_trace_findings\{code="(ST2\d\d|ST3\d\d|ST505)".*\} [1-9]\d*$/gm)].map(([, code]) => `${code} ${node}`),
      );
    // On a machine that has other work the first look takes its time.
    await expect.poll(async () => (await judged()).every(Number.isFinite)).toBe(true);
    const first = await looks();
    const isOver = async () => (await looks()).every((count, index) => count - (first[index] ?? 0) >= 8);
    while (!(await isOver())) {
      expect(await published()).toEqual([]);
      await sleep(1000);
    }
    proxies.edit('node-b', withoutEntry);
    await expect.poll(published).toContain('ST201 node-b');
    expect((await published()).filter(text => !text.endsWith(' node-b'))).toEqual([]);
  });
});
