import {readFileSync} from 'node:fs';
import {afterEach, describe, expect, test} from 'vitest';
import {diagnoseCluster} from '../../src/run/diagnose-cluster.ts';
import type {ClusterRun} from '../../src/run/cluster-run.ts';
import {Interrupted} from '../../src/run/clock.ts';
import {openCluster} from '../../src/run/open-cluster.ts';
import type {Report} from '../../src/model/report.ts';
import {capturePath} from '../fixtures.ts';
import type {ApiServer, ApiServerOptions} from '../stand-in/api-server.ts';
import type {StoredObject} from '../stand-in/object-store.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import type {ExecCommand} from '../stand-in/exec.ts';

const healthy = capturePath('healthy/1.36-iptables');
const faulty = capturePath('faults/missing-endpoint');
const servers: ApiServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

/** A clock that stands still but for those who sleep. */
const handClock = {
  time: Date.parse('2030-01-01T00:00:00Z'),
  now: () => handClock.time,
  sleep: async (milliseconds: number) => {
    handClock.time += milliseconds;
  },
};

interface Given extends ApiServerOptions {
  readonly bundle?: string;
  readonly names?: readonly string[];
  readonly flags?: object;
  readonly signal?: AbortSignal;
  readonly token?: string;
}

async function start({bundle = healthy, ...options}: Given): Promise<ApiServer> {
  const server = await startBundleCluster(bundle, options);
  servers.push(server);
  return server;
}

async function diagnose(server: ApiServer, {names = [], flags = {}, signal, token}: Given = {}): Promise<Report> {
  const all = {
    transport: 'auto',
    concurrency: 16,
    'node-timeout': '10m',
    namespace: 'shop',
    kubeconfig: server.kubeconfig,
    token,
    ...flags,
  };
  const cluster = openCluster(all);
  const run: ClusterRun = {
    ...{flags: all, names, cluster, clock: handClock},
    options: {toolVersion: '0.0.0'},
    signal: signal ?? new AbortController().signal,
    progress: {say: () => {}, note: () => {}, close: () => {}},
  };
  try {
    return await diagnoseCluster(run);
  } finally {
    cluster.api.close();
  }
}

const codesOf = ({findings}: Report) =>
  findings.filter(({severity}) => severity !== 'info').map(({code, node}) => `${code} ${node ?? ''}`.trim());
const apiPaths = ({requests}: ApiServer) => requests.filter(({argv}) => argv.length === 0).map(({path}) => path);

describe('a run', () => {
  test('checks every node of a healthy cluster', async () => {
    const report = await diagnose(await start({}), {names: ['web']});
    expect(report.summary).toMatchObject({verdict: 'ok', nodesChecked: 3, nodesUnread: 0, services: 1});
  });

  test('for one Service reads that Service and its slices, and no others', async () => {
    const server = await start({});
    await diagnose(server, {names: ['web']});
    const asked = server.requests.filter(({path}) => /services|slices/.test(path));
    const selected = asked.map(({path, query}) => `${path} ${query.get('fieldSelector') ?? query.get('labelSelector') ?? ''}`.trim());
    expect([...new Set(selected)].sort()).toEqual([
      '/api/v1/namespaces/shop/services metadata.name=web',
      '/api/v1/namespaces/shop/services/web',
      '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices kubernetes.io/service-name=web',
    ]);
  });

  test('reads all Services before it reports a finding', async () => {
    const server = await start({bundle: faulty});
    const report = await diagnose(server, {names: ['web']});
    expect(codesOf(report)).toEqual(['ST202 node-a']);
    expect(apiPaths(server)).toContain('/api/v1/services');
  });

  test('finds the same if not all Services may be read', async () => {
    const server = await start({bundle: faulty, allow: ({resource, namespace}) => resource !== 'services' || namespace !== ''});
    expect(codesOf(await diagnose(server, {names: ['web']}))).toEqual(['ST202 node-a']);
  });

  test('ignores a Service of another namespace', async () => {
    const server = await start({});
    const {services} = await diagnose(server, {names: ['web']});
    expect(services.map(({namespace, name}) => `${namespace}/${name}`)).toEqual(['shop/web']);
  });

  test('checks the chosen nodes, and reports the size of a sample and of the cluster', async () => {
    const {nodes, summary} = await diagnose(await start({}), {names: ['web'], flags: {sample: 2}});
    expect(nodes).toHaveLength(2);
    expect(summary.sampledFrom).toBe(3);
  });

  test('names a Windows node and does not try to read it', async () => {
    const server = await start({});
    server.store.put('nodes', {metadata: {name: 'win-1', labels: {'kubernetes.io/os': 'windows'}}});
    const {nodes, summary} = await diagnose(server, {names: ['web']});
    expect(nodes.find(({name}) => name === 'win-1')).toMatchObject({status: 'unsupported'});
    expect(summary).toMatchObject({verdict: 'ok', nodesUnread: 0});
  });
});

