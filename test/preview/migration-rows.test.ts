/** Each way in which proxy modes differ is said of a cluster that is affected, and not of one that is not. */
import {describe, expect, test} from 'vitest';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import {service} from '../cluster.ts';
import {snapshotOf} from '../fixtures.ts';
import type {Scenario} from '../scenario.ts';
import type {ConfigOverrides} from '../../src/expect/resolve-proxy-config.ts';
import type {Preview} from '../../src/model/preview-result.ts';
import {adviceOf, idsOf, type PreviewSettings, previewFrom as previewOfCapture, previewOf, withKernel} from './previews.ts';

const node = 'node-a';

const fromIpvs = (change: (given: Scenario) => void, mode = 'nftables') => previewFrom('ipvs/1.36', {mode}, change);
const asIs = (): void => {};

/** Of one node, which shows as much as all of them. */
function previewFrom(
  capture: string,
  overrides: ConfigOverrides,
  change: (given: Scenario) => void,
  settings: PreviewSettings = {},
): Promise<Preview> {
  return previewOfCapture(capture, overrides, change, {nodes: [node], ...settings});
}

function toNftables(
  change: (given: Scenario) => void = asIs,
  overrides: ConfigOverrides = {},
  settings: PreviewSettings = {},
): Promise<Preview> {
  return previewFrom('healthy/1.36-iptables', {mode: 'nftables', ...overrides}, change, settings);
}

describe('node ports on loopback addresses', () => {
  const metric = (count: number) => (given: Scenario) =>
    given.file(node, 'metrics', `kubeproxy_iptables_localhost_nodeports_accepted_packets_total ${count}\n`);

  test('are known to be in use where kube-proxy counted packets to them', async () => {
    const used = (await toNftables(metric(12))).advice.find(({id}) => id === 'localhost-node-ports');
    expect(used?.nodes).toEqual([node]);
    expect(adviceOf(await toNftables(metric(0)))).not.toContain('localhost-node-ports');
  });
});

describe('packets in state INVALID', () => {
  test('are dropped in iptables mode and not in IPVS mode, unless connection tracking is liberal', async () => {
    const liberal = (given: Scenario): void => given.file(node, 'sysctls', 'net.netfilter.nf_conntrack_tcp_be_liberal = 1\n');
    expect(adviceOf(await fromIpvs(asIs, 'iptables'))).toContain('invalid-packets');
    expect(adviceOf(await fromIpvs(liberal, 'iptables'))).not.toContain('invalid-packets');
    expect(adviceOf(await fromIpvs(asIs, 'nftables'))).not.toContain('invalid-packets');
  });

  test('that kube-proxy counted are named', async () => {
    const given = (count: number) => (scenario: Scenario) => {
      withKernel('5.15.0')(scenario);
      scenario.file(node, 'metrics', `kubeproxy_iptables_ct_state_invalid_dropped_packets_total{ip_family="IPv4"} ${count}\n`);
    };
    const reason = async (count: number) => (await toNftables(given(count))).advice.find(({id}) => id === 'invalid-packets')?.reason;
    expect(await reason(3)).toContain('has dropped such packets');
    expect(await reason(0)).not.toContain('has dropped such packets');
  });
});

