import {setTimeout as sleep} from 'node:timers/promises';
import {describe, expect, onTestFinished, test} from 'vitest';
import {type CheckResult, SelfCheck} from '../../src/agent/self-check.ts';
import {createKubeApi} from '../../src/collect/kube/create-kube-api.ts';
import {loadConnection} from '../../src/collect/kube/load-connection.ts';
import {CommandFailed, type Transport} from '../../src/collect/node/transport.ts';
import {ClusterWatch} from '../../src/collect/watch/cluster-watch.ts';
import {systemClock} from '../../src/run/clock.ts';
import {capturePath} from '../fixtures.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../stand-in/api-server.ts';
import {bundleReply, usualCertificate} from '../stand-in/bundle-cluster.ts';
import {bundleObjects} from '../stand-in/bundle-objects.ts';
import type {StoredObject} from '../stand-in/object-store.ts';

const healthy = capturePath('healthy/1.36-iptables');
const faulty = capturePath('faults/missing-endpoint');

interface Given extends ApiServerOptions {
  readonly bundle?: string;
  readonly node?: string;
  /** In milliseconds. */
  readonly gracePeriodMs?: number;
  /** How far the clock of the node is ahead of the API server's, in milliseconds. */
  readonly clockAheadMs?: number;
  /** How long the syncs of kube-proxy take, by its metrics. */
  readonly syncSeconds?: number;
  /** What kube-proxy is told to let pass between two of them. */
  readonly minSyncPeriod?: string;
  /** Called before the node is read, with how often it is then. */
  readonly onReading?: (time: number) => Promise<void>;
}

interface Started {
  readonly server: ApiServer;
  readonly watch: ClusterWatch;
  look(): Promise<CheckResult>;
}

async function start({
  bundle = healthy,
  node = 'node-a',
  gracePeriodMs = 50,
  clockAheadMs = 0,
  syncSeconds = 0,
  minSyncPeriod = '1s',
  onReading = async () => {},
  ...options
}: Given = {}): Promise<Started> {
  const server = await startApiServer({certificate: usualCertificate, objects: bundleObjects(bundle), ...options});
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig}, {environment: {}}), {backoff: 1});
  const watch = new ClusterWatch(api, {backoffMs: 1});
  const stop = new AbortController();
  const running = watch.run(stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await running;
    api.close();
    await server.close();
  });
  const transport = capturedNode(bundle, {onReading, syncSeconds, minSyncPeriod});
  const times = {timeoutMs: 600_000, intervalMs: 60_000, gracePeriodMs};
  const ahead = new Proxy(api, {get: (target, key) => (key === 'clockAheadMs' ? clockAheadMs : Reflect.get(target, key).bind?.(target))});
  const evaluate = new SelfCheck({api: ahead, watch, node, transport, ...times, options: {toolVersion: '0.0.0'}, clock: systemClock});
  return {server, watch, look: () => evaluate.check(new AbortController().signal)};
}

/** A node on which commands print what was captured of it. */
function capturedNode(
  bundle: string,
  {onReading, syncSeconds, minSyncPeriod}: Required<Pick<Given, 'onReading' | 'syncSeconds' | 'minSyncPeriod'>>,
): Transport {
  let readings = 0;
  return {
    name: 'captured',
    open: async ({name}) => {
      await onReading(++readings);
      return {
        description: 'captured',
        run: async argv => {
          const metric = 'kubeproxy_sync_proxy_rules_duration_seconds';
          const pages = {
            configz: JSON.stringify({iptables: {minSyncPeriod}}),
            metrics: `${metric}_sum ${syncSeconds * 2}\n${metric}_count 2\n`,
          };
          if (argv.some(word => word.endsWith('/metrics')) && (syncSeconds > 0 || minSyncPeriod !== '1s'))
            return Buffer.from(
              Object.entries(pages)
                .map(([path, body]) => `${body}\nsvc-trace http://127.0.0.1:10249/${path}\n`)
                .join(''),
            );
          const reply = bundleReply(bundle, {node: name, argv});
          // Without the page of its health there is still a curl.
          if ('argv' in reply || reply.exitCode) throw new CommandFailed(argv, {exitCode: 127, stderr: '', notFound: argv[0] !== 'curl'});
          return Buffer.from(reply.stdout ?? '');
        },
        async [Symbol.asyncDispose]() {},
      };
    },
  };
}

async function watching({server, watch}: Started): Promise<void> {
  await expect.poll(() => [watch.isListed, server.watches.length]).toEqual([true, 2]);
}

const late: StoredObject = {
  metadata: {namespace: 'shop', name: 'late', creationTimestamp: '2026-01-01T00:00:00Z'},
  spec: {type: 'ClusterIP', clusterIP: '10.96.77.77', clusterIPs: ['10.96.77.77'], ports: [{name: 'http', protocol: 'TCP', port: 80}]},
};
const hasLate = ({watch}: Started) => watch.services.objects.has('shop/late');

