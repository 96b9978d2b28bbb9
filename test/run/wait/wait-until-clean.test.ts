import {readFileSync} from 'node:fs';
import {afterEach, describe, expect, onTestFinished, test, vi} from 'vitest';
import {diagnoseCluster} from '../../../src/run/diagnose-cluster.ts';
import {exitCode, waitLimit} from '../../../src/run/options/wait-limit.ts';
import {Interrupted} from '../../../src/run/clock.ts';
import {openCluster} from '../../../src/run/open-cluster.ts';
import type {Finding} from '../../../src/model/finding.ts';
import type {EndpointSliceObject} from '../../../src/model/api-objects.ts';
import type {Report} from '../../../src/model/report.ts';
import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import {seededRandom} from '../../bench/random.ts';
import {withRules} from '../../rendered-dump.ts';
import {capturePath} from '../../fixtures.ts';
import type {ApiServer, ApiServerOptions} from '../../stand-in/api-server.ts';
import type {StoredObject} from '../../stand-in/object-store.ts';
import {bundleReply, startBundleCluster} from '../../stand-in/bundle-cluster.ts';
import type {ExecCommand} from '../../stand-in/exec.ts';

const healthy = capturePath('healthy/1.36-iptables');
const own = readFileSync(`${healthy}/nodes/node-a/iptables-save`, 'utf8');
/** As a kube-proxy leaves it that has not heard of one endpoint's new address. */
const behind = own.replaceAll('--to-destination 10.244.11.4:8080', '--to-destination 10.244.99.9:8080');
const start = Date.parse('2030-01-01T00:00:00Z');
const servers: ApiServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

/** A clock that advances only by sleeping; tests may observe it. */
function handClock(onSleep: (now: number) => void = () => {}) {
  const sleeps: number[] = [];
  const clock = {
    time: start,
    sleeps,
    now: () => clock.time,
    sleep: async (milliseconds: number) => {
      sleeps.push(milliseconds);
      clock.time += milliseconds;
      onSleep((clock.time - start) / 1000);
    },
  };
  return clock;
}

interface Given extends ApiServerOptions {
  readonly wait: string;
  readonly names?: readonly string[];
  readonly failOn?: string;
  readonly flags?: object;
  readonly signal?: AbortSignal;
  readonly clock?: ReturnType<typeof handClock>;
  readonly known?: readonly Finding[];
  readonly onServer?: (server: ApiServer) => void;
  /** Gets what the progress says. */
  readonly say?: (text: string) => void;
}

async function waitFor({
  wait,
  names = ['web'],
  failOn = 'error',
  flags = {},
  signal,
  clock = handClock(),
  known = [],
  onServer,
  say = () => {},
  ...options
}: Given) {
  const server = await startBundleCluster(healthy, options);
  servers.push(server);
  onServer?.(server);
  const all = {
    ...{transport: 'auto', concurrency: 16, 'node-timeout': '10m', namespace: 'shop', kubeconfig: server.kubeconfig, 'fail-on': failOn},
    ...{wait, ...flags},
  };
  using cluster = openCluster(all);
  const notes: string[] = [];
  const report = await diagnoseCluster({
    ...{flags: all, names, cluster, clock, wait: waitLimit(all)},
    options: {toolVersion: '0.0.0', known},
    signal: signal ?? new AbortController().signal,
    progress: {say, note: text => notes.push(text), close: () => {}},
  });
  return {report, server, clock, notes, reads: readsOf(server)};
}

/** How often the rules of each node were read. */
function readsOf({requests}: ApiServer): object {
  const reads: Record<string, number> = {};
  for (const {path, argv} of requests) {
    const node = /kube-proxy-(node-\w)\/exec/.exec(path)?.[1] ?? '';
    if (argv.join(' ') === 'iptables-save') reads[node] = (reads[node] ?? 0) + 1;
  }
  return reads;
}

/** The rules that node-a has, in place of its own. */
function nodeA(rules: () => string): Pick<ApiServerOptions, 'exec'> {
  return {exec: ({node, argv}: ExecCommand) => (node === 'node-a' && argv.join(' ') === 'iptables-save' ? {stdout: rules()} : null)};
}

const failing = ({findings}: Report) => findings.filter(({severity}) => severity === 'error').map(({code, node}) => `${code} ${node}`);

