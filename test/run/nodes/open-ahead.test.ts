import {setTimeout as sleep} from 'node:timers/promises';
import {expect, onTestFinished, test, vi} from 'vitest';
import type {Report} from '../../../src/model/report.ts';
import {systemClock} from '../../../src/run/clock.ts';
import {diagnoseCluster} from '../../../src/run/diagnose-cluster.ts';
import {openCluster} from '../../../src/run/open-cluster.ts';
import {capturePath} from '../../fixtures.ts';
import type {ApiServer} from '../../stand-in/api-server.ts';
import {bundleReply, startBundleCluster} from '../../stand-in/bundle-cluster.ts';
import type {Fault} from '../../stand-in/faults.ts';

/** How long the API server takes to list the Nodes if they do not wait for commands, in milliseconds. */
const listing = 300;

interface Checked {
  readonly report: Report;
  readonly server: ApiServer;
  /** The commands that ran before the Nodes were listed. */
  readonly ahead: readonly string[];
  readonly all: readonly string[];
}

interface Given {
  readonly capture?: string;
  readonly names?: readonly string[];
  readonly flags?: object;
  readonly faults?: readonly Fault[];
  /** The Nodes are listed when so many commands have begun. */
  readonly commandsAhead?: number;
}

async function check({
  capture = 'healthy/1.36-iptables',
  names = ['web'],
  flags = {},
  faults = [],
  commandsAhead = 0,
}: Given): Promise<Checked> {
  const folder = capturePath(capture);
  const commands: string[] = [];
  const begun = Promise.withResolvers<void>();
  let ahead: readonly string[] = [];
  const listed = (commandsAhead === 0 ? sleep(listing) : begun.promise).then(() => {
    ahead = commands.toSorted();
  });
  const server = await startBundleCluster(folder, {
    faults: [...faults, {kind: 'wait', match: /GET \/api\/v1\/nodes\?/, until: listed}],
    exec: command => {
      commands.push(`${command.node}: ${command.argv.join(' ')}`);
      if (commands.length === commandsAhead) begun.resolve();
      return bundleReply(folder, command);
    },
  });
  onTestFinished(() => server.close());
  const all = {transport: 'auto', concurrency: 16, 'node-timeout': '10m', namespace: 'shop', kubeconfig: server.kubeconfig, ...flags};
  const cluster = openCluster(all);
  try {
    const report = await diagnoseCluster({
      ...{flags: all, names, cluster, clock: systemClock, options: {toolVersion: '0.0.0'}, signal: new AbortController().signal},
      progress: {say: () => {}, note: () => {}, close: () => {}},
    });
    return {report, server, ahead, all: commands};
  } finally {
    cluster.api.close();
  }
}

// The image has no shell: the others wait for what one program tells of them at once.
const early = ['iptables-save', 'sh'];

test('the node that --node names is opened while the Nodes are listed, and no command runs twice', async () => {
  const {report, ahead, all} = await check({flags: {node: ['node-a']}, commandsAhead: early.length});
  expect(report.summary).toMatchObject({verdict: 'ok', nodesChecked: 1, nodesUnread: 0});
  expect(ahead).toEqual(early.map(command => `node-a: ${command}`));
  // Counts are read twice, to see what grows.
  const once = all.filter(command => !command.endsWith('conntrack -S'));
  expect(once.toSorted()).toEqual([...new Set(once)].sort());
});

test.each([
  ['TCP Service', 'shop/web', ['tcp'], []],
  ['SCTP Service', 'infra/sctp', [], []],
  ['Service of TCP and UDP', 'infra/dns', ['tcp', 'udp'], []],
  ['Service of both families', 'infra/dual', ['tcp'], [' ip6tables-save', ' ip6tables-legacy-save']],
])('of tracked connections and families, a check of a %s reads those that it has', async (_, name, protocols, six) => {
  const {all} = await check({names: [name], flags: {node: ['node-a']}});
  const lists = new Set(all.flatMap(command => /conntrack -L -p (\w+)/.exec(command)?.[1] ?? []));
  expect([...lists].sort()).toEqual(protocols);
  expect(all.flatMap(command => / ip6.+| ip -6.+/.exec(command) ?? [])).toEqual(six);
});

