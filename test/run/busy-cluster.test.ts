import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterEach, expect, onTestFinished, test} from 'vitest';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import type {EndpointSliceObject} from '../../src/model/api-objects.ts';
import type {Report} from '../../src/model/report.ts';
import {diagnose as diagnoseSnapshot} from '../../src/diagnose.ts';
import {captureCluster, writeCapture} from '../../src/run/capture/capture-cluster.ts';
import {diagnoseCluster} from '../../src/run/diagnose-cluster.ts';
import {openCluster} from '../../src/run/open-cluster.ts';
import {seededRandom} from '../bench/random.ts';
import {capturePath} from '../fixtures.ts';
import {withRules} from '../rendered-dump.ts';
import type {ApiServer, ApiServerOptions} from '../stand-in/api-server.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import type {StoredObject} from '../stand-in/object-store.ts';

const healthy = capturePath('healthy/1.36-iptables');
const servers: ApiServer[] = [];
const address = '10.244.11.4';

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const isOfWeb = ({metadata}: StoredObject | EndpointSliceObject) => metadata.labels?.['kubernetes.io/service-name'] === 'web';
const without = (slice: EndpointSliceObject) => ({
  ...slice,
  endpoints: (slice.endpoints ?? []).filter(({addresses}) => addresses?.[0] !== address),
});

/** What a kube-proxy has that has not heard of the endpoint's removal, and what one has that has. */
async function rulesOf(node: string, isLate: boolean): Promise<string> {
  const {api, nodes, ...rest} = await readBundle(healthy);
  const endpointSlices = (api.endpointSlices ?? []).map(slice => (isOfWeb(slice) && !isLate ? without(slice) : slice));
  const [rendered] = withRules(
    {...rest, api: {...api, endpointSlices}, nodes: nodes.filter(({name}) => name === node)},
    seededRandom(1),
  ).nodes;
  return rendered?.read('iptables-save')?.toString() ?? '';
}

interface Given extends ApiServerOptions {
  /** How long ago the endpoint was removed, in milliseconds; null for never. */
  readonly ago: number | null;
  /** Which nodes have not followed. */
  readonly late: readonly string[];
  /** When these follow, in milliseconds from the start of the check; never if left out. */
  readonly followAfter?: number;
  readonly edit?: (rules: string, isLate: boolean) => string;
  readonly names?: readonly string[];
}

/** A cluster in which an endpoint was removed some time ago. */
async function start({ago, late, followAfter = Infinity, edit = rules => rules, names: _, ...options}: Given) {
  const now = Date.now();
  let sleeps = 0;
  let time = now;
  const clock = {
    now: () => Math.max(time, Date.now()),
    sleep: async (milliseconds: number) => {
      sleeps++;
      time = clock.now() + milliseconds;
    },
  };
  const rules = new Map<string, (isLate: boolean) => string>();
  for (const node of ['node-a', 'node-b', 'node-c']) {
    const [before, after] = [edit(await rulesOf(node, true), true), edit(await rulesOf(node, false), false)];
    rules.set(node, isLate => (isLate ? before : after));
  }
  const isLate = (node: string) => ago === null || (late.includes(node) && clock.now() < now + followAfter);
  const server = await startBundleCluster(healthy, {
    exec: ({node, argv}) => (argv.join(' ') === 'iptables-save' ? {stdout: rules.get(node)?.(isLate(node)) ?? ''} : null),
    ...options,
  });
  servers.push(server);
  // An API server writes when an object was updated; captures are without it.
  for (const {metadata} of ['services', 'endpointslices'].flatMap(plural => server.store.all(plural)))
    Object.assign(metadata, {managedFields: [{time: '2026-01-01T00:00:00Z'}]});
  if (ago !== null) {
    const managedFields = [{time: `${new Date(now - ago).toISOString().slice(0, 19)}Z`}];
    for (const slice of server.store.all('endpointslices').filter(isOfWeb)) {
      const {metadata, ...rest} = without(slice as unknown as EndpointSliceObject);
      server.store.put('endpointslices', {...rest, metadata: {...metadata, managedFields}} as unknown as StoredObject);
    }
  }
  const flags = {transport: 'auto', concurrency: 16, 'node-timeout': '10m', namespace: 'shop', kubeconfig: server.kubeconfig};
  return {server, clock, flags, sleeps: () => sleeps};
}

const progress = {say: () => {}, note: () => {}, close: () => {}};
const {signal} = new AbortController();