describe('without a permission', () => {
  test('for exec, the API is checked, and every node is reported as unread', async () => {
    const server = await start({allow: ({subresource}) => subresource !== 'exec'});
    const {nodes, findings, summary} = await diagnose(server, {flags: {'all-namespaces': true}});
    expect(nodes.map(({status}) => status)).toEqual(['unread', 'unread', 'unread']);
    expect(findings.find(({code}) => code === 'ST901')?.message).toContain('pods/exec');
    expect(findings.some(({code}) => code === 'ST101')).toBe(true);
    expect(summary.verdict).toBe('incomplete');
  });

  test("to list Nodes, the nodes of kube-proxy's pods are read, and the run is incomplete", async () => {
    const server = await start({allow: ({resource}) => resource !== 'nodes'});
    const {summary, findings} = await diagnose(server, {names: ['web']});
    expect(summary).toMatchObject({nodesChecked: 3, verdict: 'incomplete'});
    expect(findings.find(({code}) => code === 'ST901')).toMatchObject({
      message: expect.stringContaining('cannot list resource "nodes"'),
      remedy: expect.stringContaining('svc-trace access'),
    });
  });

  test('to read ConfigMaps, the run is complete', async () => {
    const server = await start({allow: ({resource}) => resource !== 'configmaps'});
    expect((await diagnose(server, {names: ['web']})).summary.verdict).toBe('ok');
  });

  test('to read Services nothing can be checked (exit 3)', async () => {
    const server = await start({allow: ({resource}) => resource !== 'services'});
    await expect(diagnose(server, {names: ['web']})).rejects.toMatchObject({
      message: expect.stringContaining('cannot get resource "services"'),
      oclif: {exit: 3},
    });
  });

  test('one unreadable node does not affect the others', async () => {
    const server = await start({faults: [{kind: 'status', match: /kube-proxy-node-b\/exec/, status: 403, message: 'no'}]});
    const {nodes} = await diagnose(server, {names: ['web']});
    expect(nodes.map(({status}) => status)).toEqual(['checked', 'unread', 'checked']);
  });
});

describe('wrong use', () => {
  test('a Service that does not exist, with the nearest names', async () => {
    const server = await start({});
    await expect(diagnose(server, {names: ['wbe']})).rejects.toMatchObject({
      message: 'Service "wbe" not found in namespace shop',
      oclif: {exit: 2},
      suggestions: expect.arrayContaining(['shop/web']),
    });
  });

  test('names together with a selector are refused before anything is read', async () => {
    const server = await start({});
    await expect(diagnose(server, {names: ['web'], flags: {selector: 'app=nope'}})).rejects.toMatchObject({
      message: 'a name (web) cannot be combined with a selector (-l app=nope): use one of them',
      oclif: {exit: 2},
    });
    expect(server.requests).toEqual([]);
  });

  test('a node that does not exist', async () => {
    await expect(diagnose(await start({}), {names: ['web'], flags: {node: ['node-x']}})).rejects.toMatchObject({oclif: {exit: 2}});
  });
});