test('the report is that of a node that is opened afterwards', async () => {
  const given = {capture: 'faults/missing-endpoint', flags: {node: ['node-a']}};
  const [{report}, {report: afterwards}] = [
    await check(given),
    await check({...given, faults: [{kind: 'slow', match: /pods\?/, delay: 800}]}),
  ];
  expect(report.findings.map(({code, node}) => [code, node])).toContainEqual(['ST202', 'node-a']);
  expect([report.findings, report.nodes, report.summary]).toEqual([afterwards.findings, afterwards.nodes, afterwards.summary]);
});

test.each([
  ['several nodes', {node: ['node-a', 'node-b']}],
  ['a node that a selector may exclude', {node: ['node-a'], 'node-selector': 'kubernetes.io/os=linux'}],
  ['all nodes', {}],
])('of %s none is opened before the Nodes are known', async (_, flags) => {
  const {report, ahead} = await check({flags});
  expect(report.summary.nodesUnread).toBe(0);
  expect(ahead).toEqual([]);
});

test('a node that does not exist is not found, and nothing runs on any', async () => {
  await expect(check({flags: {node: ['node-x']}})).rejects.toThrow('node "node-x" not found');
});

test('an exec that the API server refuses is reported as for every other node', async () => {
  const forbidden: Fault = {kind: 'status', status: 403, message: 'pods "kube-proxy-node-a" is forbidden', match: /\/exec\?/};
  const {report} = await check({flags: {node: ['node-a']}, faults: [forbidden]});
  expect(report.summary.nodesUnread).toBe(1);
  expect(JSON.stringify(report)).toContain('exec needs the verbs get and create on pods/exec');
});

test('an exec that hangs takes the timeout of the node, which begins when the node is read', async () => {
  const {report} = await check({
    flags: {node: ['node-a'], 'node-timeout': '1s'},
    faults: [{kind: 'hang', match: /command=ip6?tables-save/}],
  });
  expect(report.summary.nodesUnread).toBe(1);
  expect(JSON.stringify(report)).toContain('no answer within 1 s');
});

test('a connection that breaks before the Nodes are known is opened again', async () => {
  const {report, all} = await check({
    flags: {node: ['node-a']},
    faults: [{kind: 'cut-exec', after: 1, match: /command=iptables-save$/, times: 1}],
  });
  expect(report.summary).toMatchObject({verdict: 'ok', nodesChecked: 1, nodesUnread: 0});
  expect(all.filter(command => command === 'node-a: iptables-save')).toHaveLength(2);
});

test('a run that fails before the node is read leaves no stream open', async () => {
  const folder = capturePath('healthy/1.36-iptables');
  const server = await startBundleCluster(folder, {faults: [{kind: 'hang', match: /\/exec\?/}]});
  const commands = (): number => server.requests.filter(({argv}) => argv.length > 0).length;
  server.faults.push({kind: 'wait', match: /GET \/api\/v1\/nodes\?/, until: vi.waitUntil(() => commands() > 0, 600_000)});
  onTestFinished(() => server.close());
  const flags = {
    transport: 'auto',
    concurrency: 16,
    'node-timeout': '10m',
    namespace: 'shop',
    kubeconfig: server.kubeconfig,
    node: ['node-a'],
  };
  const cluster = openCluster(flags);
  const failed = diagnoseCluster({
    ...{flags, names: ['no-such-service'], cluster, clock: systemClock, options: {toolVersion: '0.0.0'}},
    ...{signal: new AbortController().signal, progress: {say: () => {}, note: () => {}, close: () => {}}},
  }).finally(() => cluster.api.close());
  await expect(failed).rejects.toThrow('Service "no-such-service" not found');
  expect(commands()).toBeGreaterThan(0);
  await expect.poll(() => server.streams()).toBe(0);
});