describe('a change before the run', () => {
  const isOfWeb = ({metadata}: StoredObject | EndpointSliceObject) => metadata.labels?.['kubernetes.io/service-name'] === 'web';

  function without(slice: EndpointSliceObject, address: string): EndpointSliceObject {
    return {...slice, endpoints: (slice.endpoints ?? []).filter(({addresses}) => addresses?.[0] !== address)};
  }

  /** An endpoint is gone since three seconds. */
  const changed = ({store}: ApiServer) => {
    const managedFields = [{time: new Date(start - 3000).toISOString()}];
    for (const slice of store.all('endpointslices').filter(isOfWeb)) {
      const {metadata, ...rest} = without(slice as unknown as EndpointSliceObject, '10.244.11.4');
      store.put('endpointslices', {...rest, metadata: {...slice.metadata, managedFields}} as StoredObject);
    }
  };

  /** What the kube-proxy of node-a writes when it has followed. */
  async function followed(): Promise<string> {
    const {api, nodes, ...rest} = await readBundle(healthy);
    const endpointSlices = (api.endpointSlices ?? []).map(slice => (isOfWeb(slice) ? without(slice, '10.244.11.4') : slice));
    const [nodeA] = withRules(
      {...rest, api: {...api, endpointSlices}, nodes: nodes.filter(({name}) => name === 'node-a')},
      seededRandom(1),
    ).nodes;
    return nodeA?.read('iptables-save')?.toString() ?? '';
  }

  test('is waited for, although a node that has not followed it yet is within the grace period', async () => {
    const after = await followed();
    let seconds = 0;
    const clock = handClock(now => {
      seconds = now;
    });
    const flags = {node: ['node-a']};
    const {report} = await waitFor({...nodeA(() => (seconds < 5 ? own : after)), wait: '60s', clock, flags, onServer: changed});
    expect(report.wait?.clean).toBe(true);
    expect(report.wait?.nodes[0]?.seconds).toBeGreaterThanOrEqual(5);
  });

  test('is a finding if the timeout is over before the node has followed it', async () => {
    const {report} = await waitFor({wait: '4s', onServer: changed});
    expect(report.wait?.clean).toBe(false);
    expect(exitCode(report, 'error')).toBe(1);
  });

  test('is not a finding of a check that does not wait', async () => {
    const server = await startBundleCluster(healthy);
    servers.push(server);
    changed(server);
    const all = {...{transport: 'auto', concurrency: 16, 'node-timeout': '10m', namespace: 'shop', kubeconfig: server.kubeconfig}};
    using cluster = openCluster(all);
    const {findings, nodes} = await diagnoseCluster({
      ...{flags: all, names: ['web'], cluster, clock: handClock(), options: {toolVersion: '0.0.0'}},
      signal: new AbortController().signal,
      progress: {say: () => {}, note: () => {}, close: () => {}},
    });
    expect(findings.filter(({node, severity}) => node !== undefined && severity !== 'info')).toEqual([]);
    // Times of objects are in seconds.
    for (const {lag} of nodes) {
      expect(lag).toMatchObject({service: 'shop/web', changedServices: 1});
      expect(lag?.seconds).toBeGreaterThan(1);
      expect(lag?.seconds).toBeLessThanOrEqual(3);
    }
  });
});