async function check(given: Given) {
  const {server, clock, flags, sleeps} = await start(given);
  using cluster = openCluster(flags);
  const {names = ['web']} = given;
  const report = await diagnoseCluster({...{flags, names, cluster, clock, options: {toolVersion: '0.0.0'}, signal}, progress});
  const reads = server.requests.filter(({argv}) => argv.join(' ') === 'iptables-save').length;
  return {report, server, reads, sleeps: sleeps(), requests: server.requests.length};
}

/** What is found in a bundle that was captured. */
async function checkCaptured(given: Given): Promise<Report> {
  const {flags} = await start(given);
  using cluster = openCluster(flags);
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-busy-'));
  onTestFinished(() => rmSync(folder, {recursive: true}));
  const path = join(folder, 'bundle');
  await writeCapture(await captureCluster({flags, cluster, signal, progress}), {path, redact: false, toolVersion: '0.0.0', signal});
  return diagnoseSnapshot(await readBundle(path), {toolVersion: '0.0.0'});
}

const found = ({findings}: Report) =>
  findings.filter(({severity, node}) => node !== undefined && severity !== 'info').map(({code, node}) => `${code} ${node}`);
const codes = ({findings}: Report) => findings.map(({code}) => code);

test('nodes that lag by some seconds cost three more requests, no second read, and no wait', async () => {
  const quiet = await check({ago: null, late: []});
  expect([found(quiet.report), quiet.reads, quiet.sleeps]).toEqual([[], 3, 0]);
  const busy = await check({ago: 4000, late: ['node-a', 'node-c']});
  expect([found(busy.report), busy.reads, busy.sleeps]).toEqual([[], 3, 0]);
  expect(busy.report.nodes.map(({lag}) => lag?.service)).toEqual(['shop/web', undefined, 'shop/web']);
  // All Services, all slices, and the slices of one Service as they were.
  expect(busy.requests - quiet.requests).toBe(3);
});

test('a change that all nodes have followed costs no request', async () => {
  const quiet = await check({ago: null, late: []});
  const followed = await check({ago: 4000, late: []});
  expect([found(followed.report), followed.sleeps, followed.requests - quiet.requests]).toEqual([[], 0, 0]);
});

/** What each kube-proxy says at its ports, by path. */
const says =
  (pages: Readonly<Record<string, string>>): Required<Given>['nodePage'] =>
  (_node, _port, path) => ({body: pages[path] ?? '', status: path in pages ? 200 : 404});
const healthz = (healthy: boolean) => ({
  '/healthz': JSON.stringify({lastUpdated: '2030-01-01T00:00:00Z', currentTime: '2030-01-01T00:00:00Z', healthy}),
});
const metrics = (isPending: boolean) => ({
  '/metrics': `kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds ${isPending ? 1002 : 1000}\nkubeproxy_sync_proxy_rules_last_timestamp_seconds 1001\n`,
});

test.each([
  ['says nothing', 40, 'ST203', {}],
  ['says that it is healthy', 40, 'ST505', healthz(true)],
  ['says that it is healthy', 70, 'ST203', healthz(true)],
  ['says that it is not healthy', 40, 'ST203', healthz(false)],
  ['has a change to write', 40, 'ST505', metrics(true)],
  ['has no change to write', 40, 'ST203', {...healthz(true), ...metrics(false)}],
])('a node that lags, whose kube-proxy %s, has after %i s the finding %s', async (_, seconds, code, pages) => {
  const {report, sleeps} = await check({ago: seconds * 1000, late: ['node-b'], nodePage: says(pages)});
  expect([found(report).filter(text => code === 'ST505' || !text.startsWith('ST505')), sleeps]).toEqual([[`${code} node-b`], 0]);
});

test('a lag is a warning that says how long it is', async () => {
  const {report} = await check({ago: 40_000, late: ['node-b'], nodePage: says(healthz(true))});
  const {severity, message} = report.findings.find(({code}) => code === 'ST505') ?? {};
  expect(severity).toBe('warning');
  expect(message).toMatch(/^kube-proxy on node-b is 4\d s behind: its rules for shop\/web are those of that long ago$/);
});

