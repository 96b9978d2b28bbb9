import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {PodObject} from '../../src/model/api-objects.ts';
import type {NodeDump} from '../../src/model/snapshot.ts';
import {prepareNode} from '../../src/diagnosis/diagnose-node.ts';
import {ClusterView} from '../../src/expect/cluster/cluster-view.ts';
import {causesOf} from '../../src/render/headline.ts';
import {headlineOf} from '../../src/render/verdict-line.ts';
import {snapshotOf} from '../fixtures.ts';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST505', severity: 'warning', node: 'node-b'};

test('a kube-proxy that reports itself as unhealthy is reported with the age of its last sync', async () => {
  const given = await scenario();
  const health = {lastUpdated: '2026-11-21T09:20:00Z', currentTime: '2026-11-21T09:31:00Z', healthy: false};
  given.file('node-b', 'healthz.json', JSON.stringify(health));
  expect(given.newFindings()).toEqual([
    {...place, message: containing('kube-proxy on node-b does not keep up: it says that it is not healthy, last updated 11 min')},
  ]);
});

test('a kube-proxy in nftables mode is not asked about iptables-restore', async () => {
  const given = await scenario('nftables/1.36');
  const health = {lastUpdated: '2026-11-21T09:20:00Z', currentTime: '2026-11-21T09:31:00Z', healthy: false};
  given.file('node-b', 'healthz.json', JSON.stringify(health));
  const [found] = given.findings({only: new Set(['ST505'])});
  expect(found?.remedy).toContain('failed syncs of nftables');
  expect(JSON.stringify(found)).not.toContain('iptables-restore');
});

test('a single unhealthy family is reported', async () => {
  const given = await scenario();
  const status = {IPv4: {healthy: true}, IPv6: {healthy: false}};
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: '2026-11-21T09:31:00Z', status}));
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST505']);
});

test('a change that has been pending for minutes is reported', async () => {
  const given = await scenario();
  given.file('node-b', 'metrics', metrics({queuedAgo: 300, syncedAgo: 900}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: now, healthy: true}));
  expect(given.newFindings()).toEqual([{...place, message: containing('a change of IPv4 has been waiting for 300 s')}]);
});

test('a change that is seconds old stays silent', async () => {
  const given = await scenario();
  given.file('node-b', 'metrics', metrics({queuedAgo: 5, syncedAgo: 900}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: now, healthy: true}));
  expect(given.newFindings()).toEqual([]);
});

test('a sync that is old when nothing changed since stays silent', async () => {
  const given = await scenario();
  given.file('node-b', 'metrics', metrics({queuedAgo: 9000, syncedAgo: 8999}));
  given.file('node-b', 'healthz.json', JSON.stringify({currentTime: now, healthy: true}));
  expect(given.newFindings()).toEqual([]);
});

test('a kube-proxy whose pages were not read stays silent', async () => {
  const given = await scenario();
  for (const file of ['healthz.json', 'metrics']) given.file('node-b', file, null);
  expect(given.newFindings()).toEqual([]);
});

const now = '2026-11-21T09:31:24Z';

function metrics({queuedAgo, syncedAgo}: {readonly queuedAgo: number; readonly syncedAgo: number}): string {
  const seconds = Date.parse(now) / 1000;
  return [
    `kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} ${seconds - queuedAgo}`,
    `kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} ${seconds - syncedAgo}`,
    '',
  ].join('\n');
}

/** The findings about the kube-proxy of a node that stopped a while ago (node-b), or of a healthy cluster. */
async function saidOf(
  capture: string,
  pods: readonly PodObject[],
  missing: NodeDump['missing'] = [],
): Promise<readonly (readonly [string | undefined, string])[]> {
  const snapshot = await snapshotOf(capture);
  const nodes = snapshot.nodes.map(node => ({...node, missing}));
  const {findings} = diagnose(
    {...snapshot, api: {...snapshot.api, pods: [...(snapshot.api.pods ?? []), ...pods]}, nodes},
    {toolVersion: ''},
  );
  return findings.flatMap(({code, node, message}) => (code === 'ST505' ? [[node, message]] : []));
}