describe('it ends when all nodes are in sync', () => {
  test('at once if they are in sync from the start', async () => {
    const {report, clock, notes, reads} = await waitFor({wait: '60s'});
    expect(report.wait).toEqual({
      ...{limitSeconds: 60, seconds: 0, looks: 1, clean: true},
      nodes: ['node-a', 'node-b', 'node-c'].map(name => ({name, look: 1, seconds: 0})),
    });
    expect(clock.sleeps).toEqual([]);
    expect(reads).toEqual({'node-a': 1, 'node-b': 1, 'node-c': 1});
    expect(notes).toEqual(['converged: 3 of 3 nodes']);
  });

  test('when the last node has converged; the others are not read again', async () => {
    let rules = behind;
    const clock = handClock(now => {
      if (now >= 5) rules = own;
    });
    const {report, notes, reads} = await waitFor({wait: '60s', clock, ...nodeA(() => rules)});
    expect(exitCode(report, 'error')).toBe(0);
    expect(report.wait).toMatchObject({clean: true, looks: 4, seconds: 6});
    expect(report.wait?.nodes[0]).toEqual({name: 'node-a', look: 4, seconds: 6});
    expect(reads).toEqual({'node-a': 4, 'node-b': 1, 'node-c': 1});
    expect(notes).toEqual(['converged: 2 of 3 nodes; waiting for node-a', 'node-a converged in 6 s']);
  });

  test('it checks every second at first and every five seconds at the end', async () => {
    const {clock} = await waitFor({wait: '30s', flags: {node: ['node-a']}, ...nodeA(() => behind)});
    expect(clock.sleeps).toEqual([1000, 2000, 3000, 4000, 5000, 5000, 5000, 5000]);
  });

  test('it pauses for as long as a check took, so that it reads at most half of the time', async () => {
    const clock = handClock();
    const {report} = await waitFor({
      ...{wait: '60s', clock},
      ...nodeA(() => {
        clock.time += 8000;
        return behind;
      }),
    });
    expect(clock.sleeps.slice(0, 2)).toEqual([8000, 8000]);
    expect(report.wait?.clean).toBe(false);
  });

  test('an unread node is read again, through its current pod', async () => {
    const old = 'kube-proxy-node-b';
    const clock = handClock(() => {
      const [server] = servers;
      const pod = server?.store.find('pods', 'kube-system', old);
      if (server === undefined || pod === undefined) return;
      server.store.remove('pods', 'kube-system', old);
      server.store.put('pods', {...pod, metadata: {namespace: 'kube-system', name: 'kube-proxy-new', labels: {'k8s-app': 'kube-proxy'}}});
    });
    const {report} = await waitFor({
      ...{wait: '60s', clock},
      exec: ({pod}) => (pod === 'kube-proxy-node-b' ? {exitCode: 1, stderr: 'it ends'} : null),
    });
    expect(report.nodes.map(({status}) => status)).toEqual(['checked', 'checked', 'checked']);
    expect(report.wait).toMatchObject({clean: true, looks: 2});
  });
});

describe('if a Service changes meanwhile', () => {
  test('all nodes must have the change', async () => {
    let rules = behind;
    const clock = handClock(now => {
      const [server] = servers;
      const web = server?.store.find('services', 'shop', 'web');
      if (now === 1 && server !== undefined && web !== undefined) server.store.put('services', web);
      if (now >= 3) rules = own;
    });
    const {report, reads} = await waitFor({wait: '60s', clock, ...nodeA(() => rules)});
    expect(reads).toEqual({'node-a': 3, 'node-b': 2, 'node-c': 2});
    expect(report.wait?.nodes).toEqual([
      {name: 'node-a', look: 3, seconds: 3},
      {name: 'node-b', look: 2, seconds: 1},
      {name: 'node-c', look: 2, seconds: 1},
    ]);
  });

  test('one that was not requested causes no read', async () => {
    let rules = behind;
    const clock = handClock(now => {
      const [server] = servers;
      const other = server?.store.all('services').find(({metadata}) => metadata.namespace === 'shop' && metadata.name !== 'web');
      if (now === 1 && server !== undefined && other !== undefined) server.store.put('services', other);
      if (now >= 3) rules = own;
    });
    const {reads} = await waitFor({wait: '60s', clock, ...nodeA(() => rules)});
    expect(reads).toEqual({'node-a': 3, 'node-b': 1, 'node-c': 1});
  });

  test('a named Service that was deleted is an error', async () => {
    const clock = handClock(() => servers[0]?.store.remove('services', 'shop', 'web'));
    await expect(waitFor({wait: '60s', clock, ...nodeA(() => behind)})).rejects.toMatchObject({
      message: 'the Service shop/web was deleted while it was waited for',
      oclif: {exit: 2},
    });
  });

  test('for a Service without endpoints it waits until there are some', async () => {
    const slices: object[] = [];
    const clock = handClock(now => {
      if (now >= 3) for (const slice of slices) servers[0]?.store.put('endpointslices', slice as never);
    });
    const {report} = await waitFor({
      ...{wait: '60s', clock, failOn: 'warning'},
      onServer: ({store}) => {
        for (const slice of store.all('endpointslices').filter(({metadata}) => metadata.labels?.['kubernetes.io/service-name'] === 'web')) {
          slices.push(structuredClone(slice));
          store.put('endpointslices', {...slice, endpoints: []});
        }
      },
    });
    expect(report.wait).toMatchObject({clean: true, looks: 3, seconds: 3});
  });
});