describe('an address in the Service range', () => {
  const ranges = (...cidrs: readonly string[]) =>
    ({serviceCIDRs: [{metadata: {name: 'kubernetes'}, spec: {cidrs}}]}) as Partial<ApiObjects>;
  const known = (given: Scenario): void => given.api(() => ranges('10.96.0.0/16', 'fd00:96::/108'));

  test('is lost if it is an endpoint', async () => {
    const inside = (given: Scenario): void => {
      known(given);
      given.slices('shop/manual', slice => ({...slice, endpoints: [{addresses: ['10.96.200.7'], conditions: {ready: true}}]}));
    };
    const lost = (given: Awaited<ReturnType<typeof toNftables>>) =>
      given.changes.filter(({cause}) => cause.id === 'unallocated-addresses').map(({effect, service: {name}}) => `${effect} ${name}`);
    // The dumps do not hold the endpoint.
    expect(new Set(lost(await toNftables(inside, {}, {expectedOnly: true})))).toEqual(new Set(['lost manual']));
    expect(lost(await toNftables(known, {}, {expectedOnly: true}))).toEqual([]);
    expect(lost(await toNftables(inside, {version: 'v1.32.0'}, {expectedOnly: true}))).toEqual([]);
  });

  test('is named if it is a pod network or a node', async () => {
    const said = async (...cidrs: readonly string[]) =>
      (await toNftables(given => given.api(() => ranges(...cidrs)))).advice.filter(({id}) => id === 'unallocated-addresses');
    expect((await said('10.244.0.0/16')).map(({reason}) => reason)).toEqual([
      expect.stringMatching(/^the pod network 10\.244\.11\.0\/24 of node-a, .* are inside the Service range 10\.244\.0\.0\/16/),
    ]);
    expect((await said('172.18.0.11/32'))[0]?.reason).toMatch(/^the address 172\.18\.0\.11 of node-a is inside/);
    expect(await said('10.96.0.0/16')).toEqual([]);
  });

  const routes = (given: Scenario, ...own: readonly object[]): void => {
    const others = ['10.244.12.0/24', 'fd00:10:244:2::/64'].map(dst => ({dst, dev: 'eth0'}));
    given.file(node, 'routes.json', JSON.stringify([...others, ...own]));
  };

  test.each<readonly [string, object, number]>([
    ['a network that a gateway leads to', {dst: '10.96.200.0/24', gateway: '172.18.0.9', dev: 'eth0'}, 1],
    ['a host', {dst: '10.96.200.7', dev: 'vmnet1', scope: 'link'}, 1],
    ['all of the range, as on nodes without a default route', {dst: '10.96.0.0/16', dev: 'eth0', scope: 'link'}, 0],
    ['a network that packets are not sent to', {type: 'blackhole', dst: '10.96.200.0/24'}, 0],
  ])('is named if the node has a route to it: %s', async (_, route, count) => {
    const inside = (given: Scenario): void => {
      known(given);
      routes(given, route);
    };
    const said = async (version: string) =>
      (await toNftables(inside, {version})).advice
        .filter(({id}) => id === 'unallocated-addresses')
        .map(({nodes, effect}) => [nodes, effect]);
    expect(await said('v1.36.0')).toEqual(Array.from({length: count}, () => [[node], 'lost']));
    expect(await said('v1.32.0')).toEqual([]);
  });

  test('is named in an upgrade to the first version that drops packets to it, not between two that do', async () => {
    const overlapping = (given: Scenario): void => given.api(() => ranges('10.244.0.0/16', 'fd00:96::/108'));
    const upgrade = async (from: string, version: string) => adviceOf(await previewFrom(from, {version}, overlapping));
    expect(await upgrade('nftables/1.31', 'v1.33.0')).toContain('unallocated-addresses');
    expect(await upgrade('nftables/1.33', 'v1.36.0')).not.toContain('unallocated-addresses');
  });

  test('must be searched for manually if the ServiceCIDRs were not read, and otherwise only routed hosts must be', async () => {
    const byHand = async (change: (given: Scenario) => void) =>
      (await toNftables(change)).advice.filter(({topic, reason}) => topic === 'by-hand' && reason.includes('Service range'));
    expect((await byHand(asIs)).map(({reason}) => reason)).toEqual([expect.stringContaining('the ServiceCIDRs are not known')]);
    expect((await byHand(known)).map(({reason}) => reason)).toEqual([
      expect.stringMatching(/^hosts inside the Service range 10\.96\.0\.0\/16, fd00:96::\/108: /),
    ]);
    const routed = (given: Scenario): void => {
      known(given);
      routes(given, {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'});
    };
    expect((await byHand(routed)).map(({reason}) => reason)).toEqual([expect.stringContaining('that only routers beyond the nodes have')]);
    expect((await fromIpvs(asIs, 'iptables')).advice.filter(({topic}) => topic === 'by-hand')).toEqual([]);
  });
});

test('packets to unused ports of cluster IPs change after iptables mode, not after IPVS mode', async () => {
  expect(adviceOf(await toNftables())).toContain('unused-ports');
  expect(adviceOf(await fromIpvs(asIs))).not.toContain('unused-ports');
});

describe('the addresses of kube-ipvs0', () => {
  const addresses = (prefix: string) => (given: Scenario) =>
    given.file(
      node,
      'addresses.json',
      JSON.stringify([
        {ifname: 'lo', addr_info: [{local: '127.0.0.1', prefixlen: 8}]},
        {ifname: 'eth0', addr_info: [{local: '172.18.0.11', prefixlen: 16}]},
        {ifname: 'eth1', addr_info: [{local: prefix, prefixlen: 24}]},
      ]),
    );
  const arp = async (change: (given: Scenario) => void) =>
    (await fromIpvs(change)).advice.filter(({reason}) => reason.includes('answer ARP')).length;

  test('are announced by ARP in networks of the node only', async () => {
    expect(await arp(addresses('203.0.113.250'))).toBe(1);
    expect(await arp(addresses('192.0.2.250'))).toBe(0);
  });

  test('leave the switches of strictARP behind where it was on', async () => {
    const strict = (given: Scenario): void =>
      given.file(node, 'sysctls', 'net.ipv4.conf.all.arp_ignore = 1\nnet.ipv4.conf.all.arp_announce = 2\n');
    const kept = ({advice}: Preview): boolean => advice.some(({reason}) => reason.includes('arp_ignore=1'));
    expect(kept(await fromIpvs(strict))).toBe(true);
    expect(kept(await fromIpvs(asIs))).toBe(false);
  });

  test('make the address of another node local', async () => {
    const shared = (given: Scenario): void =>
      given.service('shop/external-ips', object => ({...object, spec: {...object.spec, externalIPs: ['172.18.0.12']}}));
    expect(adviceOf(await fromIpvs(shared))).toContain('node-addresses');
    expect(adviceOf(await fromIpvs(asIs))).not.toContain('node-addresses');
    expect(adviceOf(await toNftables(shared))).not.toContain('node-addresses');
  });
});

/** Changes the virtual servers of the node. */
function edit(given: Scenario, change: (text: string) => string): void {
  const text =
    given
      .snapshot()
      .nodes.find(({name}) => name === node)
      ?.read('ipvsadm-save')
      ?.toString() ?? '';
  given.file(node, 'ipvsadm-save', change(text));
}

describe('schedulers of IPVS', () => {
  const server = '-a -t 10.96.1.1:80 -r';
  const scheduled =
    (scheduler: string, ended: readonly string[] = []) =>
    (given: Scenario) => {
      given.file(node, 'configz.json', null);
      given.file(node, 'kube-proxy-config.yaml', `mode: ipvs\nclusterCIDR: 10.244.0.0/16\nipvs: {scheduler: "${scheduler}"}\n`);
      const flags = scheduler === 'mh' ? ' -b mh-port' : '';
      edit(given, text => text.replaceAll(' -s rr', ` -s ${scheduler}${flags}`) + ended.map(one => `${server} ${one} -m -w 0\n`).join(''));
    };
  const about = async (scheduler: string, ended: readonly string[] = []) => {
    const {changes, ports} = await fromIpvs(scheduled(scheduler, ended));
    const effects = changes.filter(({packet}) => packet.destination === '10.96.1.1').map(({effect, cause}) => `${effect}: ${cause.id}`);
    const changed = new Set(changes.flatMap(({packet, service}) => (packet.destination === '10.96.1.1' ? [service.name] : [])));
    const gaps = ports.flatMap(({reason}) => reason ?? []);
    return {effects: [...new Set(effects)], count: changed.size, gaps: [...new Set(gaps)]};
  };

  test('that hash refuse the clients of a server with the weight 0, which are served after the change', async () => {
    const ended = ['10.244.99.9:8080'];
    expect(await about('mh', ended)).toEqual({effects: ['gained: ipvs-scheduler'], count: 1, gaps: []});
    expect(await about('rr', ended)).toEqual({effects: [], count: 0, gaps: []});
    expect(await about('mh')).toEqual({effects: [], count: 0, gaps: []});
  });
});

describe('connections of IPVS', () => {
  const said = async (id: string, change: (given: Scenario) => void, mode = 'nftables') =>
    (await fromIpvs(change, mode)).advice.filter(one => one.id === id).map(({topic, reason}) => `${topic}: ${reason}`);
  const reuse = (kernel: string, value: number | null) => (given: Scenario) => {
    withKernel(kernel)(given);
    given.file(node, 'sysctls', value === null ? '' : `net.ipv4.vs.conn_reuse_mode = ${value}\n`);
  };

  test('of clients that use a port again are named where the kernel sends them to an earlier endpoint, or delays them', async () => {
    expect(await said('reused-ports', reuse('5.4.0', 0))).toEqual([expect.stringContaining('gets the endpoint of its earlier connection')]);
    expect(await said('reused-ports', reuse('6.1.0', 0))).toEqual([expect.stringContaining('gets the endpoint of its earlier connection')]);
    expect(await said('reused-ports', reuse('5.4.0', 1))).toEqual([expect.stringContaining('waits for a second')]);
    expect(await said('reused-ports', reuse('6.1.0', 1))).toEqual([]);
  });

  test('are those of kube-proxy on this kernel where the switch was not read, and not said where neither is known', async () => {
    expect(await said('reused-ports', reuse('5.4.0', null))).toEqual([expect.stringContaining('conn_reuse_mode is 0 on this kernel')]);
    expect(await said('reused-ports', reuse('6.1.0', null))).toEqual([]);
    expect(await said('reused-ports', reuse('', null))).toEqual([]);
  });

  test('of endpoints that end stay on a server with the weight 0, and on no rule after the change', async () => {
    const ended = (given: Scenario): void => edit(given, text => `${text}-a -t 10.96.1.1:80 -r 10.244.99.9:8080 -m -w 0\n`);
    expect(await said('ending-endpoints', asIs)).toEqual([expect.stringMatching(/^change: .* idle for 15 minutes; after the change/)]);
    expect((await said('ending-endpoints', ended))[1]).toMatch(/^switch: .* they break with all others$/);
    expect((await said('ending-endpoints', ended, 'iptables'))[1]).toMatch(/^switch: .* nothing removes these servers any more$/);
    expect((await toNftables()).advice.filter(({id}) => id === 'ending-endpoints')).toEqual([]);
  });
});

test('Local policies are named after IPVS mode, which applied them in another way, if a Service has one', async () => {
  const cluster = (given: Scenario): void =>
    given.api(({services}) => ({
      services: (services ?? []).map(object => ({
        ...object,
        spec: {...object.spec, externalTrafficPolicy: 'Cluster', internalTrafficPolicy: 'Cluster'},
      })),
    }));
  expect(idsOf(await fromIpvs(asIs))).toContain('local-policies');
  expect(idsOf(await previewFrom('ipvs/1.36', {mode: 'nftables'}, cluster, {expectedOnly: true}))).not.toContain('local-policies');
});

test('idle connections live longer after IPVS mode, and unchanged after iptables mode', async () => {
  expect(adviceOf(await fromIpvs(asIs))).toContain('idle-connections');
  expect(adviceOf(await toNftables())).not.toContain('idle-connections');
});

describe('a hostPort', () => {
  const hostPort =
    (port: number, protocol: string, hostIP = '') =>
    (given: Scenario) => {
      const rules = given.rules(node);
      rules.declare('nat', 'CNI-HOSTPORT-DNAT');
      const address = hostIP === '' ? '' : `-d ${hostIP}/32 `;
      rules.append(
        'nat',
        `-A CNI-HOSTPORT-DNAT ${address}-p ${protocol} -m multiport --dports ${port} -j DNAT --to-destination 10.244.11.9:80`,
      );
    };
  const said = async (change: (given: Scenario) => void): Promise<readonly string[]> =>
    (await toNftables(change)).advice.filter(({id}) => id === 'host-ports').map(({reason}) => reason.split(':', 1)[0] ?? '');

  /** A Service whose external IP is that of the node, as where there is no load balancer. */
  const atNodeAddress = (given: Scenario): void => {
    const web = service('shop/at-node', {clusterIP: '10.96.9.9', externalIPs: ['172.18.0.11', '203.0.113.99'], ports: [{port: 443}]});
    given.api(({services}) => ({services: [...(services ?? []), web]}));
  };

  test('that is also a node port is named, with the node', async () => {
    const {advice} = await toNftables(hostPort(30_080, 'tcp'));
    const found = advice.filter(({id}) => id === 'host-ports');
    expect(found.map(({reason, nodes: of}) => [reason.split(':', 1)[0], of])).toEqual([
      ['30080/TCP is a hostPort and a node port', [node]],
    ]);
    expect(await said(hostPort(30_080, 'tcp', '172.18.0.11'))).toHaveLength(1);
  });

  test('got the packets in IPVS mode, whatever the other mode does', async () => {
    const reasons = async (mode: string): Promise<readonly string[]> =>
      (await fromIpvs(hostPort(30_080, 'tcp'), mode)).advice.flatMap(({id, reason}) =>
        id === 'host-ports' ? [reason.split(': in ')[1] ?? ''] : [],
      );
    expect(await reasons('nftables')).toEqual([
      'IPVS mode the hostPort gets the packets, in nftables mode whichever chain was registered last',
    ]);
    expect(await reasons('iptables')).toEqual(['IPVS mode the hostPort gets the packets, in iptables mode the order of the rules decides']);
    expect((await fromIpvs(asIs)).advice.map(({id}) => id)).not.toContain('host-ports');
  });

  test('that is also the port of a Service at an address of the node is named', async () => {
    const both = (change: (given: Scenario) => void) => (given: Scenario) => {
      atNodeAddress(given);
      change(given);
    };
    expect(await said(both(hostPort(443, 'tcp')))).toEqual(['443/TCP at 172.18.0.11 is a hostPort and an address of shop/at-node']);
    expect(await said(both(hostPort(443, 'tcp', '203.0.113.99')))).toEqual([
      '443/TCP at 203.0.113.99 is a hostPort and an address of shop/at-node',
    ]);
    expect(await said(both(hostPort(443, 'tcp', '203.0.113.98')))).toEqual([]);
    expect(await said(both(hostPort(444, 'tcp')))).toEqual([]);
  });

  test('of the nftables backend of portmap is named by its rule', async () => {
    const table = (rules: string) => (given: Scenario) => {
      given.file(node, 'nft.txt', `table ip cni_hostport {\n\tchain hostports {\n${rules}\t}\n}\n`);
    };
    const rule = (protocol: string, port: number) => `\t\t${protocol} dport ${port} dnat ip to 10.244.11.9:80\n`;
    expect(await said(table(`${rule('udp', 53)}${rule('tcp', 30_080)}`))).toEqual(['30080/TCP is a hostPort and a node port']);
    expect(await said(table(`${rule('tcp', 53)}${rule('udp', 30_080)}`))).toEqual([]);
  });

  test.each([
    ['of another number', 30_999, 'tcp', ''],
    ['of another protocol', 30_080, 'udp', ''],
    ['of an address that the node does not have', 30_080, 'tcp', '10.1.2.3'],
  ])('%s is not', async (_, port, protocol, hostIP) => {
    expect(adviceOf(await toNftables(hostPort(port, protocol, hostIP)))).not.toContain('host-ports');
  });
});

test('pods lose load-balancer addresses with a Local policy after IPVS mode only if kube-proxy does not detect pods', async () => {
  const blind = (given: Scenario): void => {
    given.file(node, 'configz.json', null);
    given.file(node, 'kube-proxy-config.yaml', 'mode: ipvs\n');
  };
  // On a node with endpoints of its own nothing is lost.
  const elsewhere = (given: Scenario): void =>
    given.slices('shop/lb-local', slice => ({
      ...slice,
      endpoints: (slice.endpoints ?? []).map(one => ({...one, nodeName: 'node-c'})),
    }));
  const both = (given: Scenario): void => {
    blind(given);
    elsewhere(given);
  };
  const lost = async (change: (given: Scenario) => void) =>
    (await previewFrom('ipvs/1.36', {mode: 'nftables'}, change, {expectedOnly: true})).changes
      .filter(({effect, cause, service: {name}}) => effect === 'lost' && cause.id === 'missing-detector' && name === 'lb-local')
      .map(({source}) => source.kind);
  expect(new Set(await lost(both))).toEqual(new Set(['pod']));
  expect(await lost(elsewhere)).toEqual([]);
});

test('the first sync of more than 5,000 Services takes minutes', async () => {
  const many = (count: number) => (given: Scenario) =>
    given.api(() => ({
      services: Array.from({length: count}, (_, index) =>
        service(`shop/s${index}`, {clusterIP: `10.96.${index >> 8}.${index & 255}`, ports: [{port: 80}]}),
      ),
      endpointSlices: [],
    }));
  const said = async (count: number) => adviceOf(await toNftables(many(count), {}, {expectedOnly: true}));
  expect(await said(5001)).toContain('large-clusters');
  expect(await said(5000)).not.toContain('large-clusters');
});

describe('source ranges', () => {
  const sourceRanges = (given: Scenario, ...ranges: readonly string[]): void =>
    given.service('shop/empty-lb', object => ({...object, spec: {...object.spec, loadBalancerSourceRanges: ranges}}));

  test('are also enforced without endpoints, so that other clients are no longer rejected', async () => {
    const found = await toNftables(given => sourceRanges(given, '198.51.100.0/24'), {}, {expectedOnly: true});
    const changes = found.changes.filter(({cause}) => cause.id === 'source-ranges').map(({effect, service: {name}}) => `${effect} ${name}`);
    expect(new Set(changes)).toEqual(new Set(['unanswered empty-lb']));
  });

  test('apply to an external IP that is also a load-balancer IP', async () => {
    const both = (given: Scenario): void =>
      given.service('shop/lb-ranges', object => ({...object, spec: {...object.spec, externalIPs: ['203.0.113.13']}}));
    const lost = (await toNftables(both, {}, {expectedOnly: true})).changes.filter(({cause}) => cause.id === 'source-ranges');
    expect(new Set(lost.map(({effect, service: {name}}) => `${effect} ${name}`))).toEqual(new Set(['lost lb-ranges']));
  });

  test('are not named if no Service has any', async () => {
    const open = (given: Scenario): void => sourceRangesOff(given, 'shop/lb-ranges');
    expect(idsOf(await toNftables(open, {}, {expectedOnly: true}))).not.toContain('source-ranges');
  });

  function sourceRangesOff(given: Scenario, name: string): void {
    given.service(name, ({spec, ...object}) => {
      const {loadBalancerSourceRanges: _, ...rest} = spec ?? {};
      return {...object, spec: rest};
    });
  }
});

describe('programs that write or read iptables rules', () => {
  const calico = (given: Scenario): void => given.rules(node).declare('filter', 'cali-FORWARD');
  const status = async (change: (given: Scenario) => void) =>
    (await toNftables(change)).requirements
      .filter(({name}) => name === 'network-plugin')
      .map(({node, status: found}) => `${node} ${found}`);

  test('include Calico, which needs a matching mode on the nodes that it runs on', async () => {
    expect(await status(calico)).toEqual(['node-a unknown']);
    expect(await status(asIs)).toEqual([]);
  });

  test('include readers, which must be searched for manually in a change to nftables mode only', async () => {
    const readers = async (mode: string) =>
      (await fromIpvs(asIs, mode)).advice.filter(({reason}) => reason.startsWith('programs that read'));
    expect(await readers('nftables')).toHaveLength(1);
    expect(await readers('iptables')).toEqual([]);
  });
});

describe('established connections', () => {
  const reason = async (mode: string) => (await fromIpvs(asIs, mode)).advice.find(({id}) => id === 'established-connections')?.reason ?? '';

  test('through IPVS break if kube-proxy removes its virtual servers, and continue if it leaves them', async () => {
    expect(await reason('nftables')).toContain('break when its virtual servers are removed');
    expect(await reason('iptables')).toContain('go on while its virtual servers are left over');
  });
});

describe('another version in one mode', () => {
  test('finds empty endpoint chains with 1.35 after 1.36, and not with 1.37 after 1.36', async () => {
    const said = async (version: string) => adviceOf(await previewFrom('nftables/1.36', {version}, asIs));
    expect(await said('v1.35.0')).toContain('empty-endpoint-chains');
    expect(await said('v1.37.0')).not.toContain('empty-endpoint-chains');
    expect(await said('v1.32.0')).not.toContain('empty-endpoint-chains');
  });

  test('that allows node ports on loopback addresses after they were rejected keeps kube-proxy from syncing', async () => {
    const gate = 'featureGates: {KubeProxyNFTablesLocalhostNodePorts: true}\nclusterCIDR: 10.244.0.0/16\nmode: nftables\n';
    const with137 = (given: Scenario): void => {
      given.file(node, 'kube-proxy-version', 'Kubernetes v1.37.0\n');
      given.file(node, 'configz.json', null);
      given.file(node, 'kube-proxy-config.yaml', gate);
    };
    const found = await previewFrom('nftables/1.36', {nodePortAddresses: ['primary', 'localhost']}, with137);
    expect(found.advice.filter(({topic}) => topic === 'switch').map(({id}) => id)).toEqual(['localhost-node-ports']);
    expect(adviceOf(await previewFrom('nftables/1.36', {nodePortAddresses: ['primary']}, with137))).toEqual([]);
  });

  test('that is older than 1.37 does not start with the keywords of 1.37', async () => {
    const status = async (version: string) =>
      (await toNftables(asIs, {version, nodePortAddresses: ['primary', 'localhost']})).requirements
        .filter(({name}) => name === 'settings')
        .map(one => one.status);
    expect(new Set(await status('v1.36.2'))).toEqual(new Set(['unmet']));
    expect(await status('v1.37.0')).toEqual([]);
  });

  test('from 1.31 on counts with nfacct in iptables mode, which the kernel may lack', async () => {
    const kernel = async (capture: string, version: string) =>
      (await previewFrom(capture, {version}, asIs)).requirements.filter(({detail}) => detail.includes('nfacct')).length;
    expect(await kernel('healthy/1.30-iptables', 'v1.31.0')).toBe(1);
    expect(await kernel('healthy/1.33-iptables', 'v1.36.0')).toBe(0);
  });
});

describe('settings with which kube-proxy writes nothing', () => {
  const settings = ({requirements}: Preview): readonly string[] =>
    requirements.flatMap(({name, status, detail}) => (name === 'settings' && status === 'unmet' ? [detail.split(':', 1)[0] ?? ''] : []));
  const prefix: ConfigOverrides = {detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth'};

  test('are a prefix of interface names in nftables mode before 1.33.6 and 1.34.2', async () => {
    expect(settings(await toNftables(asIs, {...prefix, version: 'v1.32.0'}))).toEqual([
      'kube-proxy v1.32.0 writes iif "veth*" in nftables mode, which nft refuses',
    ]);
    const refuses = async (version: string) => settings(await toNftables(asIs, {...prefix, version})).length;
    expect(await Promise.all(['v1.33.5', 'v1.34.1'].map(refuses))).toEqual([1, 1]);
    expect(await Promise.all(['v1.33.6', 'v1.34.2', 'v1.35.0'].map(refuses))).toEqual([0, 0, 0]);
    expect(settings(await toNftables(asIs, {detectLocalMode: 'BridgeInterface', bridgeInterface: 'cni0', version: 'v1.32.0'}))).toEqual([]);
  });

  test('are a clusterCIDR of all addresses, except with the legacy backend of iptables', async () => {
    const overrides: ConfigOverrides = {clusterCIDRs: ['0.0.0.0/0']};
    const message = 'clusterCIDR 0.0.0.0/0 makes rules with ! -s 0.0.0.0/0, which iptables with the nft backend refuses';
    expect(settings(await previewFrom('healthy/1.36-iptables', overrides, asIs))).toEqual([message]);
    expect(settings(await previewFrom('healthy/1.36-iptables-legacy', overrides, asIs))).toEqual([]);
    expect(settings(await toNftables(asIs, overrides))).toEqual([]);
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const unreadRules = {...snapshot, nodes: snapshot.nodes.map(node => ({...node, files: [], read: () => null}))};
    const {requirements} = previewOf(unreadRules, {mode: 'ipvs', ...overrides}, snapshot.api, {expectedOnly: true});
    expect(new Set(requirements.flatMap(({name, status}) => (name === 'settings' ? status : [])))).toEqual(new Set(['unknown']));
  });
});