const proxyPod = (node: string, ready = 'True'): PodObject => ({
  metadata: {namespace: 'kube-system', name: `kube-proxy-${node}`, labels: {'k8s-app': 'kube-proxy'}},
  spec: {nodeName: node, hostNetwork: true, containers: [{name: 'kube-proxy', image: ''}]},
  status: {phase: 'Running', conditions: [{type: 'Ready', status: ready}]},
});

const silent = (reason: string) => ['healthz.json', 'metrics'].map(file => ({file, reason}));
const refused = silent('curl ended with exit code 7: curl: (7) Failed to connect to 127.0.0.1 port 10256 after 0 ms: Connection refused');

describe('if the rules of a node are outdated, its kube-proxy is named as the likely cause', () => {
  test.each<{what: string; pods?: readonly PodObject[]; missing?: NodeDump['missing']; reason: string}>([
    {
      what: 'its pod is not ready',
      pods: [proxyPod('node-a'), proxyPod('node-b', 'False')],
      reason: 'its pod kube-system/kube-proxy-node-b is not ready (Running)',
    },
    {
      what: 'it has no pod while other nodes have one',
      pods: [proxyPod('node-a'), proxyPod('node-c')],
      reason: 'no pod of kube-proxy is on this node, while there are 2 on others',
    },
    {what: 'nothing listens on its ports', missing: refused, reason: 'nothing listens at its ports 10256 and 10249'},
    {
      what: 'wget reports that it does not listen',
      missing: silent("wget ended with exit code 1: wget: can't connect to remote host (127.0.0.1): Connection refused"),
      reason: 'nothing listens at its ports 10256 and 10249',
    },
    {
      what: 'the API server reports that it does not listen',
      missing: silent('connection refused at port 10256 of the node (asked through the API server)'),
      reason: 'nothing listens at its health port 10256',
    },
    {
      what: 'it does not answer',
      missing: silent('curl ended with exit code 28: curl: (28) Operation timed out after 5001 milliseconds with 0 bytes received'),
      reason: 'it does not answer at its ports 10256 and 10249',
    },
    {
      what: 'its health port alone does not answer',
      missing: [{file: 'healthz.json', reason: 'curl ended with exit code 28: curl: (28) Operation timed out after 5001 milliseconds'}],
      reason: 'it does not answer at its port 10256',
    },
    {
      what: 'it gives no proxyMode in time',
      missing: [{file: 'proxy-mode', reason: 'wget ended with exit code 1: wget: download timed out'}],
      reason: 'it does not answer at its port 10249',
    },
    {
      what: 'it does not answer the API server, and other nodes do',
      missing: silent('no answer at port 10256 of the node within 5 s, while other nodes answer there (asked through the API server)'),
      reason: 'it does not answer at its health port 10256, and those of other nodes do',
    },
  ])('$what', async ({pods = [], missing, reason}) => {
    expect(await saidOf('faults/frozen-node', pods, missing)).toEqual([['node-b', `kube-proxy on node-b does not keep up: ${reason}`]]);
    expect(await saidOf('healthy/1.36-iptables', pods, missing)).toEqual([]);
  });

  test('but not one that runs as far as is known', async () => {
    expect(
      await saidOf(
        'faults/frozen-node',
        ['node-a', 'node-b', 'node-c'].map(node => proxyPod(node)),
        silent('curl: not found'),
      ),
    ).toEqual([]);
    expect(await saidOf('faults/frozen-node', [])).toEqual([]);
    // A firewall between the API server and the nodes is no fault of kube-proxy.
    const firewalled = silent('no answer at port 10256 of the node within 5 s (asked through the API server)');
    expect(await saidOf('faults/frozen-node', [], firewalled)).toEqual([]);
  });
});

test('a kube-proxy that hangs is the first line of the report', async () => {
  const snapshot = await snapshotOf('faults/frozen-node');
  const missing = silent('curl ended with exit code 28: curl: (28) Operation timed out after 5001 milliseconds with 0 bytes received');
  const report = diagnose({...snapshot, nodes: snapshot.nodes.map(node => ({...node, missing}))}, {toolVersion: ''});
  expect(causesOf(report, undefined)[0]?.text).toMatch(
    /^node-b: kube-proxy does not answer, and stopped applying changes between .* \(ST505\)$/,
  );
});

