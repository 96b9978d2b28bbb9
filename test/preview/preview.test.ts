/** What a change of kube-proxy changes for packets: found where it applies, and silent where it does not. */
import {describe, expect, test} from 'vitest';
import type {ServiceSpec} from '../../src/model/api-objects.ts';
import type {Preview} from '../../src/model/preview-result.ts';
import {previewExitCode, previewRenderers} from '../../src/render/preview/preview-report.ts';
import {captureNames, snapshotOf} from '../fixtures.ts';
import {type Scenario, scenario} from '../scenario.ts';
import {adviceOf, idsOf, interfaces, nodes, previewFrom, previewOf, toNftables, withKernel} from './previews.ts';
import {someOf} from '../cases.ts';

const options = {color: false, width: 120, quiet: false, verbose: false, failOn: 'error'} as const;

describe('the settings a node already has change nothing', () => {
  test.each(someOf(captureNames('healthy', 'settings', 'eras', 'faults', 'ipvs', 'nftables')))('%s', async name => {
    const found = previewOf(await snapshotOf(name), {});
    expect(found.changes).toEqual([]);
    expect(found.advice).toEqual([]);
    expect(found.requirements).toEqual([]);
  });
});

describe('the rules that kube-proxy would write behave like those of a healthy node', () => {
  test.each(someOf(captureNames('healthy', 'settings', 'eras', 'ipvs', 'nftables')))('%s', async name => {
    const snapshot = await snapshotOf(name);
    // Other objects, though equal ones, are walked.
    const found = previewOf(snapshot, {}, {...snapshot.api});
    expect(found.changes.map(({node, effect, service, packet}) => [node, effect, service.name, packet])).toEqual([]);
  });
});