describe('differences that may be due to timing', () => {
  const ghost = (name: string, time = new Date(handClock.time).toISOString()) => ({
    metadata: {namespace: 'shop', name, creationTimestamp: time, managedFields: [{time}]},
    spec: {clusterIP: '10.96.200.1', clusterIPs: ['10.96.200.1'], ipFamilies: ['IPv4'], ports: [{name: 'http', port: 80, protocol: 'TCP'}]},
  });

  test('a Service that the nodes have at the recheck is no finding', async () => {
    const server = await start({
      exec: ({argv}) => {
        // The Service goes away again while the first node is read, as if kube-proxies had caught up.
        if (argv[0] === 'ip6tables-save') server.store.remove('services', 'shop', 'ghost');
        return null;
      },
    });
    server.store.put('services', ghost('ghost'));
    const report = await diagnose(server);
    expect(codesOf(report)).not.toContain('ST201 node-a');
    expect(report.summary.errors).toBe(0);
  });

  test('rules that are still missing after the grace period are a finding if the API server no longer has earlier states', async () => {
    const server = await start({});
    server.store.put('services', ghost('ghost'));
    server.store.forget();
    const started = handClock.time;
    const {findings} = await diagnose(server);
    expect(findings.filter(({service, severity}) => service?.name === 'ghost' && severity === 'error')).toHaveLength(3);
    expect(handClock.time - started).toBe(15_000);
  });

  test('nodes with rules of a deleted Service are read again until the grace period is over', async () => {
    const server = await start({});
    server.store.remove('services', 'shop', 'web');
    server.store.forget();
    const {findings} = await diagnose(server, {flags: {namespace: 'shop'}});
    expect(findings.filter(({code}) => code === 'ST205').map(({node}) => node)).toEqual(['node-a', 'node-b', 'node-c']);
    const dumps = server.requests.filter(({argv}) => argv.join(' ') === 'iptables-save');
    expect(dumps).toHaveLength(3 * 4);
  });

  const dumpsOf = (server: ApiServer) => server.requests.filter(({argv}) => argv.join(' ') === 'iptables-save').length;

  test('nodes with the rules of states before the first list are read once, as the API server provides these states', async () => {
    const server = await start({});
    server.store.put('services', ghost('ghost'));
    server.store.remove('services', 'shop', 'web');
    const started = handClock.time;
    const {findings, nodes} = await diagnose(server, {flags: {'all-namespaces': true}});
    expect(findings.filter(({node, severity}) => node !== undefined && severity !== 'info')).toEqual([]);
    expect(nodes.map(({lag}) => lag?.service)).toEqual(['shop/web', 'shop/web', 'shop/web']);
    expect([dumpsOf(server), handClock.time - started]).toEqual([3, 0]);
  });

  test('a missing rule is found in one read although its Service changed just before', async () => {
    const server: ApiServer = await start({
      exec: ({node, argv}) => (node === 'node-a' && argv.join(' ') === 'iptables-save' ? {stdout: withoutEndpoint(own, 0)} : null),
    });
    const [slice] = server.store.all('endpointslices').filter(({metadata}) => metadata.labels?.['kubernetes.io/service-name'] === 'web');
    const managedFields = [{time: new Date(handClock.time - 3000).toISOString()}];
    if (slice !== undefined) server.store.put('endpointslices', {...slice, metadata: {...slice.metadata, managedFields}} as StoredObject);
    const {findings} = await diagnose(server, {flags: {'all-namespaces': true}});
    expect(
      findings.filter(({severity, node}) => severity === 'error' && node !== undefined).map(({node, service}) => [node, service?.name]),
    ).toEqual([['node-a', 'web']]);
    expect(dumpsOf(server)).toBe(3);
  });

  /** Each time node-a is read another endpoint is missing, and the Service has changed. */
  const restless = (own: string, server: () => ApiServer) => {
    let reads = 0;
    return ({node, argv}: ExecCommand) => {
      if (node !== 'node-a' || argv.join(' ') !== 'iptables-save') return null;
      reads++;
      const web = server().store.find('services', 'shop', 'web');
      server().store.put('services', {...web, ...ghost('web'), spec: {...ghost('web').spec, healthCheckNodePort: reads}});
      return {stdout: withoutEndpoint(own, reads % 2)};
    };
  };
  const own = readFileSync(`${healthy}/nodes/node-a/iptables-save`, 'utf8');

  test('rules that match no state of a Service that keeps changing are a finding, without ST904 beside it', async () => {
    const server: ApiServer = await start({exec: command => restless(own, () => server)(command)});
    const {findings} = await diagnose(server, {names: ['web']});
    expect(findings.filter(({node, severity}) => node === 'node-a' && severity === 'error')).not.toEqual([]);
    expect(findings.filter(({code}) => code === 'ST904')).toEqual([]);
  });

  test('if Services may not be watched, a changing Service is only ST904, and the report says that states are unknown', async () => {
    const server: ApiServer = await start({
      exec: command => restless(own, () => server)(command),
      allow: ({verb}) => verb !== 'watch',
    });
    const {findings, summary} = await diagnose(server, {names: ['web']});
    expect(findings.filter(({node, severity}) => node === 'node-a' && severity === 'error')).toEqual([]);
    expect(findings).toContainEqual(expect.objectContaining({code: 'ST904', node: 'node-a', service: {namespace: 'shop', name: 'web'}}));
    expect(findings).toContainEqual(expect.objectContaining({code: 'ST901', message: expect.stringContaining('polled, not watched')}));
    expect(summary.errors).toBe(0);
  });
});

/** Sends what goes to one endpoint of shop/web elsewhere. */
function withoutEndpoint(dump: string, which: number): string {
  const address = ['10.244.11.4:8080', '10.244.11.5:8080'][which] ?? '';
  return dump.replaceAll(
    `--comment "shop/web:http" -m tcp -j DNAT --to-destination ${address}`,
    `--comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.99.${which}:8080`,
  );
}

test('the report of an interrupted run contains the nodes that were read', async () => {
  const stop = new AbortController();
  const server = await start({
    exec: ({node, argv}) => {
      if (node === 'node-b' && argv[0] === 'iptables-save') stop.abort(new Interrupted('SIGINT'));
      return null;
    },
  });
  const {nodes, summary} = await diagnose(server, {names: ['web'], flags: {concurrency: 1}, signal: stop.signal});
  expect(nodes.map(({status}) => status)).toEqual(['checked', 'unread', 'unread']);
  expect(nodes[1]?.reason).toBe('interrupted (SIGINT)');
  expect(summary.verdict).toBe('incomplete');
});
