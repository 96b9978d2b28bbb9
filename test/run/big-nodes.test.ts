import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {afterEach, expect, test} from 'vitest';
import type {Report} from '../../src/model/report.ts';
import {systemClock} from '../../src/run/clock.ts';
import {diagnoseCluster} from '../../src/run/diagnose-cluster.ts';
import {openCluster} from '../../src/run/open-cluster.ts';
import {iptablesOutput} from '../collect/node/fake-iptables.ts';
import {capturePath} from '../fixtures.ts';
import type {ApiServer, ApiServerOptions} from '../stand-in/api-server.ts';
import {bundleReply, startBundleCluster} from '../stand-in/bundle-cluster.ts';
import {bundleObjects} from '../stand-in/bundle-objects.ts';
import type {ExecCommand, ExecReply} from '../stand-in/exec.ts';

const servers: ApiServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

interface MoreSlices {
  readonly slices?: number;
  readonly endpoints?: number;
}

/** A captured cluster that has 1,100 EndpointSlices more; `iptables` on its nodes answers as the nft backend does. */
async function start(capture: string, {slices = 1100, endpoints = 1, ...options}: ApiServerOptions & MoreSlices = {}): Promise<ApiServer> {
  const folder = capturePath(capture);
  const objects = bundleObjects(folder);
  const more = Array.from({length: slices}, (_, index) => ({
    metadata: {namespace: 'other', name: `svc-${index}`, labels: {'kubernetes.io/service-name': `svc-${index}`}},
    addressType: 'IPv4',
    endpoints: Array.from({length: endpoints}, (_, number) => ({addresses: [`10.9.${index >> 8}.${number}`]})),
  }));
  const exec = (command: ExecCommand): ExecReply => listing(folder, command) ?? bundleReply(folder, command);
  const server = await startBundleCluster(folder, {
    exec,
    ...options,
    objects: {endpointslices: [...more, ...(objects['endpointslices'] ?? [])]},
  });
  servers.push(server);
  return server;
}

function listing(folder: string, {node, argv}: ExecCommand): ExecReply | null {
  const [program = ''] = argv;
  if (program !== 'iptables' && program !== 'ip6tables') return null;
  const dump = readFileSync(join(folder, 'nodes', node, `${program}-save`), 'latin1');
  const stdout = iptablesOutput(dump, argv);
  return stdout === null ? {exitCode: 1, stderr: 'iptables: No chain/target/match by that name.\n'} : {stdout};
}

async function check(server: ApiServer, {names = ['web'], full = false} = {}): Promise<Report> {
  const flags = {transport: 'auto', concurrency: 16, 'node-timeout': '10m', namespace: 'shop', kubeconfig: server.kubeconfig, full};
  const cluster = openCluster(flags);
  try {
    return await diagnoseCluster({
      ...{flags, names, cluster, clock: systemClock, options: {toolVersion: '0.0.0'}, signal: new AbortController().signal},
      progress: {say: () => {}, note: () => {}, close: () => {}},
    });
  } finally {
    cluster.api.close();
  }
}

const dumpsOn = ({requests}: ApiServer, node: string) =>
  requests.filter(({path, argv}) => path.includes(`-${node}/`) && /^ip6?tables-save$/.test(argv.join(' '))).length;
const readOf = ({nodes}: Report) => nodes.map(({read}) => read);

test('one Service of a big cluster is checked without dumps of its nodes', async () => {
  const server = await start('healthy/1.36-iptables');
  const report = await check(server);
  expect(report.summary).toMatchObject({verdict: 'ok', nodesChecked: 3});
  expect(readOf(report)).toEqual(['reachable', 'reachable', 'reachable']);
  expect(dumpsOn(server, 'node-a')).toBe(0);
});

test('a cluster of few Services with many endpoints is a big one', async () => {
  const server = await start('healthy/1.36-iptables', {slices: 200, endpoints: 50});
  expect(readOf(await check(server))).toEqual(['reachable', 'reachable', 'reachable']);
});

test('only a node with a fault is read completely', async () => {
  const server = await start('faults/missing-endpoint');
  const report = await check(server);
  const [finding] = report.findings.filter(({severity}) => severity === 'error');
  expect(finding).toMatchObject({code: 'ST202', node: 'node-a'});
  // As iptables-save prints it, not as the rules were read before.
  expect(finding?.actual?.[0]?.line).toBeGreaterThan(100);
  expect(readOf(report)).toEqual([undefined, 'reachable', 'reachable']);
  expect([dumpsOn(server, 'node-a') > 0, dumpsOn(server, 'node-b')]).toEqual([true, 0]);
});

test.each([
  ['with --full', {full: true}, {}],
  ['for a namespace', {names: []}, {}],
  ['of a small cluster', {}, {slices: 500, endpoints: 8}],
  [
    'of a cluster whose size may not be known',
    {},
    {
      allow: ({resource, namespace}: {readonly resource: string; readonly namespace: string}) =>
        resource !== 'endpointslices' || namespace !== '',
    },
  ],
])('all rules are read %s', async (_, flags, options) => {
  const server = await start('healthy/1.36-iptables', options);
  const report = await check(server, flags);
  expect(report.summary.nodesChecked).toBe(3);
  expect(readOf(report)).toEqual([undefined, undefined, undefined]);
  // A Service of IPv4 alone that is named needs one.
  expect(dumpsOn(server, 'node-a')).toBe('names' in flags ? 2 : 1);
});