describe('iptables to nftables', () => {
  test('node ports on 127.0.0.1 are lost for the Services that have one', async () => {
    const found = await toNftables();
    const lost = found.changes.filter(({effect}) => effect === 'lost');
    expect(new Set(lost.map(({cause}) => cause.id))).toEqual(new Set(['localhost-node-ports']));
    expect(new Set(lost.map(({packet}) => packet.destination))).toEqual(new Set(['127.0.0.1']));
  });

  test('node ports on 127.0.0.1 are kept for TCP with the gate and the keyword of 1.37', async () => {
    const gates = {
      featureGates: {KubeProxyNFTablesLocalhostNodePorts: true},
      nodePortAddresses: ['primary', 'localhost'],
      version: 'v1.37.0',
    };
    const found = await toNftables(() => {}, gates, {nodes});
    const lost = found.changes.filter(({effect, packet}) => effect === 'lost' && packet.protocol === 'tcp');
    // kube-proxy listens for endpoints of the node alone where the policy is Local.
    const {api} = await snapshotOf('healthy/1.36-iptables');
    const policies = lost.map(
      ({service}) => api.services?.find(({metadata}) => metadata.name === service.name)?.spec?.externalTrafficPolicy,
    );
    expect(new Set(policies)).toEqual(new Set(['Local']));
    expect(idsOf(found, 'udp')).toContain('localhost-node-ports');
  });

  test('node ports on 127.0.0.1 are not lost if iptables mode does not have them', async () => {
    const found = previewOf(await snapshotOf('settings/no-localhost-nodeports'), {mode: 'nftables'});
    expect(found.changes.filter(({effect}) => effect === 'lost')).toEqual([]);
  });

  test('a second address of the node loses its node ports, unless nodePortAddresses has it', async () => {
    const second = (given: Scenario): void => given.file('node-a', 'addresses.json', interfaces('172.18.0.11', '10.9.0.11'));
    const lost = (await toNftables(second)).changes.filter(({cause}) => cause.id === 'node-port-addresses');
    expect(new Set(lost.map(({effect, packet}) => `${effect} ${packet.destination}`))).toEqual(new Set(['lost 10.9.0.11']));
    expect(idsOf(await toNftables(second, {nodePortAddresses: ['0.0.0.0/0']}))).not.toContain('node-port-addresses');
  });

  test('packets that KUBE-FORWARD accepted before a FORWARD policy DROP are reported as lost, and a policy that drops nothing is not reported', async () => {
    const drop = (given: Scenario): void => given.rules('node-a').policy('filter', 'FORWARD', 'DROP');
    const lost = (await toNftables(drop)).changes.filter(({cause}) => cause.id === 'third-party-firewalls');
    expect(lost.map(({effect}) => effect)).toContain('lost');
    expect(new Set(lost.map(({node}) => node))).toEqual(new Set(['node-a']));
    expect(idsOf(await toNftables())).not.toContain('third-party-firewalls');
  });

  test('the health check port behind an INPUT policy DROP is lost, and without one it is not', async () => {
    const drop = (given: Scenario): void => given.rules('node-a').policy('filter', 'INPUT', 'DROP');
    const lost = (await toNftables(drop)).changes.filter(({cause}) => cause.id === 'health-check-ports');
    expect(new Set(lost.map(({effect, service}) => `${effect} ${service.name}`))).toEqual(new Set(['lost lb-local']));
    expect(idsOf(await toNftables())).not.toContain('health-check-ports');
  });

  test('INVALID packets are named on a kernel before 6.1, not on a newer one, and not when connection tracking is liberal', async () => {
    const kernel = (version: string) => withKernel(version);
    expect(adviceOf(await toNftables(kernel('5.15.0-100')))).toContain('invalid-packets');
    expect(adviceOf(await toNftables(kernel('6.8.0')))).not.toContain('invalid-packets');
    const liberal = (given: Scenario): void => {
      kernel('5.15.0')(given);
      for (const node of nodes) given.file(node, 'sysctls', 'net.netfilter.nf_conntrack_tcp_be_liberal = 1\n');
    };
    expect(adviceOf(await toNftables(liberal))).not.toContain('invalid-packets');
  });

  test('unused ports of cluster IPs are rejected afterwards, which is reported once', async () => {
    const said = (await toNftables()).advice.filter(({id}) => id === 'unused-ports');
    expect(said.map(({effect}) => effect)).toEqual(['refused']);
  });

  test('a third-party jump to KUBE-MARK-MASQ is named, and only then', async () => {
    const jump = (given: Scenario): void => {
      given.rules('node-a').declare('nat', 'CNI-HOSTPORT-SETMARK');
      given.rules('node-a').append('nat', '-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ');
    };
    expect(adviceOf(await toNftables(jump))).toContain('mark-chain');
    expect(adviceOf(await toNftables())).not.toContain('mark-chain');
  });

  test('masqueradeAll of iptables mode alone changes source addresses, and set for both it does not', async () => {
    const snapshot = await snapshotOf('settings/masquerade-all');
    const without = previewOf(snapshot, {mode: 'nftables'});
    expect(adviceOf(without)).toContain('masquerade-all');
    expect(without.changes.some(({effect, cause}) => effect === 'source-address' && cause.id === 'masquerade-all')).toBe(true);
    const both = previewOf(snapshot, {mode: 'nftables', nftMasqueradeAll: true, masqueradeAll: true});
    expect(adviceOf(both)).not.toContain('masquerade-all');
    expect(idsOf(both)).not.toContain('masquerade-all');
  });

  test('a name that nft refuses blocks kube-proxy up to 1.36, not 1.37', async () => {
    const long = (given: Scenario): void =>
      given.service('shop/empty', object => ({...object, metadata: {...object.metadata, name: 'w'.repeat(125)}}));
    const unmet = (found: Preview) => found.requirements.filter(({status}) => status === 'unmet').map(({name}) => name);
    expect(unmet(await toNftables(long))).toContain('service-names');
    expect(unmet(await toNftables(long, {version: 'v1.37.0'}))).toEqual([]);
  });

  test.each([
    ['5.4.0-150-generic', 'unmet'],
    ['5.13.0', 'met'],
    ['', 'unknown'],
  ])('kernel "%s" is %s', async (version, status) => {
    const found = await toNftables(withKernel(version));
    expect(new Set(found.requirements.filter(({name}) => name === 'kernel').map(one => one.status))).toEqual(new Set([status]));
  });

  test('a kube-proxy without the mode is a node that was not checked', async () => {
    const found = previewOf(await snapshotOf('healthy/1.28-iptables'), {mode: 'nftables'});
    expect(found.nodes.map(({basis}) => basis)).toEqual(['unread', 'unread', 'unread']);
  });

  test('a dump that ends early, or is of one table pasted, is no node with faults of today', async () => {
    const change = (given: Scenario): void => {
      given.rules('node-a').cutAfter('-A PREROUTING', '-j KUBE-SERVICES');
      given.rules('node-b').deleteTable('nat');
      given.rules('node-b').deleteAll('# ');
    };
    const found = await toNftables(change, {}, {nodes});
    expect(found.nodes.map(({name, basis}) => [name, basis])).toEqual([
      ['node-a', 'unread'],
      ['node-b', 'unread'],
      ['node-c', 'actual'],
    ]);
    expect(found.changes.filter(({node}) => node !== 'node-c')).toEqual([]);
  });

  test('session affinity is not mentioned if no Service has it', async () => {
    const plain = (given: Scenario): void => {
      for (const name of ['shop/sticky', 'shop/sticky-short']) given.deleteService(name);
    };
    expect(adviceOf(await toNftables())).toContain('session-affinity');
    expect(adviceOf(await toNftables(plain))).not.toContain('session-affinity');
  });
});