describe('at the timeout', () => {
  test('a node that is still read then is not waited for: the report has the others', async () => {
    vi.useFakeTimers({toFake: ['setTimeout', 'clearTimeout']});
    onTestFinished(() => void vi.useRealTimers());
    const faults = [{kind: 'hang', match: /kube-proxy-node-b\/exec/}] as const;
    const othersRead = Promise.withResolvers<void>();
    const running = waitFor({wait: '10s', faults, say: text => text.startsWith('nodes: 2 of 3 read') && othersRead.resolve()});
    await othersRead.promise;
    vi.advanceTimersByTime(10_000);
    const {report} = await running;
    expect(report.nodes.map(({name, status}) => [name, status])).toEqual([
      ['node-a', 'checked'],
      ['node-b', 'unread'],
      ['node-c', 'checked'],
    ]);
    expect(JSON.stringify(report.findings)).toContain('no answer within the 10 s of --wait');
    expect(exitCode(report, 'error')).toBe(3);
  });

  test('an API server that has not answered by then is an error that names --wait', async () => {
    await expect(waitFor({wait: '200ms', faults: [{kind: 'hang', match: /\/services/}]})).rejects.toThrow(
      'no answer within the 0.2 s of --wait',
    );
  });

  test('rules that are still missing are reported, and exit with 1', async () => {
    const {report, reads} = await waitFor({wait: '10s', ...nodeA(() => behind)});
    expect(failing(report)).toEqual(expect.arrayContaining(['ST204 node-a']));
    expect(exitCode(report, 'error')).toBe(1);
    expect(report.wait).toMatchObject({limitSeconds: 10, seconds: 10, clean: false, nodes: [{name: 'node-a'}, {look: 1}, {look: 1}]});
    expect(report.wait?.nodes[0]).toEqual({name: 'node-a'});
    expect(reads).toEqual({'node-a': 5, 'node-b': 1, 'node-c': 1});
  });

  test('a node that was never read exits with 3', async () => {
    const {report, clock} = await waitFor({
      wait: '30s',
      faults: [{kind: 'status', match: /kube-proxy-node-b\/exec/, status: 500, message: 'no'}],
    });
    expect(exitCode(report, 'error')).toBe(3);
    expect(report.wait?.nodes.filter(({look}) => look === undefined)).toEqual([{name: 'node-b'}]);
    expect(clock.sleeps).toEqual([1000, 2000, 3000, 4000, 5000, 5000, 5000, 5000]);
  });

  test('a Service that keeps changing is not in sync', async () => {
    const clock = handClock();
    const {report} = await waitFor({
      ...{wait: '5s', clock},
      ...nodeA(() => {
        const [server] = servers;
        const web = server?.store.find('services', 'shop', 'web');
        if (server !== undefined && web !== undefined) server.store.put('services', web);
        return behind;
      }),
    });
    expect(exitCode(report, 'error')).toBe(1);
  });

  test('a timeout of zero allows one check', async () => {
    const {report, clock} = await waitFor({wait: '0', ...nodeA(() => behind)});
    expect(report.wait).toMatchObject({looks: 1, clean: false});
    expect(clock.sleeps.every(milliseconds => milliseconds <= 1)).toBe(true);
    expect(failing(report)).not.toEqual([]);
  });

  test('ten changes, one after the other, are followed to the last', async () => {
    let rules = own;
    const steps = 10;
    const clock = handClock(now => {
      const [server] = servers;
      const web = server?.store.find('services', 'shop', 'web');
      const isDone = now > 3 * steps;
      rules = isDone ? own : behind;
      if (server !== undefined && web !== undefined && !isDone) server.store.put('services', web);
    });
    rules = behind;
    const {report, reads} = await waitFor({wait: '5m', clock, ...nodeA(() => rules)});
    expect(report.wait).toMatchObject({clean: true});
    expect(report.wait?.nodes[0]?.seconds).toBeGreaterThan(3 * steps);
    const {looks = 0, nodes = []} = report.wait ?? {};
    // Every node was read again with every change, and none without.
    expect(reads).toEqual({'node-a': looks, 'node-b': nodes[1]?.look, 'node-c': nodes[2]?.look});
    expect(nodes[1]?.look).toBe(looks - 1);
  });

  test('an API server that is briefly unavailable is waited for', async () => {
    let rules = behind;
    const clock = handClock(now => {
      const [server] = servers;
      if (now === 1) server?.faults.push({kind: 'status', match: /endpointslices/, status: 403, message: 'not now', times: 1});
      if (now === 3) rules = own;
    });
    const {report, reads} = await waitFor({wait: '60s', clock, ...nodeA(() => rules)});
    expect(report.wait).toMatchObject({clean: true, looks: 3});
    expect(reads).toEqual({'node-a': 2, 'node-b': 1, 'node-c': 1});
  });
});

