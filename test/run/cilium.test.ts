import {afterEach, describe, expect, test} from 'vitest';
import type {BundledNode} from '../../src/collect/bundle/write-bundle.ts';
import type {Report} from '../../src/model/report.ts';
import {captureCluster} from '../../src/run/capture/capture-cluster.ts';
import {askCluster} from '../../src/run/packet/ask-cluster.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {previewText} from '../../src/render/preview/preview-text.ts';
import type {TrafficReport} from '../../src/model/traffic/traffic-report.ts';
import {systemClock} from '../../src/run/clock.ts';
import {topCluster} from '../../src/run/top/top-session.ts';
import {PreviewRun, type PreviewRunInput} from '../../src/preview/preview-run.ts';
import {previewCluster} from '../../src/run/preview/preview-cluster.ts';
import {openCluster} from '../../src/run/open-cluster.ts';
import {diagnoseCluster} from '../../src/run/diagnose-cluster.ts';
import {seededRandom} from '../bench/random.ts';
import {nodeDump} from '../cluster.ts';
import {withRules} from '../rendered-dump.ts';
import {proxyPod} from '../stand-in/bundle-cluster.ts';
import {CiliumTables} from '../cilium-node.ts';
import {findingCounts} from '../redact/redacted.ts';
import {containing} from '../scenario.ts';
import {agentPod, CiliumCluster} from '../stand-in/cilium-agent.ts';
import type {ApiServerOptions} from '../stand-in/api-server.ts';

const open: CiliumCluster[] = [];
let slept: number[] = [];

afterEach(async () => {
  for (const cluster of open.splice(0)) await cluster[Symbol.asyncDispose]();
  slept = [];
});

/** A cluster of one node that Cilium serves. */
function given(change: (cluster: CiliumCluster) => void = () => {}): CiliumCluster {
  const cluster = new CiliumCluster();
  open.push(cluster);
  change(cluster);
  cluster.tables.writeMap();
  return cluster;
}

async function diagnose(cluster: CiliumCluster, options: ApiServerOptions = {}, flags: object = {}): Promise<Report> {
  const server = cluster.server ?? (await cluster.start(options));
  const all = {
    ...{transport: 'auto', concurrency: 16, 'node-timeout': '10m', namespace: 'shop', 'all-namespaces': true},
    ...{kubeconfig: server.kubeconfig, ...flags},
  };
  let time = Date.now();
  const clock = {
    now: () => time,
    sleep: async (milliseconds: number) => {
      slept.push(milliseconds);
      time += milliseconds;
    },
  };
  const run = {flags: all, names: [], cluster: openCluster(all), clock, options: {toolVersion: '0.0.0'}};
  try {
    return await diagnoseCluster({
      ...run,
      signal: new AbortController().signal,
      progress: {say: () => {}, note: () => {}, close: () => {}},
    });
  } finally {
    run.cluster.api.close();
  }
}

const clusterIP = '10.96.1.1:80/TCP';
const texts = ({findings}: Report) => findings.filter(({node}) => node !== undefined).map(({code, message}) => `${code} ${message}`);

test('a healthy node is checked by one exec into its agent, and has no finding', async () => {
  const cluster = given();
  const report = await diagnose(cluster);
  expect(report.nodes).toMatchObject([{name: 'node-a', status: 'checked', proxyMode: 'cilium', ciliumVersion: '1.19.4'}]);
  expect(texts(report)).toEqual([]);
  expect(cluster.readings).toBe(1);
});

describe('kube-proxy beside Cilium', () => {
  /** Cilium leaves node ports to a kube-proxy, whose rules a test edits. */
  async function both(edit: (rules: string) => string, change: (tables: CiliumTables) => void = () => {}): Promise<Report> {
    const cluster = given(({tables}) => {
      tables.files['status.json'] = JSON.stringify({kubernetes: {state: 'Ok'}, 'kube-proxy-replacement': {mode: 'False'}});
      tables.rows = tables.rows.filter(({type}) => type === 'ClusterIP');
      change(tables);
    });
    const snapshot = {origin: 'test', api: cluster.tables.api, problems: [], nodes: [nodeDump('node-a')]};
    const [rendered] = withRules(snapshot, seededRandom(1)).nodes;
    const exec: ApiServerOptions['exec'] = ({container, argv: [program = '']}) => {
      if (container !== 'kube-proxy' || !/^ip6?tables-save$/.test(program)) return null;
      const rules = edit(rendered?.read(program)?.toString() ?? '');
      return rules === '' ? {exitCode: 1, stderr: 'Permission denied'} : {stdout: rules};
    };
    return diagnose(cluster, {exec, objects: {pods: [agentPod('node-a'), proxyPod('node-a')]}});
  }

  test('both are checked, and are without findings if both are right', async () => {
    const report = await both(rules => rules);
    expect(report.findings.filter(({severity, node}) => severity !== 'info' && node !== undefined)).toEqual([]);
    expect(report.nodes).toMatchObject([{status: 'checked', proxyMode: 'iptables', ciliumVersion: '1.19.4'}]);
  });

  test('each is reported for what it serves, with its own remedy', async () => {
    const report = await both(
      rules => rules.replace(/^.* -j DNAT --to-destination 10\.1\.0\.1:8080\n/m, ''),
      tables => tables.row(clusterIP).backends.push('10.1.1.9:8080'),
    );
    const found = report.findings.filter(({severity, node}) => severity === 'error' && node !== undefined);
    expect(found.map(({code, program, endpoint}) => [code, program, endpoint])).toEqual([
      ['ST202', undefined, '10.1.0.1:8080'],
      ['ST203', 'the Cilium agent', '10.1.1.9:8080'],
    ]);
    expect(found.map(({remedy}) => remedy.includes('cilium-agent'))).toEqual([false, true]);
  });

  test('if the rules of kube-proxy cannot be read, the node is unread, and what the agent keeps is reported', async () => {
    const report = await both(
      () => '',
      tables => tables.row(clusterIP).backends.push('10.1.1.9:8080'),
    );
    expect(report.nodes).toMatchObject([{status: 'unread', reason: containing('rules of kube-proxy')}]);
    expect(texts(report)).toContainEqual(containing('ST203'));
  });

  test('without rights to the agent, the node is unread, and what kube-proxy lacks is reported', async () => {
    const report = await both(
      rules => rules.replace(/^.* -j DNAT --to-destination 10\.1\.0\.1:8080\n/m, ''),
      tables => (tables.files['service-list.json'] = undefined),
    );
    expect(report.nodes).toMatchObject([{status: 'unread', reason: containing('of its Cilium')}]);
    expect(texts(report)).toContainEqual(containing('ST202'));
  });
});