describe('a firewall that lets new packets pass', () => {
  const firewall =
    (...rules: readonly string[]) =>
    (given: Scenario) => {
      given.rules('node-a').policy('filter', 'FORWARD', 'DROP');
      for (const rule of rules) given.rules('node-a').append('filter', `-A FORWARD ${rule} -j ACCEPT`);
    };
  const lost = async (mode: string, ...rules: readonly string[]) => {
    const {changes} = await previewFrom('healthy/1.36-iptables', {mode}, firewall(...rules), {nodes: ['node-a']});
    return changes
      .filter(({service, source, effect}) => service.name === 'web' && source.kind === 'pod' && effect === 'lost')
      .map(({cause}) => cause.id);
  };

  test('loses connections to the replies that KUBE-FORWARD alone accepts', async () => {
    expect(await lost('nftables', '-p tcp -m tcp --dport 8080')).toEqual(['third-party-firewalls']);
  });

  test('loses none that it answers for, and none to a mode with the same accept', async () => {
    expect(await lost('nftables', '-p tcp -m tcp --dport 8080', '-m conntrack --ctstate RELATED,ESTABLISHED')).toEqual([]);
    expect(await lost('nftables', '-s 10.244.0.0/16', '-d 10.244.0.0/16')).toEqual([]);
    expect(await lost('ipvs', '-p tcp -m tcp --dport 8080')).toEqual([]);
  });
});

describe('IPVS to other modes', () => {
  test('Local policies that used endpoints of other nodes are enforced', async () => {
    const found = previewOf(await snapshotOf('ipvs/1.36'), {mode: 'nftables'});
    expect(idsOf(found)).toContain('local-policies');
  });

  test('only a scheduler other than rr is named', async () => {
    const using = (scheduler: string) =>
      previewFrom('ipvs/1.36', {mode: 'iptables'}, given => {
        given.file('node-a', 'configz.json', null);
        given.file('node-a', 'kube-proxy-config.yaml', `mode: ipvs\nclusterCIDR: 10.244.0.0/16\nipvs: {scheduler: ${scheduler}}\n`);
      });
    expect(adviceOf(await using('sh'))).toContain('ipvs-scheduler');
    expect(adviceOf(await using('rr'))).not.toContain('ipvs-scheduler');
  });

  test('ARP for external addresses is named without strictARP, and not with it', async () => {
    const without = previewOf(await snapshotOf('ipvs/1.36'), {mode: 'iptables'});
    const strict = previewOf(await snapshotOf('ipvs/1.36-strictarp'), {mode: 'iptables'});
    const arp = (found: Preview) => found.advice.filter(({reason}) => reason.includes('answer ARP')).length;
    expect([arp(without), arp(strict)]).toEqual([1, 0]);
  });

  test('leftovers of IPVS mode are an unmet requirement of iptables mode, and nftables mode removes them', async () => {
    const status = (mode: string) =>
      snapshotOf('ipvs/1.36').then(snapshot => previewOf(snapshot, {mode}).requirements.find(({name}) => name === 'leftovers')?.status);
    expect([await status('iptables'), await status('nftables')]).toEqual(['unmet', 'met']);
  });

  test('INVALID packets are dropped in iptables mode', async () => {
    const found = previewOf(await snapshotOf('ipvs/1.36'), {mode: 'iptables'});
    expect(adviceOf(found)).toContain('invalid-packets');
  });
});