function codesOf(look: CheckResult): readonly string[] {
  if (look.kind === 'trouble') throw new Error(look.message);
  return look.result.findings.filter(({severity, code}) => severity !== 'info' || code === 'ST904').map(({code}) => code);
}

describe('a node that checks itself', () => {
  test('finds nothing on a healthy node, and reports the version up to which all changes are known', async () => {
    const agent = await start();
    await watching(agent);
    const look = await agent.look();
    expect(codesOf(look)).toEqual([]);
    expect(look).toMatchObject({result: {report: {name: 'node-a', status: 'checked'}, seen: agent.watch.seen, intervalSeconds: 60}});
    expect(look).toMatchObject({report: {summary: {verdict: 'ok', services: 34}}});
  });

  test('finds the faults of the node, and none that the API objects alone show', async () => {
    const agent = await start({bundle: faulty});
    await watching(agent);
    const look = await agent.look();
    expect(codesOf(look)).toEqual(['ST202']);
    expect(look.kind === 'result' && look.report.findings.filter(({code}) => code.startsWith('ST1'))).toEqual([]);
  });

  test('does not read its Node and pods again in every check', async () => {
    const agent = await start();
    await watching(agent);
    await agent.look();
    await agent.look();
    const reads = agent.server.requests.filter(({resource}) => ['nodes', 'pods', 'configmaps'].includes(resource?.resource ?? ''));
    expect(reads.map(({path, query}) => [path, query.get('resourceVersion'), query.get('fieldSelector')]).sort()).toEqual([
      ['/api/v1/namespaces/kube-system/configmaps/kube-proxy', '0', null],
      ['/api/v1/namespaces/kube-system/configmaps/kube-proxy-config', '0', null],
      ['/api/v1/namespaces/kube-system/pods', '0', 'spec.nodeName=node-a'],
      ['/api/v1/nodes/node-a', '0', null],
    ]);
  });

  test('reads the k3s servers on a node of k3s, which show how kube-proxy runs', async () => {
    const agent = await start();
    const node = structuredClone(agent.server.store.find('nodes', '', 'node-a')) as StoredObject;
    node.metadata.annotations = {'k3s.io/node-args': '["agent"]'};
    agent.server.store.put('nodes', node);
    await watching(agent);
    await agent.look();
    const lists = agent.server.requests.filter(({path}) => path === '/api/v1/nodes');
    expect(lists.map(({query}) => query.get('labelSelector'))).toEqual(['node-role.kubernetes.io/control-plane']);
  });

  test('reports that the Node of its name does not exist', async () => {
    const agent = await start({node: 'node-x'});
    await watching(agent);
    expect(await agent.look()).toMatchObject({
      result: {problems: expect.arrayContaining([expect.objectContaining({message: 'there is no Node node-x in the API'})])},
    });
  });
});

describe('no result is published', () => {
  test('before the API objects were read', async () => {
    const agent = await start({faults: [{kind: 'status', status: 403, message: 'no', match: /services/}]});
    await expect.poll(() => agent.watch.trouble).not.toBeNull();
    expect(await agent.look()).toMatchObject({
      kind: 'trouble',
      message: expect.stringMatching(/^the Services and EndpointSlices have not been read yet: not allowed to /),
    });
  });

  test('with a finding about a Service that was deleted, while the watch still has it', async () => {
    const agent = await start();
    await watching(agent);
    agent.server.store.put('services', structuredClone(late));
    await expect.poll(() => hasLate(agent)).toBe(true);
    agent.server.faults.push({kind: 'hang', match: /watch=1/});
    for (const watch of agent.server.watches) watch.mute();
    agent.server.store.remove('services', 'shop', 'late');
    expect(await agent.look()).toEqual({
      kind: 'trouble',
      message: 'the API server has another state of shop/late than its watch, which is restarted',
    });
  });

  test('with a finding about the last of many Services that was deleted, while the watch still has it and has delivered all others', async () => {
    const agent = await start();
    await watching(agent);
    const names = Array.from({length: 9}, (_, index) => `late-${index}`);
    for (const [index, name] of names.entries()) {
      const clusterIP = `10.96.77.${index + 1}`;
      agent.server.store.put('services', {
        metadata: {...late.metadata, name},
        spec: {...(late['spec'] as object), clusterIP, clusterIPs: [clusterIP]},
      });
    }
    await expect.poll(() => agent.watch.services.objects.has('shop/late-8')).toBe(true);
    agent.server.faults.push({kind: 'hang', match: /watch=1/});
    for (const watch of agent.server.watches) watch.mute();
    agent.server.store.remove('services', 'shop', 'late-8');
    expect(await agent.look()).toEqual({
      kind: 'trouble',
      message: 'the API server has another state of shop/late-8 than its watch, which is restarted',
    });
  });

  test('with a finding that cannot be verified', async () => {
    const agent = await start({bundle: faulty});
    await watching(agent);
    agent.server.faults.push({kind: 'status', status: 403, message: 'no', match: /fieldSelector=metadata.name/});
    expect(await agent.look()).toMatchObject({
      kind: 'trouble',
      message: expect.stringMatching(/^what was found cannot be verified: not allowed to /),
    });
  });

  test('with a finding about a Service that was added and deleted while the node was checked', async () => {
    const agent = await start({
      // Long enough for the change to be young when the node is first read.
      gracePeriodMs: 1000,
      onReading: async time => {
        // So that it is time for the second look when the first is over.
        if (time === 1) await sleep(1100);
        if (time !== 2) return;
        agent.server.store.remove('services', 'shop', 'late');
        await expect.poll(() => hasLate(agent)).toBe(false);
      },
    });
    await watching(agent);
    agent.server.store.put('services', structuredClone(late));
    await expect.poll(() => hasLate(agent)).toBe(true);
    expect(codesOf(await agent.look())).toEqual([]);
  });
});