/** What a command that reads the cluster is given. */
async function runOf<T extends object>(cluster: CiliumCluster, more: T) {
  const {kubeconfig} = await cluster.start();
  const flags = {transport: 'auto' as const, concurrency: 16, 'node-timeout': '10m', namespace: 'shop', kubeconfig, ...more};
  const progress = {say: () => {}, note: () => {}, close: () => {}};
  return {flags, cluster: openCluster(flags), signal: new AbortController().signal, progress};
}

test('packet asks the map of the agents', async () => {
  const cluster = given(({tables}) => void tables.row(clusterIP).backends.pop());
  const run = await runOf(cluster, {source: '10.1.0.1', destination: 'web'});
  try {
    const {answers, unread} = await askCluster(run);
    expect(answers).toMatchObject([
      {
        node: 'node-a',
        outcomes: [{verdict: 'accept', destination: '10.1.0.1:8080', probability: 1, reason: containing('policies of Cilium')}],
      },
    ]);
    expect(unread).toEqual([]);
  } finally {
    run.cluster.api.close();
  }
});

test('preview of a node without iptables says that it does not apply', async () => {
  const run = await runOf(given(), {});
  try {
    const input = ({api}: Snapshot): PreviewRunInput => ({
      ...{api, apiAfter: api, plan: {overrides: {mode: 'nftables'}, configFile: null}, notes: [], services: 1, scope: []},
      ...{selects: () => true, expectedOnly: false},
    });
    const preview = await previewCluster({...run, input, start: planned => new PreviewRun(planned), chooses: () => () => true});
    expect(previewText(preview, false).verdict).toMatch(/^INCOMPLETE: no node was checked: Cilium serves.* computes both sides$/);
    const {nodes} = preview;
    expect(nodes).toMatchObject([{basis: 'unread', reason: containing('Cilium serves its Services, and a preview is about rules of')}]);
  } finally {
    run.cluster.api.close();
  }
});

test('top of a node without iptables says that the map of Cilium counts nothing', async () => {
  const run = await runOf(given(), {});
  const shown: TrafficReport[] = [];
  const [ended, clock] = [new AbortController().signal, systemClock];
  try {
    await topCluster({
      run: {...run, names: [], clock, toolVersion: '0.0.0', interval: 1},
      show: report => void shown.push(report),
      ...{once: true, ended},
    });
    expect(shown.at(-1)?.nodes).toMatchObject([{name: 'node-a', reason: containing('its map counts no connections')}]);
  } finally {
    run.cluster.api.close();
  }
});

test('capture has the tables and the settings of Cilium, and the bundle the verdict of the cluster', async () => {
  const run = await runOf(
    given(({tables}) => void tables.row(clusterIP).backends.push('10.1.1.9:8080')),
    {},
  );
  try {
    const {api, nodes, problems, close} = await captureCluster(run);
    const read: BundledNode[] = [];
    for await (const node of nodes) read.push(node);
    close?.();
    expect(read.map(({name, status}) => `${name} ${status}`)).toEqual(['node-a read']);
    expect(read[0]?.files).toEqual(expect.arrayContaining(Object.keys(new CiliumTables().printed())));
    expect(api.configMaps?.map(({metadata}) => metadata.name)).toEqual(['cilium-config']);
    expect(findingCounts({origin: 'test', api, nodes: read, problems})).toMatchObject({'ST203 error': 1});
  } finally {
    run.cluster.api.close();
  }
});

