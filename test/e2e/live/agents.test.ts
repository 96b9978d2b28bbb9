import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {afterAll, beforeAll, expect, test, vi} from 'vitest';
import {allowedBy} from '../../collect/access/roles.ts';
import {describeWith} from '../../require.ts';
import type {StoredObject} from '../../stand-in/object-store.ts';
import {breakages} from './breakages.ts';
import {agentPort, clusterNeeds, LiveCluster} from './cluster.ts';
import {confined, LiveAgent} from './live-agent.ts';
import {type CheckReport, svcTrace} from './svc-trace.ts';

const reader = 'system:serviceaccount:svc-trace:svc-trace-reader';
const ownRights = allowedBy(readFileSync(join(import.meta.dirname, '../../../docs/rbac/agent.yaml'), 'utf8'));

describeWith([...clusterNeeds, 'setpriv', 'unshare'], 'agents on the nodes of a cluster', () => {
  let cluster: LiveCluster;
  const agents = new Map<string, LiveAgent>();
  const agent = (node: string): LiveAgent => {
    const found = agents.get(node);
    if (found === undefined) throw new Error(`there is no agent on ${node}`);
    return found;
  };
  const all = (work: (one: LiveAgent) => Promise<unknown>) => Promise.all([...agents.values()].map(work));

  beforeAll(async () => {
    cluster = await LiveCluster.open('healthy/1.30-iptables', {
      tokens: {'agent-token': {user: 'agent'}, scraper: {user: 'prometheus'}, outsider: {user: 'outsider'}},
      allow: (request, {name}) => name !== 'agent' || ownRights(request),
      allowUrl: ({path}, {name}) => name === 'admin' || name === reader || (name === 'prometheus' && path === '/metrics'),
    });
    // An agent does not exec into the pod of kube-proxy: the image shows the version.
    for (const pod of cluster.api.store.all('pods').filter(({metadata}) => metadata.name.startsWith('kube-proxy-')))
      Object.assign(pod['spec'] as object, {containers: [{name: 'kube-proxy', image: 'registry.k8s.io/kube-proxy:v1.30.5'}]});
    cluster.api.store.put('serviceaccounts', {metadata: {namespace: 'svc-trace', name: 'svc-trace-reader'}});
    for (const {name} of cluster.nodes) agents.set(name, new LiveAgent(cluster, name, {confine: confined}));
    await all(one => one.ready());
  });
  afterAll(async () => {
    for (const one of agents.values()) await one[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  async function check(...args: readonly string[]): Promise<CheckReport & {readonly exitCode: number | undefined}> {
    const {stdout, stderr, exitCode} = await svcTrace(['check', '-o', 'json', '--no-progress', ...args], {
      kubeconfig: cluster.api.kubeconfig,
    });
    if (stdout === '') throw new Error(stderr);
    return {...(JSON.parse(stdout) as CheckReport), exitCode};
  }
  const reasons = ({nodes}: CheckReport) =>
    Object.fromEntries(nodes.flatMap(({name, reason}) => (reason === undefined ? [] : [[name, reason]])));

  test('find the same on healthy nodes as check by exec, with two capabilities, their own Role and a read-only file system', async () => {
    const [collected, read] = await Promise.all([check('-A', '--agents'), check('-A')]);
    expect(collected.findings).toEqual(read.findings);
    expect(collected.summary).toEqual(read.summary);
    expect(collected.summary).toMatchObject({errors: 0, nodesChecked: 3, nodesUnread: 0});
    const created = cluster.api.requests.filter(({user, resource}) => user?.name === 'agent' && resource?.verb === 'create');
    expect(new Set(created.map(({resource}) => resource?.resource))).toEqual(new Set(['tokenreviews', 'subjectaccessreviews']));
  });

  test('publish metrics', async () => {
    const {status, text} = await agent('node-a').ask('/metrics');
    expect(status).toBe(200);
    expect(text).toMatch(/^svc_trace_node_checked\{node="node-a",mode="iptables",version="v1\.30\.\d+"\} 1$/m);
    expect(text).toMatch(/^svc_trace_agent_objects\{kind="services"\} [1-9]/m);
  });

  test('answer authorized clients only', async () => {
    const one = agent('node-a');
    const status = async (path: string, token: string | null) => (await one.ask(path, {token})).status;
    expect(await Promise.all(['/metrics', '/result'].map(path => status(path, null)))).toEqual([401, 401]);
    expect(await Promise.all(['/metrics', '/result'].map(path => status(path, 'nonsense')))).toEqual([401, 401]);
    expect(await Promise.all(['/metrics', '/result'].map(path => status(path, 'outsider')))).toEqual([403, 403]);
    expect(await Promise.all(['/metrics', '/result'].map(path => status(path, 'scraper')))).toEqual([200, 403]);
    expect(await Promise.all(['/healthz', '/readyz', '/'].map(path => status(path, null)))).toEqual([200, 200, 404]);
    for (const token of [null, 'nonsense', 'outsider']) {
      const {text} = await one.ask('/result', {token});
      expect(text).not.toMatch(/shop|node-|\d+\.\d+|outsider|nonsense/);
    }
  });

  test('get a token for agents alone, which is requested once, and never the token of the user who runs check', async () => {
    cluster.api.requests.length = 0;
    expect(reasons(await check('-A', '--agents'))).toEqual({});
    const requests = cluster.api.requests.filter(({user}) => user?.name === 'admin');
    expect(requests.filter(({resource}) => resource?.subresource === 'token')).toHaveLength(1);
    const shown = requests
      .filter(({resource}) => resource?.subresource === 'proxy')
      .map(({headers}) => headers['x-svc-trace-authorization']);
    expect(shown).toHaveLength(3);
    const [, claims = ''] = String(shown[0]).split('.');
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({aud: ['svc-trace-agent'], sub: reader});
    expect(new Set(shown).size).toBe(1);
  });

  test('find manual changes on their own nodes only, as check does by exec', async () => {
    // One of each node.
    const applied = [...new Map(breakages.toReversed().map(breakage => [breakage.node, breakage])).values()];
    for (const {node, apply} of applied) apply(cluster.node(node));
    await all(one => one.rechecked());
    const [collected, read] = await Promise.all([check('-A', '--agents'), check('-A')]);
    for (const {node, expected} of applied) {
      expect(collected.findings).toContainEqual(expect.objectContaining({...expected, node}));
      expect((await agent(node).ask('/metrics')).text).toContain(`svc_trace_findings{code="${expected['code']}"`);
    }
    // What to do is not a node's word.
    const asFound = (finding: object) => ({...finding, command: undefined, remedy: undefined});
    expect(collected.findings.map(asFound)).toEqual(read.findings.map(asFound));
    expect(collected.findings.filter(({command, node}) => command !== undefined && node !== undefined)).toEqual([]);
    expect(collected.exitCode).toBe(1);
    cluster.heal();
    await all(one => one.rechecked());
    expect((await check('-A', '--agents')).summary).toMatchObject({errors: 0, nodesUnread: 0});
  });

  test('notice a new Service that no node has', async () => {
    cluster.api.store.put('services', lateService());
    cluster.api.store.put('endpointslices', lateSlice());
    // A node that lacks the Service is in sync until the grace period is over.
    const collected = await vi.waitFor(
      async () => {
        const report = await check('shop/late', '--agents');
        expect(report.findings.filter(({code}) => code === 'ST201').map(({node}) => node)).toEqual(['node-a', 'node-b', 'node-c']);
        return report;
      },
      {timeout: 600_000},
    );
    expect(collected.exitCode).toBe(1);
    cluster.api.store.remove('services', 'shop', 'late');
    cluster.api.store.remove('endpointslices', 'shop', 'late-1');
    await all(one => one.rechecked());
    expect(collected.summary.nodesUnread).toBe(0);
    expect((await check('-A', '--agents')).summary).toMatchObject({errors: 0, nodesUnread: 0});
  });

  test('resume their watches when these break, without listing all again', async () => {
    const lists = await agent('node-a').metric('svc_trace_agent_lists_total{kind="services"}');
    for (const watch of [...cluster.api.watches]) watch.break();
    const restarts = () => agent('node-a').metric('svc_trace_agent_watch_restarts_total{kind="services",reason="broken"}');
    await expect.poll(restarts).toBeGreaterThan(0);
    await expect.poll(() => cluster.api.watches.length).toBe(6);
    expect(await agent('node-a').metric('svc_trace_agent_lists_total{kind="services"}')).toBe(lists);
    expect((await agent('node-a').ask('/readyz')).status).toBe(200);
  });

  test('that missed a change do not report a node as in sync', async () => {
    // Their watches stay, and say nothing any more.
    for (const watch of cluster.api.watches) watch.mute();
    const web = structuredClone(cluster.api.store.find('services', 'shop', 'web')) as StoredObject;
    cluster.api.store.put('services', web);
    const stale = expect.stringMatching(/^its agent checked it \d+ s ago, before shop\/web changed$/);
    // Where the machine is busy, they may not answer in time.
    const verdicts: unknown[] = [];
    const whyUnread = async () => {
      const {summary, exitCode, ...report} = await check('shop/web', '--agents', '--wait', '20s');
      verdicts.push({verdict: summary.verdict, exitCode});
      return Object.values(reasons(report as CheckReport));
    };
    await expect.poll(whyUnread).toEqual([stale, stale, stale]);
    expect(verdicts.at(-1)).toEqual({verdict: 'incomplete', exitCode: 3});
    for (const watch of [...cluster.api.watches]) watch.end();
    expect((await check('shop/web', '--agents')).summary).toMatchObject({verdict: 'ok', nodesUnread: 0});
  });

  test('report nothing about a Service that their watch has not delivered yet', async () => {
    const {store, watches} = cluster.api;
    cluster.api.store.put('services', lateService());
    cluster.api.store.put('endpointslices', lateSlice());
    for (const watch of watches) watch.mute();
    store.remove('services', 'shop', 'late');
    store.remove('endpointslices', 'shop', 'late-1');
    await all(one => one.rechecked());
    await all(async one => expect((await one.ask('/result')).text).not.toContain('ST201'));
    expect((await check('-A', '--agents')).findings.filter(({code}) => code === 'ST201')).toEqual([]);
  });

  test('are not used if a transport is given', async () => {
    const {stderr, exitCode} = await svcTrace(['check', '-A', '--agents', '--transport', 'ssh'], {kubeconfig: cluster.api.kubeconfig});
    expect(exitCode).toBe(2);
    expect(stderr).toContain('--transport has no effect with --agents: ');
  });

  test('that serve plain HTTP are read without a token, while the others use TLS', async () => {
    await agent('node-b')[Symbol.asyncDispose]();
    const old = new LiveAgent(cluster, 'node-b', {confine: confined, args: ['--insecure-http'], port: 'http'});
    agents.set('node-b', old);
    await old.ready();
    expect((await old.ask('/result', {token: null})).status).toBe(200);
    const summary = async () => {
      cluster.api.requests.length = 0;
      return (await check('-A', '--agents')).summary;
    };
    await expect.poll(summary).toMatchObject({nodesChecked: 3, nodesUnread: 0});
    const asked = cluster.api.requests.filter(({resource}) => resource?.subresource === 'proxy');
    const shown = asked.map(({path, headers}) => [/pods\/([^/]+)\//.exec(path)?.[1], headers['x-svc-trace-authorization'] !== undefined]);
    expect(Object.fromEntries(shown)).toEqual({
      'https:agent-node-a:10270': true,
      'http:agent-node-b:10270': false,
      'https:agent-node-c:10270': true,
    });
    // Its pod does not say that it has no TLS.
    cluster.api.store.put('pods', {
      ...old.pod,
      spec: {...old.pod.spec, containers: [{name: 'agent', ports: [{containerPort: agentPort}]}]},
    });
    expect(reasons(await check('-A', '--agents'))).toEqual({
      'node-b': 'its agent svc-trace/agent-node-b serves plain HTTP on port 10270, which its pod does not name "http"',
    });
    await old[Symbol.asyncDispose]();
    const renewed = new LiveAgent(cluster, 'node-b', {confine: confined, port: 'http'});
    agents.set('node-b', renewed);
    await renewed.ready();
    expect(reasons(await check('-A', '--agents'))).toEqual({
      'node-b': 'its agent svc-trace/agent-node-b serves HTTPS on port 10270, which its pod names "http"',
    });
    await renewed[Symbol.asyncDispose]();
    agents.set('node-b', new LiveAgent(cluster, 'node-b', {confine: confined}));
    await agent('node-b').ready();
  });

  test('admit for a minute only clients that were admitted before, if the API server stops responding', async () => {
    const one = agent('node-a');
    expect((await one.ask('/metrics', {token: 'scraper'})).status).toBe(200);
    cluster.api.faults.push({kind: 'status', status: 503, match: /reviews/});
    expect((await one.ask('/metrics', {token: 'scraper'})).status).toBe(200);
    expect(await one.ask('/metrics', {token: 'new'})).toEqual({status: 503, text: 'the API server cannot be asked about this token\n'});
    cluster.api.faults.length = 0;
    expect((await one.ask('/metrics', {token: 'newer'})).status).toBe(401);
    expect(await one.metric('svc_trace_agent_token_reviews_total{result="failed"}')).toBe(1);
  });

  test('that hang are given up, and their nodes are unread', async () => {
    agent('node-b').process.kill('SIGSTOP');
    const report = await check('-A', '--agents', '--node-timeout', '20s');
    agent('node-b').process.kill('SIGCONT');
    expect(reasons(report)).toEqual({'node-b': 'its agent svc-trace/agent-node-b did not answer: no answer within 20 s'});
    expect({nodesChecked: report.summary.nodesChecked, exitCode: report.exitCode}).toEqual({nodesChecked: 2, exitCode: 3});
  });

  test('end at once on SIGTERM, and then their nodes are unread', async () => {
    const gone = agent('node-c');
    gone.process.kill('SIGTERM');
    const {exitCode, signal, stderr, stdout} = await gone.process;
    expect({exitCode, signal}).toEqual({exitCode: 0, signal: undefined});
    expect(stderr).toMatch(/^svc-trace agent \S+ of node node-c: .*, port 10270, HTTPS, self-signed certificate$/m);
    expect(stdout).toMatch(/^\S+Z OK: /m);
    for (const secret of ['agent-token', 'admin-token', 'scraper', 'eyJ']) expect(stdout + stderr).not.toContain(secret);
    expect(reasons(await check('-A', '--agents'))['node-c']).toMatch(/^the API server does not reach its agent svc-trace\/agent-node-c: /);
    await gone[Symbol.asyncDispose]();
    expect(reasons(await check('-A', '--agents'))['node-c']).toMatch(/^there is no agent on it /);
  });
});

function lateService(): StoredObject {
  const creationTimestamp = '2026-01-01T00:00:00Z';
  const ports = [{name: 'http', protocol: 'TCP', port: 80, targetPort: 8080}];
  return {
    metadata: {namespace: 'shop', name: 'late', creationTimestamp},
    spec: {type: 'ClusterIP', clusterIP: '10.96.77.77', clusterIPs: ['10.96.77.77'], ports},
  };
}

function lateSlice(): StoredObject {
  return {
    metadata: {namespace: 'shop', name: 'late-1', labels: {'kubernetes.io/service-name': 'late'}},
    addressType: 'IPv4',
    ports: [{name: 'http', protocol: 'TCP', port: 8080}],
    endpoints: [{addresses: ['10.244.11.5'], conditions: {ready: true}, nodeName: 'node-a'}],
  } as StoredObject;
}