test.each([
  [0, '1s', ['ST201']],
  [20, '1s', []],
  [0, '1m30s', []],
])(
  'a change of half a second ago is missed where a sync takes %i s, and comes every %s at most: %j',
  async (syncSeconds, minSyncPeriod, found) => {
    const agent = await start({syncSeconds, minSyncPeriod});
    await watching(agent);
    await agent.look();
    const slice = structuredClone(
      agent.server.store.all('endpointslices').find(({metadata}) => metadata.labels?.['kubernetes.io/service-name'] === 'web'),
    );
    agent.server.store.put('services', late);
    agent.server.store.put('endpointslices', {
      ...slice,
      metadata: {namespace: 'shop', name: 'late-x', labels: {'kubernetes.io/service-name': 'late'}},
    } as unknown as StoredObject);
    await expect.poll(() => hasLate(agent)).toBe(true);
    await sleep(500);
    expect(codesOf(await agent.look())).toEqual(found);
  },
);

test('verified findings are not verified a second time', async () => {
  const agent = await start({bundle: faulty});
  await watching(agent);
  await agent.look();
  const before = agent.server.requests.length;
  expect(codesOf(await agent.look())).toEqual(['ST202']);
  expect(agent.server.requests.slice(before)).toEqual([]);
});

describe('in nftables mode, the drop rule of the Service range', () => {
  const bundle = capturePath('nftables/1.36');
  const cidrs = (...ranges: readonly string[]): StoredObject => ({metadata: {name: 'kubernetes'}, spec: {cidrs: ranges}});
  const found = async (options: Given): Promise<readonly string[]> => {
    const agent = await start({bundle, ...options});
    await watching(agent);
    const check = await agent.look();
    if (check.kind === 'trouble') throw new Error(check.message);
    expect(check.result.problems).toEqual([]);
    return check.result.findings.filter(({code}) => code === 'ST217' || code === 'ST901').map(({code, message}) => `${code} ${message}`);
  };
  const objects = (range: StoredObject) => ({...bundleObjects(bundle), servicecidrs: [range]});

  test('is compared with the ServiceCIDRs', async () => {
    expect(await found({objects: objects(cidrs('10.96.0.0/16', 'fd00:96::/108'))})).toEqual([]);
    expect(await found({objects: objects(cidrs('10.96.0.0/16', '10.97.0.0/16', 'fd00:96::/108'))})).toEqual([
      expect.stringContaining('10.97.0.0/16'),
    ]);
  });

  test('is not compared if the agent may not list them, which is not a problem', async () => {
    const allow = ({resource}: {readonly resource: string}) => resource !== 'servicecidrs';
    expect(await found({objects: objects(cidrs('10.97.0.0/16')), allow})).toEqual([]);
  });
});

test.each([0, 300_000, -300_000])(
  'a node that is behind when its agent starts has no finding, with a clock that is ahead of the API server by %i ms',
  async clockAheadMs => {
    const original = new Map<string, StoredObject>();
    const agent: Started = await start({
      ...{clockAheadMs, gracePeriodMs: 3000},
      onReading: async reading => {
        if (reading !== 2) return;
        // The API is again what the node has: as if kube-proxy had followed.
        for (const slice of original.values()) agent.server.store.put('endpointslices', slice);
        await expect.poll(() => agent.watch.endpointSlices.resourceVersion).toBe(String(agent.server.store.revision));
      },
    });
    await watching(agent);
    const managedFields = [{time: new Date(Date.now() - 1000 - clockAheadMs).toISOString()}];
    for (const slice of agent.server.store.all('endpointslices').filter(({metadata}) => metadata.name.startsWith('web-'))) {
      original.set(slice.metadata.name, structuredClone(slice));
      agent.server.store.put('endpointslices', {...slice, endpoints: [], metadata: {...slice.metadata, managedFields}} as StoredObject);
    }
    await expect.poll(() => agent.watch.endpointSlices.resourceVersion).toBe(String(agent.server.store.revision));
    expect(original.size).toBeGreaterThan(0);
    expect(codesOf(await agent.look())).toEqual([]);
  },
);