describe('versions in one mode', () => {
  test('nftables mode of 1.36 and 1.37 behave the same', async () => {
    expect(previewOf(await snapshotOf('nftables/1.36'), {version: 'v1.37.0'})).toMatchObject({changes: [], advice: []});
  });

  test('a version that treats terminating endpoints in another way is the reason, also at node ports on loopback addresses', async () => {
    const found = previewOf(await snapshotOf('healthy/1.36-iptables'), {version: 'v1.20.0'});
    const local = found.changes.filter(({source: {address}}) => address === '127.0.0.1');
    expect(local.length).toBeGreaterThan(0);
    expect(local.map(({cause}) => cause.id)).not.toContain('localhost-node-ports');
  });

  test('1.33.6 serves packets of the node itself that 1.32 and 1.33.5 dropped before translation', async () => {
    const snapshot = await snapshotOf('nftables/1.31');
    expect(previewOf(snapshot, {version: 'v1.33.5'}).changes).toEqual([]);
    const found = previewOf(snapshot, {version: 'v1.33.6'});
    expect(new Set(found.changes.map(({effect, service, source}) => `${effect} ${service.name} ${source.kind}`))).toEqual(
      new Set(['gained lb-local node']),
    );
  });
});

describe('planned objects', () => {
  test('another policy changes its Service alone', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const given = await scenario();
    given.service('shop/nodeport', object => ({...object, spec: {...object.spec, externalTrafficPolicy: 'Local'}}));
    const found = previewOf(snapshot, {}, given.snapshot().api);
    expect(new Set(found.changes.map(({service}) => service.name))).toEqual(new Set(['nodeport']));
    expect(idsOf(found)).toEqual(['changed-service']);
  });

  test('that add or remove a Service are the cause of all changes of it, also on loopback addresses', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const services = (snapshot.api.services ?? []).filter(({metadata}) => metadata.name !== 'nodeport');
    const without = {...snapshot.api, services};
    expect(idsOf(previewOf(snapshot, {}, without))).toEqual(['removed-service']);
    const added = previewOf({...snapshot, api: without}, {}, snapshot.api, {expectedOnly: true});
    expect(idsOf(added)).toEqual(['new-service']);
    expect(new Set(added.changes.map(({service}) => service.name))).toEqual(new Set(['nodeport']));
  });

  test('that give a Service a node port, external IP or other source ranges show who gains and who loses', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const changesOf = async (name: string, spec: ServiceSpec) => {
      const changed = (snapshot.api.services ?? []).map(object =>
        object.metadata.name === name ? {...object, spec: {...object.spec, ...spec}} : object,
      );
      const found = previewOf(snapshot, {}, {...snapshot.api, services: changed});
      return [
        ...new Set(found.changes.map(({effect, entry, source, service}) => `${effect} ${service.name} ${entry.kind} ${source.kind}`)),
      ].sort();
    };
    const ports = [{name: 'http', port: 80, protocol: 'TCP', targetPort: 8080, nodePort: 30_999}];
    const everyone = ['endpoint', 'external', 'node', 'pod', 'remotePod'];
    expect(await changesOf('web', {type: 'NodePort', ports, externalIPs: ['192.0.2.9']})).toEqual([
      ...everyone.map(source => `gained web externalIP ${source}`),
      ...everyone.map(source => `gained web nodePort ${source}`),
    ]);
    const byLoadBalancer = (effect: string, name: string) => everyone.map(source => `${effect} ${name} loadBalancerIP ${source}`);
    expect(await changesOf('lb-ranges', {loadBalancerSourceRanges: []})).toEqual(byLoadBalancer('gained', 'lb-ranges'));
    expect(await changesOf('lb-cluster', {loadBalancerSourceRanges: ['198.51.100.0/24']})).toEqual(byLoadBalancer('lost', 'lb-cluster'));
  });

  test('have no part in what another mode changes for other Services', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const services = (snapshot.api.services ?? []).filter(({metadata}) => metadata.name !== 'nodeport');
    const found = previewOf(snapshot, {mode: 'nftables'}, {...snapshot.api, services});
    const ids = (isRemoved: boolean) =>
      new Set(found.changes.filter(({service}) => (service.name === 'nodeport') === isRemoved).map(({cause}) => cause.id));
    expect(ids(true)).toEqual(new Set(['removed-service']));
    expect(ids(false)).toContain('localhost-node-ports');
    expect(ids(false)).not.toContain('removed-service');
  });
});