test('a missing rule is found while nodes lag', async () => {
  const entry = /^-A KUBE-SERVICES .*"shop\/web:http cluster IP" .*-j KUBE-SV.*\n/m;
  const {report} = await check({ago: 4000, late: ['node-a'], edit: rules => rules.replace(entry, '')});
  expect(new Set(found(report))).toEqual(new Set(['node-a', 'node-b', 'node-c'].map(node => `ST201 ${node}`)));
  expect(codes(report)).not.toContain('ST904');
});

test.each([
  ['follows in a second', 1000, []],
  ['never follows', Infinity, ['ST303 node-a']],
])('rules of a NetworkPolicy that was deleted are read twice: the program that carries it out %s', async (_, followAfter, expected) => {
  const deny = ':KUBE-POD-FW-AB - [0:0]\n-A FORWARD -d 10.244.12.4/32 -j KUBE-POD-FW-AB\n-A KUBE-POD-FW-AB -j REJECT\n';
  const edit = (rules: string, isLate: boolean): string => (isLate ? rules.replace(/(?<=\*filter\n.*?)COMMIT/s, `${deny}COMMIT`) : rules);
  const {report, reads} = await check({ago: 1000, late: ['node-a'], followAfter, edit});
  expect([[...new Set(found(report))], reads]).toEqual([expected, 4]);
});

const forgets: Pick<ApiServerOptions, 'faults'> = {
  faults: [{kind: 'status', match: /resourceVersionMatch=Exact/, status: 410, times: 99}],
};
const refuses: Pick<ApiServerOptions, 'allow'> = {allow: ({verb}) => verb !== 'watch'};

test.each([
  ['the API server tells nothing of before', forgets],
  ['watching is refused', refuses],
])('if %s, a node that lags is read again until it has followed', async (_, options) => {
  const {report, reads} = await check({...options, ago: 4000, late: ['node-a'], followAfter: 6000});
  expect(found(report)).toEqual([]);
  expect(codes(report)).not.toContain('ST904');
  expect(reads).toBeGreaterThan(3);
});

test.each([
  ['the API server tells nothing of before', forgets],
  ['watching is refused', refuses],
])('if %s, a node that does not follow within the grace period has a finding, and no ST904 beside it', async (_, options) => {
  const {report} = await check({...options, ago: 4000, late: ['node-a']});
  expect(found(report)).toEqual(['ST203 node-a']);
  expect(codes(report)).not.toContain('ST904');
});

test('the report says if watching is refused', async () => {
  const {report} = await check({...refuses, ago: null, late: []});
  expect(report.findings).toContainEqual(
    expect.objectContaining({code: 'ST901', severity: 'info', message: expect.stringContaining('polled, not watched')}),
  );
});

test('a bundle that was captured has the states of before, and gives what a check gives', async () => {
  const quiet = await checkCaptured({ago: null, late: []});
  expect([found(quiet), quiet.nodes.map(({lag}) => lag)]).toEqual([[], [undefined, undefined, undefined]]);
  const busy = await checkCaptured({ago: 4000, late: ['node-a', 'node-c']});
  expect([found(busy), busy.nodes.map(({lag}) => lag?.service)]).toEqual([[], ['shop/web', undefined, 'shop/web']]);
  expect(found(await checkCaptured({ago: 40_000, late: ['node-b']}))).toEqual(['ST203 node-b']);
});

test('changes that are missed between two watches (410) are no findings of nodes that have not followed them', async () => {
  let isBroken = false;
  const own = new Map<string, string>();
  for (const node of ['node-a', 'node-b', 'node-c']) own.set(node, await rulesOf(node, true));
  const after = new Map<string, string>();
  for (const node of own.keys()) after.set(node, await rulesOf(node, false));
  const given = await start({
    ...{ago: null, late: []},
    exec: ({node, argv}) => {
      if (argv.join(' ') !== 'iptables-save') return null;
      const {store} = given.server;
      const isLate = !isBroken || given.sleeps() === 0;
      if (!isBroken) {
        isBroken = true;
        for (const watch of [...given.server.watches]) watch.fail(410);
        for (const slice of store.all('endpointslices').filter(isOfWeb))
          store.put('endpointslices', without(slice as unknown as EndpointSliceObject) as unknown as StoredObject);
        store.forget();
      }
      return {stdout: (isLate ? own : after).get(node) ?? ''};
    },
  });
  using cluster = openCluster(given.flags);
  const {clock, flags} = given;
  const report = await diagnoseCluster({...{flags, names: ['web'], cluster, clock, options: {toolVersion: '0.0.0'}, signal}, progress});
  expect(found(report)).toEqual([]);
});