describe('it does not wait for permanent errors', () => {
  test('slices that may not be read', async () => {
    const {report, clock} = await waitFor({wait: '60s', allow: ({resource}) => resource !== 'endpointslices'});
    expect(exitCode(report, 'error')).toBe(3);
    expect(clock.sleeps).toEqual([]);
  });

  test('Nodes that may not be listed, if no other fault is found', async () => {
    const {report, clock} = await waitFor({wait: '60s', allow: ({resource}) => resource !== 'nodes'});
    expect(exitCode(report, 'error')).toBe(3);
    expect(clock.sleeps).toEqual([]);
  });

  const forbidden = {kind: 'status', match: /kube-proxy-node-b\/exec/, status: 403, message: 'not for you'} as const;

  test('a node without permission for exec', async () => {
    const {report, clock, notes} = await waitFor({wait: '60s', faults: [{...forbidden}]});
    expect(exitCode(report, 'error')).toBe(3);
    expect(clock.sleeps).toEqual([]);
    expect(report.wait).toMatchObject({clean: false, looks: 1, nodes: [{look: 1}, {name: 'node-b', waitedFor: false}, {look: 1}]});
    expect(notes[1]).toMatch(/^not waited for \(permanent error\): node-b: .*not for you.*exec needs the verbs get and create/);
  });

  test.each(['error', 'warning'])('only for this node: the others are waited for, with --fail-on %s too', async failOn => {
    let rules = behind;
    const clock = handClock(now => {
      if (now >= 3) rules = own;
    });
    const {report, server} = await waitFor({wait: '60s', clock, failOn, faults: [{...forbidden}], ...nodeA(() => rules)});
    expect(report.wait).toMatchObject({clean: false, looks: 3, nodes: [{look: 3}, {waitedFor: false}, {look: 1}]});
    expect(exitCode(report, 'error')).toBe(3);
    const probes = server.requests.filter(
      ({path, argv}) => /kube-proxy-node-b\/exec/.test(path) && argv.join(' ') === 'iptables-save --version',
    );
    expect(probes).toHaveLength(1);
    expect(clock.time - start).toBeLessThan(15_000);
  });

  test('nodes whose pods may not be listed', async () => {
    const {report, clock, notes} = await waitFor({wait: '60s', allow: ({resource}) => resource !== 'pods'});
    expect(exitCode(report, 'error')).toBe(3);
    expect(clock.sleeps).toEqual([]);
    expect(notes[1]).toMatch(
      /not waited for .*node-a, node-b, node-c: no pod to exec into on node-a: its pods are not known: not allowed to list pods/,
    );
  });

  test('findings of the baseline', async () => {
    const {report: before} = await waitFor({wait: '0', ...nodeA(() => behind)});
    const {report, clock} = await waitFor({wait: '60s', known: before.findings, ...nodeA(() => behind)});
    expect(report.wait?.clean).toBe(true);
    expect(exitCode(report, 'error')).toBe(0);
    expect(clock.time - start).toBeLessThanOrEqual(15_000);
  });

  test('findings below the threshold', async () => {
    const {report, clock} = await waitFor({wait: '60s', failOn: 'never', ...nodeA(() => behind)});
    expect(report.wait?.clean).toBe(true);
    expect(failing(report)).not.toEqual([]);
    expect(clock.time - start).toBeLessThanOrEqual(15_000);
  });
});