describe('the output', () => {
  test('a version that is not known is said to be unknown', async () => {
    const found = {...(await toNftables(() => {}, {}, {nodes})), services: 34};
    const side = (proxyMode: string) => ({proxyMode, kubeProxyVersion: 'unknown'});
    const [first] = previewRenderers
      .table({...found, before: side('iptables'), after: side('nftables')}, {...options, width: Infinity})
      .split('\n');
    expect(first).toMatch(/: kube-proxy iptables mode \(version unknown\) to nftables mode \(version unknown\)\. Of 35 Service ports /);
  });

  test('has the result in its first line, and counts that add up', async () => {
    const found = {...(await toNftables(() => {}, {}, {nodes})), services: 34};
    const text = previewRenderers.table(found, {...options, width: 1000});
    const [, affected, lost, other] =
      /^CHANGES: (\d+) of 34 Services affected on 3 nodes \((\d+) lost at [a-z ]+ only, (\d+) other; no cluster IP is lost\)/.exec(text) ??
      [];
    expect(Number(affected)).toBeGreaterThan(0);
    expect(Number(lost) + Number(other)).toBe(Number(affected));
  });

  test('begins with a kube-proxy that would not work', async () => {
    const found = previewOf(await snapshotOf('healthy/1.28-iptables'), {mode: 'nftables'});
    const text = previewRenderers.table(found, options);
    expect(text).toMatch(/^BLOCKED: kube-proxy would not work on 3 of 3 nodes: kube-proxy v1\.28\.\d+ has no nftables mode/);
    expect(previewExitCode(found, 'lost')).toBe(1);
  });

  test('says once why nodes were not checked', async () => {
    const found = await toNftables();
    const unread = Array.from({length: 30}, (_, index) => ({
      ...{name: `worker-${String(index).padStart(2, '0')}`, basis: 'unread' as const},
      reason: index < 29 ? 'no access' : 'the Services were not read',
    }));
    const lines = previewRenderers.table({...found, nodes: [...found.nodes, ...unread]}, options).split('\n');
    expect(lines).toContain('- worker-[00-28] not checked: no access');
    expect(lines).toContain('- worker-29 not checked: the Services were not read');
  });

  test('names the first nodes whose mode of today is assumed, and counts the others', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const nodes = Array.from({length: 7}, (_, index) => ({name: `worker-${index}`, files: [], read: () => null}));
    const api = {...snapshot.api, configMaps: []};
    const found = previewOf({...snapshot, api, nodes}, {mode: 'nftables'}, api, {expectedOnly: true});
    expect(found.notes).toEqual([
      "the proxy mode of today is not known on worker-0, worker-1, worker-2, worker-3, worker-4 and 2 more nodes: iptables, kube-proxy's default, is taken",
    ]);
  });

  test('does not mention Services or nodes if there are none', async () => {
    const found = await toNftables();
    expect(previewRenderers.table({...found, services: 0, changes: []}, options)).toMatch(/^CHANGES: there are no Services in scope/);
    const none = {...found, nodes: [], changes: [], advice: [], requirements: []};
    expect(previewRenderers.table(none, options)).toMatch(/^INCOMPLETE: no node was checked/);
    const unread = {...none, services: 0, nodes: [{name: 'node-a', basis: 'unread', reason: 'the Services were not read'}] as const};
    expect(previewRenderers.table(unread, options)).toMatch(/^INCOMPLETE: no node was checked: the Services were not read \(/);
    expect(previewExitCode(none, 'lost')).toBe(3);
  });

  test('fails for a loss that belongs to no Service, too', async () => {
    const found = await toNftables();
    const [first] = found.advice;
    if (first === undefined) throw new Error('nothing is said');
    const quiet = {...found, changes: [], requirements: []};
    expect(previewExitCode(quiet, 'lost')).toBe(0);
    expect(previewExitCode({...quiet, advice: [{...first, effect: 'lost'}]}, 'lost')).toBe(1);
  });

  test('has every field of the contract for a change in JSON', async () => {
    const {changes, summary} = JSON.parse(previewRenderers.json(await toNftables(), options));
    expect(Object.keys(changes[0])).toEqual(
      expect.arrayContaining([
        'node',
        'service',
        'port',
        'entry',
        'source',
        'packet',
        'before',
        'after',
        'effect',
        'reason',
        'remedy',
        'docs',
      ]),
    );
    expect(Object.keys(summary).sort()).toEqual([
      'affectedServices',
      'gained',
      'healed',
      'lost',
      'lostClusterIPs',
      'nodesChecked',
      'nodesUnread',
      'other',
      'servicePorts',
      'services',
      'verdict',
    ]);
  });

  test('escapes names in the page', async () => {
    const found = await toNftables();
    const nasty = {...found, changes: found.changes.map(change => ({...change, service: {namespace: 'x', name: '<script>'}}))};
    const page = previewRenderers.html(nasty, options);
    expect(page).toContain('x/&lt;script&gt;');
    // The page's own.
    expect(page.match(/<script>/g)).toHaveLength(1);
    expect(previewRenderers.markdown(nasty, options)).not.toContain('<script>');
  });
});