test('one change that its rules lack is enough for that', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A KUBE-SVC-', '"shop/web:http -> 10.244.12.4:8080"');
  const hangs = silent('no answer at port 10256 of the node within 5 s, while other nodes answer there (asked through the API server)');
  const texts = (missing: typeof hangs) => {
    const snapshot = given.snapshot();
    const nodes = snapshot.nodes.map(node => (node.name === 'node-b' ? {...node, missing} : node));
    return causesOf(diagnose({...snapshot, nodes}, {toolVersion: ''}), undefined).map(({text}) => text);
  };
  expect(texts(hangs)[0]).toMatch(/^node-b: kube-proxy does not answer\b/);
  expect(texts([])[0]).toMatch(/^shop\/web on node-b: pod web-3 gets no traffic/);
});

test('the first line says how far a kube-proxy is behind that follows, and not that it stands still', async () => {
  const {api, nodes} = await snapshotOf('healthy/1.36-iptables');
  const [node] = nodes;
  const view = new ClusterView(api);
  const prepared = prepareNode(node as NodeDump, {api, view, services: api.services ?? [], options: {toolVersion: ''}});
  const {findings} = prepared.evaluate({view, lag: {seconds: 22, service: 'shop/web', changedServices: 1}}).result;
  expect(causesOf({findings}, undefined).map(({severity, text}) => [severity, text])).toEqual([
    ['warning', 'node-a: kube-proxy is 22 s behind (ST505)'],
  ]);
});

test('a node whose rules lag, and whose kube-proxy does not answer the API server either, hangs, also where no other node was asked', async () => {
  const {api, nodes} = await snapshotOf('faults/frozen-node');
  const reason = 'no answer at port 10256 of the node within 5 s (asked through the API server)';
  const [frozen] = nodes.filter(({name}) => name === 'node-b').map(node => ({...node, missing: silent(reason)}));
  const view = new ClusterView(api);
  const said = (seconds: number): readonly string[] => {
    const prepared = prepareNode(frozen as NodeDump, {api, view, services: api.services ?? [], options: {toolVersion: ''}});
    const {findings} = prepared.evaluate({view, lag: {seconds, service: 'shop/web', changedServices: 1}}).result;
    return findings.flatMap(({code, message}) => (code === 'ST505' ? [message] : []));
  };
  expect(said(22)).toEqual([
    'kube-proxy on node-b does not keep up: its rules for shop/web are those of 22 s before the node was read; it does not answer at its health port 10256',
  ]);
  expect(said(14)).toEqual([]);
});