describe('if nodes are added and removed', () => {
  const proxyOf = (server: ApiServer | undefined, name: string) => server?.store.find('pods', 'kube-system', `kube-proxy-${name}`);

  test('a removed one is not waited for', async () => {
    const clock = handClock(now => {
      if (now !== 3) return;
      servers[0]?.store.remove('nodes', '', 'node-b');
      servers[0]?.store.remove('pods', 'kube-system', 'kube-proxy-node-b');
    });
    const {report} = await waitFor({wait: '60s', clock, exec: ({node}) => (node === 'node-b' ? {exitCode: 1, stderr: 'it ends'} : null)});
    expect(report.nodes.map(({name}) => name)).toEqual(['node-a', 'node-c']);
    expect(report.wait).toMatchObject({clean: true, looks: 3, nodes: [{name: 'node-a'}, {name: 'node-c'}]});
    expect(exitCode(report, 'error')).toBe(0);
  });

  test('a new one must have the change too', async () => {
    let rules = behind;
    let young = behind;
    const clock = handClock(now => {
      const [server] = servers;
      if (now === 1 && server !== undefined) {
        const node = server.store.find('nodes', '', 'node-c');
        const pod = proxyOf(server, 'node-c');
        if (node === undefined || pod === undefined) throw new Error('there is no node-c');
        server.store.put('nodes', {...structuredClone(node), metadata: {...node.metadata, name: 'node-d'}});
        server.store.put('pods', {
          ...structuredClone(pod),
          metadata: {...pod.metadata, name: 'kube-proxy-node-d'},
          spec: {...(pod['spec'] as object), nodeName: 'node-d'},
        });
      }
      if (now >= 3) rules = own;
      if (now >= 10) young = own;
    });
    const {report} = await waitFor({
      ...{wait: '60s', clock, flags: {'node-selector': 'kubernetes.io/os=linux'}},
      exec: ({node, argv}) => {
        const isSave = argv.join(' ') === 'iptables-save';
        if (node === 'node-a' && isSave) return {stdout: rules};
        if (node !== 'node-d') return null;
        return isSave ? {stdout: young} : bundleReply(healthy, {node: 'node-a', argv});
      },
    });
    expect(report.wait?.clean).toBe(true);
    expect(report.wait?.nodes.map(({name}) => name)).toEqual(['node-a', 'node-b', 'node-c', 'node-d']);
    expect(report.wait?.nodes.at(-1)?.seconds).toBeGreaterThanOrEqual(10);
  });

  test('one that starts again is waited for until it has its rules', async () => {
    const empty = own.replace(/^-A .*\n/gm, '').replace(/^:(?!PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING).*\n/gm, '');
    let state: 'behind' | 'gone' | 'empty' | 'up' = 'behind';
    const clock = handClock(now => {
      state = now < 3 ? 'behind' : now < 10 ? 'gone' : now < 15 ? 'empty' : 'up';
    });
    const {report} = await waitFor({
      ...{wait: '60s', clock},
      exec: ({node, argv}) => {
        if (node !== 'node-a') return null;
        if (state === 'gone') return {exitCode: 1, stderr: 'error dialing backend'};
        return argv.join(' ') === 'iptables-save' ? {stdout: {behind, empty, up: own}[state]} : null;
      },
    });
    expect(report.wait).toMatchObject({clean: true, nodes: [{seconds: 15}, {look: 1}, {look: 1}]});
  });
});

test('when interrupted, it reports what is known', async () => {
  const stop = new AbortController();
  const clock = handClock(now => {
    if (now >= 3) stop.abort(new Interrupted('SIGINT'));
  });
  const {report} = await waitFor({wait: '60s', clock, signal: stop.signal, ...nodeA(() => behind)});
  expect(failing(report)).not.toEqual([]);
  expect(report.nodes.map(({status}) => status)).toEqual(['checked', 'checked', 'checked']);
  expect(report.wait).toMatchObject({clean: false, looks: expect.any(Number)});
});

describe('wrong use', () => {
  const flags = {'fail-on': 'error'};

  test('a bundle does not change', () => {
    expect(() => waitLimit({...flags, wait: '60s', from: 'bundle.tgz'})).toThrowError(/--wait .* --from/);
  });

  test.each(['soon', '-1s', '', '5x'])('"%s" is not a duration', wait => {
    expect(() => waitLimit({...flags, wait})).toThrowError(/is not a duration/);
  });

  test.each([
    ['60s', 60_000],
    ['2m', 120_000],
    ['1m30s', 90_000],
    ['90', 90_000],
  ])('%s is one', (wait, milliseconds) => {
    expect(waitLimit({...flags, wait})?.milliseconds).toBe(milliseconds);
  });
});