describe("faults of today's rules", () => {
  const stale = (given: Scenario): void => {
    given.rules('node-a').insertBefore(['-A KUBE-SERVICES -d 10.96.0.10/32 -p udp'], '-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -j RETURN');
  };

  test('are healed by the change and not blamed on it', async () => {
    const healthy = await toNftables();
    const found = await toNftables(stale);
    const healed = found.changes.filter(({cause}) => cause.id === 'healed');
    expect(healed.length).toBeGreaterThan(0);
    expect(new Set(healed.map(({node, packet, effect}) => `${node} ${packet.destination} ${effect}`))).toEqual(
      new Set(['node-a 10.96.0.10 gained']),
    );
    const keys = (changes: Preview['changes']): readonly string[] => changes.map(change => JSON.stringify(change)).toSorted();
    expect(keys(found.changes.filter(({cause}) => cause.id !== 'healed'))).toEqual(keys(healthy.changes));
    const text = previewRenderers.table(found, options);
    expect(text).toContain('HEALED BY ANY RESTART OF KUBE-PROXY');
    expect(text.slice(0, text.indexOf('HEALED BY'))).not.toContain('GAINED');
  });
});

test('the first line says that no cluster IP is lost, and what is', async () => {
  const first = previewRenderers.table({...(await toNftables()), services: 40}, {...options, width: 1000}).split('\n')[0];
  expect(first).toMatch(/\d+ lost at node ports on loopback addresses only/);
  expect(first).toContain('; no cluster IP is lost');
});

test('within one mode the reason for masqueradeAll names no other mode', async () => {
  const found = previewOf(await snapshotOf('healthy/1.36-iptables'), {masqueradeAll: true});
  const reasons = new Set(found.changes.filter(({cause}) => cause.id === 'masquerade-all').map(({cause}) => cause.reason));
  expect(reasons).toEqual(new Set(['masqueradeAll is off today and on after the change']));
});

test('a version that follows the hints of EndpointSlices is the reason for other shares', async () => {
  const found = await previewFrom(
    'healthy/1.30-iptables',
    {version: 'v1.37.0'},
    given => {
      for (const [index, name] of nodes.entries()) {
        const zone = {'topology.kubernetes.io/zone': `zone-${index}`};
        given.nodeObject(name, node => ({...node, metadata: {...node.metadata, labels: {...node.metadata.labels, ...zone}}}));
      }
      given.slices('shop/web', slice => ({
        ...slice,
        endpoints: slice.endpoints?.map((one, index) => ({...one, hints: {forZones: [{name: `zone-${index % 3}`}]}})) ?? [],
      }));
    },
    {expectedOnly: true},
  );
  const ofWeb = found.changes.filter(({service, packet}) => service.name === 'web' && packet.family === 'IPv4');
  expect(new Set(ofWeb.map(({effect, cause}) => `${effect} ${cause.id}`))).toEqual(new Set(['shares traffic-distribution']));
  expect(ofWeb[0]?.cause.reason).toContain('follow the hints of EndpointSlices under other conditions');
});

test('what manifests add does not fail, and the loss of what they remove does', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const {api} = snapshot;
  const [, ...others] = (api.services ?? []).toSorted((a, b) => Number(b.metadata.name === 'web') - Number(a.metadata.name === 'web'));
  const without = {...snapshot, api: {...api, services: others}};
  const added = previewOf(without, {}, api, {expectedOnly: true});
  expect(added.changes.map(({effect}) => effect)).toContain('gained');
  expect(previewExitCode(added, 'lost')).toBe(0);
  expect(previewExitCode(added, 'any')).toBe(1);
  expect(previewExitCode(previewOf(snapshot, {}, without.api), 'lost')).toBe(1);
});