test('the older name of the program is tried where the newer one is missing', async () => {
  const report = await diagnose(given(cluster => (cluster.program = 'cilium')));
  expect(report.nodes).toMatchObject([{status: 'checked'}]);
});

test('where the image has no shell, each table is read by itself', async () => {
  const report = await diagnose(given(), {exec: ({argv}) => (argv[0] === 'sh' ? {argv: ['no-such-shell']} : null)});
  expect(report.nodes).toMatchObject([{status: 'checked'}]);
});

test('a fault is reported after a second reading, at least two seconds later', async () => {
  const cluster = given(({tables}) => tables.row(clusterIP).backends.push('10.1.1.9:8080'));
  expect(texts(await diagnose(cluster))).toEqual([containing('ST203 shop/web:http: the agent still sends to 10.1.1.9:8080')]);
  expect(cluster.readings).toBe(2);
  expect(slept.reduce((sum, milliseconds) => sum + milliseconds, 0)).toBeGreaterThanOrEqual(1900);
});

test('what the map lacks in one reading only is no finding', async () => {
  const cluster = given();
  cluster.onRead = reading => {
    if (reading === 1) delete cluster.tables.map['172.18.0.2:30080/TCP'];
    else cluster.tables.writeMap();
  };
  expect(texts(await diagnose(cluster))).toEqual([]);
  expect(cluster.readings).toBe(2);
});

test('differences that are others in each reading are said to be unknown, and none of them is reported', async () => {
  const cluster = given();
  cluster.onRead = reading => (cluster.tables.map[clusterIP] = ['ClusterIP', '10.1.0.1:8080', '10.1.1.2:8080', `10.1.9.${reading}:8080`]);
  const report = await diagnose(cluster);
  expect(texts(report)).toEqual([containing('ST904 shop/web kept changing while node-a was read')]);
});

test('an agent that became ready just before is given a minute to write what it knows', async () => {
  const cluster = given(({tables}) => void tables.row(clusterIP).backends.push('10.1.1.9:8080'));
  const status = {phase: 'Running', conditions: [{type: 'Ready', status: 'True', lastTransitionTime: new Date().toISOString()}]};
  cluster.onRead = () => {
    if (slept.reduce((sum, milliseconds) => sum + milliseconds, 0) > 30_000) cluster.tables = new CiliumTables().writeMap();
  };
  const report = await diagnose(cluster, {objects: {pods: [{...agentPod('node-a'), status}]}});
  expect(texts(report)).toEqual([]);
});

test.each([
  {agent: 'an agent that hangs', change: (cluster: CiliumCluster) => (cluster.hangs = 'service'), says: 'did not answer within 10 s'},
  {
    agent: 'truncated JSON',
    change: ({tables}: CiliumCluster) => (tables.files['service-list.json'] = '[{"status":{"realized":'),
    says: 'service-list.json is not what the agent prints',
  },
  {
    agent: 'an agent that does not answer',
    change: ({tables}: CiliumCluster) => (tables.files['service-list.json'] = undefined),
    says: 'cilium-dbg service list -o json ended with exit code 1: Cannot connect to the agent',
  },
  {agent: 'a container without the program', change: (cluster: CiliumCluster) => (cluster.program = null), says: 'neither cilium-dbg nor'},
  {
    agent: 'an agent that has just started',
    change: ({tables}: CiliumCluster) => (tables.files['service-list.json'] = 'null'),
    says: 'the agent is starting',
  },
])(
  'a node with $agent is not checked, and the reason is given',
  async ({change, says}) => {
    const report = await diagnose(given(change));
    expect(report.nodes).toMatchObject([{name: 'node-a', status: 'unread', reason: containing(says)}]);
    expect(report.summary.verdict).toBe('incomplete');
  },
  30_000,
);

test('exec that is refused makes the node unread, and the right is named', async () => {
  const report = await diagnose(given(), {allow: ({subresource}) => subresource !== 'exec'});
  expect(report.nodes).toMatchObject([{status: 'unread', reason: containing('get and create on pods/exec in that namespace')}]);
});

test('without the right to read cilium-config, what the agents serve shows their settings, and the right is named', async () => {
  const report = await diagnose(given(), {allow: ({resource}) => resource !== 'configmaps'});
  expect(report.nodes).toMatchObject([{status: 'checked', ciliumVersion: '1.19.4'}]);
  const told = report.findings.filter(({remedy}) => remedy.includes('ConfigMap cilium-config'));
  expect(told).toMatchObject([{code: 'ST901', severity: 'info', message: containing('configmaps/cilium-config')}]);
});

test('an agent whose pod does not run makes the node unread', async () => {
  const report = await diagnose(given(), {objects: {pods: [agentPod('node-a', 'Pending')]}});
  expect(report.nodes).toMatchObject([{status: 'unread', reason: containing('kube-system/cilium-node-a is Pending')}]);
});

test('a version before 1.18 is named, and is not checked', async () => {
  const report = await diagnose(given(({tables}) => (tables.version = '1.17.4')));
  expect(report.nodes).toMatchObject([{status: 'unsupported', reason: containing('Cilium 1.17.4 serves its Services')}]);
});