describe('a container that ends again and again', () => {
  const crashing = (change: object = {}): PodObject => ({
    metadata: {namespace: 'kube-system', name: 'kube-proxy-b', labels: {'k8s-app': 'kube-proxy'}},
    spec: {nodeName: 'node-b', hostNetwork: true, containers: [{name: 'kube-proxy', image: 'kube-proxy:v1.36.2'}]},
    status: {
      phase: 'Running',
      containerStatuses: [
        {
          ...{name: 'kube-proxy', ready: false, image: '', imageID: '', restartCount: 37, state: {waiting: {reason: 'CrashLoopBackOff'}}},
          ...{lastState: {terminated: {exitCode: 1, reason: 'Error'}}, ...change},
        },
      ],
    },
  });
  const withPod = async (pod: PodObject) => {
    const given = await scenario();
    given.api(({pods}) => ({pods: [...(pods ?? []).filter(({spec}) => spec?.nodeName !== 'node-b'), pod]}));
    return given;
  };

  test('is reported where the rules are still right, and the remedy is no restart', async () => {
    const given = await withPod(crashing());
    const found = given.findings().filter(({code}) => code === 'ST505');
    expect(found.map(({message}) => message)).toEqual([
      'kube-proxy on node-b does not keep up: its container kube-proxy does not run (CrashLoopBackOff, 37 restarts, the last time with exit code 1)',
    ]);
    expect(headlineOf(diagnose(given.snapshot(), {toolVersion: ''}))).toContain(
      'node-b: kube-proxy does not apply changes, its container kube-proxy does not run (CrashLoopBackOff, 37 restarts, the last time with exit code 1) (ST505)',
    );
    expect(found[0]?.remedy).toMatch(/^Read why kube-proxy ends \(kubectl -n kube-system logs kube-proxy-b --previous\)/);
  });

  test('is explained by its log', async () => {
    const given = await withPod(crashing());
    given.file(
      'node-b',
      'kube-proxy.log',
      'E0823 17:40:52.93 1 server.go:558] "Error running ProxyServer" err="open /proc/sys/net/netfilter/nf_conntrack_max: no such file or directory"\n',
    );
    const [found] = given.findings().filter(({code}) => code === 'ST505');
    expect(found?.message).toContain('its log says: "Error running ProxyServer" err="open /proc/sys/net/netfilter/nf_conntrack_max');
    expect(found?.remedy).toMatch(/^Load nf_conntrack on the node/);
  });

  test('asks the API server at its cluster IP, which works only once kube-proxy has written its rules', async () => {
    const given = await withPod(crashing());
    const line = 'E0823 17:40:52.93 1 reflector.go:1] Get "https://10.96.0.1:443/api": dial tcp 10.96.0.1:443: i/o timeout\n';
    given.file('node-b', 'kube-proxy.log', line);
    const [found] = given.findings().filter(({code}) => code === 'ST505');
    expect(found?.message).toContain('(kube-proxy does not reach the API server: 10.96.0.1 is the cluster IP of the API server');
    given.file('node-b', 'kube-proxy.log', line.replaceAll('10.96.0.1:', '172.18.0.10:'));
    expect(given.findings().find(({code}) => code === 'ST505')?.message).not.toContain('is the cluster IP');
  });

  test('changes the remedies of what follows from it', async () => {
    const given = await withPod(crashing({lastState: {terminated: {exitCode: 137, reason: 'OOMKilled'}}}));
    given.rules('node-b').deleteAll('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.4');
    const remedies = given
      .findings()
      .filter(({code, node}) => code === 'ST202' && node === 'node-b')
      .map(({remedy}) => remedy);
    expect(remedies).toEqual([expect.stringContaining('Raise the memory limit of kube-proxy')]);
  });

  test('leaves the remedy for a rule of another program, which no kube-proxy changes, as it is', async () => {
    const given = await withPod(crashing());
    given.rules('node-b').insertBefore(['-A POSTROUTING', '-j KUBE-POSTROUTING'], '-A POSTROUTING -p udp -j ACCEPT');
    const [found] = given.findings().filter(({code}) => code === 'ST302');
    expect(found?.remedy).toMatch(/^Find out which tool wrote the rule\./);
  });

  test.each([
    ['runs', {state: {running: {}}}],
    ['is being created', {state: {waiting: {reason: 'ContainerCreating'}}, lastState: {}}],
  ])('stays silent if it %s', async (_, state) => {
    const given = await withPod(crashing(state));
    expect(given.findings().map(({code}) => code)).not.toContain('ST505');
  });

  test('that kube-proxy still wrote when the node was read is why changes are missing', async () => {
    const said = async (time: string, isBehind = true): Promise<readonly string[]> => {
      const given = await scenario();
      if (isBehind) given.slices('shop/web', slice => ({...slice, endpoints: (slice.endpoints ?? []).slice(2)}));
      given.file(
        'node-b',
        'healthz.json',
        JSON.stringify({currentTime: '2026-11-21T09:31:24Z', lastUpdated: '2026-11-21T09:31:24Z', healthy: true}),
      );
      given.file('node-b', 'kube-proxy.log', `E${time}.925076       1 reflector.go:125] Failed to list *v1.Service: Unauthorized\n`);
      const found = given.findings({nodes: name => name === 'node-b', only: new Set(['ST505'])});
      return found.map(({message}) => message);
    };
    const cause = containing('kube-proxy on node-b does not keep up: its log says: Failed to list *v1.Service: Unauthorized (');
    expect(await said('1121 09:30:50')).toEqual([cause]);
    expect(await said('1121 09:10:50')).toEqual([]);
    expect(await said('1121 09:30:50', false)).toEqual([]);
  });

  test('a failure in the log alone is no finding', async () => {
    const given = await scenario();
    given.file('node-b', 'kube-proxy.log', 'E0101 dial tcp 10.0.0.1:6443: connect: connection refused\n');
    expect(given.newFindings()).toEqual([]);
  });
});
