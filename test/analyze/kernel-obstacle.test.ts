import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {scenario} from '../scenario.ts';

const toService = {source: '10.244.11.4', destination: 'shop/web', port: '80'};

async function asked(packet: typeof toService, files: Readonly<Record<string, string>>, capture?: string) {
  const given = await scenario(capture);
  for (const [file, content] of Object.entries(files)) given.file('node-a', file, content);
  const [answer] = askNodes(packet, given.snapshot(), name => name === 'node-a');
  return answer?.outcomes.map(({verdict, reason}) => [verdict, reason]) ?? [];
}

test('with forwarding off no packet is accepted, and the reason is the switch', async () => {
  const outcomes = await asked(toService, {sysctls: 'net.ipv4.ip_forward = 0\n'});
  expect(outcomes.length).toBeGreaterThan(1);
  expect(new Set(outcomes.map(String))).toEqual(new Set(['drop,the node forwards no such packets (net.ipv4.ip_forward is 0)']));
});

describe('where the table of tracked connections is full', () => {
  const sysctls = 'net.netfilter.nf_conntrack_count = 65536\nnet.netfilter.nf_conntrack_max = 65536\n';

  test.each([undefined, 'ipvs/1.36', 'nftables/1.36'])('a new connection is dropped (%s)', async capture => {
    const outcomes = await asked(toService, {sysctls}, capture);
    expect(outcomes.length).toBeGreaterThan(0);
    for (const [verdict, reason] of outcomes) {
      expect(verdict).toBe('drop');
      expect(reason).toContain('the table of tracked connections is full (nf_conntrack_max is 65536)');
    }
  });

  test('a connection that rules exempt from tracking in both directions is not', async () => {
    const given = await scenario();
    given.file('node-a', 'sysctls', sysctls);
    const exempt = ['--dport', '--sport'].map(port => `-A PREROUTING -p tcp -m tcp ${port} 8080 -j NOTRACK`);
    given.rules('node-a').insertBefore(['*filter'], ['*raw', ':PREROUTING ACCEPT [0:0]', ...exempt, 'COMMIT'].join('\n'));
    const packet = {...toService, destination: '10.244.11.5', port: '8080'};
    const [answer] = askNodes(packet, given.snapshot(), name => name === 'node-a');
    expect(answer?.outcomes.map(({verdict}) => verdict)).toEqual(['accept']);
  });
});

describe('with forwarding off on the interface of one pod', () => {
  const files = {
    'netconf.json': JSON.stringify([
      {family: 'inet', interface: 'all', forwarding: true, rp_filter: 'off'},
      {family: 'inet', interface: 'cali4', forwarding: false, rp_filter: 'off'},
      {family: 'inet', interface: 'cali5', forwarding: true, rp_filter: 'off'},
    ]),
    'routes.json': JSON.stringify([
      {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
      {dst: '10.244.11.4', dev: 'cali4'},
      {dst: '10.244.11.5', dev: 'cali5'},
    ]),
    'ip-rules.json': JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]),
  };

  test('packets from it are dropped, for it alone', async () => {
    const given = await scenario();
    for (const [file, content] of Object.entries(files)) given.file('node-a', file, content);
    const [answer] = askNodes(toService, given.snapshot(), name => name === 'node-a');
    expect(new Set(answer?.outcomes.map(({verdict, reason}) => `${verdict} ${reason}`))).toEqual(
      new Set(['drop the node forwards no such packets (net.ipv4.conf.cali4.forwarding is 0)']),
    );
    expect(answer?.senders).toBe('10.244.11.4');
  });

  test('a client of it gets no reply, and other endpoints answer', async () => {
    const outcomes = await asked({source: '10.244.11.5', destination: '10.244.11.4', port: '80'}, files);
    expect(outcomes).toEqual([['drop', 'the node forwards no such packets (net.ipv4.conf.cali4.forwarding is 0)']]);
    expect((await asked({source: '10.244.11.5', destination: '10.244.12.4', port: '80'}, files)).map(String)).toEqual(['accept,']);
  });
});

test('in IPVS mode with forwarding off no packet is accepted', async () => {
  const outcomes = await asked(toService, {sysctls: 'net.ipv4.ip_forward = 0\n'}, 'ipvs/1.36');
  expect(new Set(outcomes.map(String))).toEqual(new Set(['drop,the node forwards no replies (net.ipv4.ip_forward is 0)']));
});

test.each([undefined, 'ipvs/1.36'])('trace of a node with forwarding off reaches no endpoint (%s)', async capture => {
  const given = await scenario(capture);
  given.file('node-a', 'sysctls', 'net.ipv4.ip_forward = 0\n');
  const {traces} = diagnose(given.snapshot(), {toolVersion: '0.0.0', trace: true, nodes: name => name === 'node-a'});
  const entries = traces.filter(({service}) => service.name === 'web').flatMap(trace => trace.entries);
  expect(entries.length).toBeGreaterThan(0);
  for (const {endpoints, end} of entries) {
    expect(new Set(endpoints.map(({share}) => share))).toEqual(new Set([0]));
    expect(end?.reason).toMatch(/^the node forwards no (?:such packets|replies) \(net\.ipv4\.ip_forward is 0\)$/);
  }
});

test('where a node has no route to cluster IPs, connections of its own are refused, and those of pods are not', async () => {
  const files = {
    'routes.json': JSON.stringify([
      {type: 'local', dst: '172.18.0.11', dev: 'eth0', table: 'local'},
      {dst: '172.18.0.0/16', dev: 'eth0'},
      {dst: '10.244.11.0/24', dev: 'cni0'},
      {dst: '10.244.12.0/24', gateway: '172.18.0.12', dev: 'eth0'},
    ]),
    'ip-rules.json': JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]),
  };
  const refused = await asked({...toService, source: '172.18.0.11'}, files);
  expect(refused.map(String)).toEqual([expect.stringMatching(/^drop,the node has no route to 10\..*before any rule is asked$/)]);
  expect(new Set((await asked(toService, files)).map(String))).toEqual(new Set(['accept,']));
});

describe('where a rule of policy routing sends what pods send by a second uplink with a gateway', () => {
  const addresses = (second: string) =>
    [['eth0', '172.18.0.11', 16] as const, ['eth1', second, 16] as const].map(([ifname, local, prefixlen]) => ({
      ifname,
      addr_info: [{family: 'inet', local, prefixlen, scope: 'global'}],
    }));
  const files = (second: string, strict: number) => ({
    'addresses.json': JSON.stringify(addresses(second)),
    sysctls: `net.ipv4.ip_forward = 1\nnet.ipv4.conf.all.rp_filter = ${strict}\nnet.ipv4.conf.eth0.rp_filter = 0\n`,
    'routes.json': JSON.stringify([
      {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
      {dst: '172.18.0.0/16', dev: 'eth0'},
      {dst: '10.244.11.0/24', dev: 'cni0'},
      {dst: '10.244.12.0/24', gateway: '172.18.0.12', dev: 'eth0'},
      {dst: 'default', gateway: '198.18.0.1', dev: 'eth1', table: '101'},
    ]),
    'ip-rules.json': JSON.stringify([
      {priority: 100, src: '10.244.11.0', srclen: 24, table: '101'},
      {priority: 32_766, src: 'all', table: 'main'},
    ]),
  });
  const fromNode = {source: '172.18.0.12', destination: '10.244.11.4', port: '8080'};

  test('whether answers to other nodes arrive is not known, nor is it what that network does', async () => {
    expect(await asked(fromNode, files('198.18.0.2', 0))).toEqual([
      [
        'undecided',
        'the node sends the reply by eth1 to the gateway 198.18.0.1, while eth0 leads to 172.18.0.12: whether the network takes it there is not known',
      ],
    ]);
  });

  test('whether a table leads to pods of another node without a gateway is not known', async () => {
    const routes = JSON.parse(files('198.18.0.2', 0)['routes.json']) as object[];
    const given = {
      ...files('198.18.0.2', 0),
      'routes.json': JSON.stringify([...routes, {dst: '10.244.12.0/24', dev: 'eth1', table: '101'}]),
      'links.json': JSON.stringify(['eth0', 'eth1'].map(ifname => ({ifname, flags: ['UP', 'LOWER_UP'], promiscuity: 0}))),
    };
    expect((await asked({source: '10.244.11.4', destination: '10.244.12.4', port: '8080'}, given)).map(String)).toEqual([
      'undecided,the node sends the packet by eth1, while eth0 leads to 10.244.12.4: whether the network takes it there is not known',
    ]);
  });

  test('strict reverse path filtering drops what other nodes send to these pods', async () => {
    expect(await asked(fromNode, files('198.18.0.2', 1))).toEqual([
      ['drop', 'rp_filter of eth0 is strict (1), and the way back to 172.18.0.12 leads by eth1: the kernel drops what arrives on eth0'],
    ]);
  });

  test.each([0, 1])('the network behind the second uplink knows pods that have its addresses (rp_filter %i)', async strict => {
    expect((await asked(fromNode, files('10.244.0.2', strict))).map(String)).toEqual(['accept,']);
  });

  test.each([
    ['lo', 'accept'],
    ['cni0', 'drop'],
  ])('what passes the node is filtered by the rules for what arrives where it leaves: iif %s', async (iif, verdict) => {
    const rules = [
      {priority: 100, src: 'all', dst: '172.18.0.12', iif, table: '101'},
      {priority: 32_766, src: 'all', table: 'main'},
    ];
    const given = {...files('198.18.0.2', 1), 'ip-rules.json': JSON.stringify(rules)};
    expect((await asked(fromNode, given)).map(([found]) => found)).toEqual([verdict]);
  });

  test('loose filtering drops nothing', async () => {
    expect((await asked(fromNode, files('198.18.0.2', 2))).map(([verdict]) => verdict)).toEqual(['undecided']);
  });
});

test('the reply to a client outside by another uplink than that of the address that it asks is in doubt', async () => {
  const given = {
    'addresses.json': JSON.stringify([
      {ifname: 'eth0', addr_info: [{family: 'inet', local: '172.18.0.11', prefixlen: 16, scope: 'global'}]},
    ]),
    'routes.json': JSON.stringify([
      {dst: 'default', gateway: '198.18.0.1', dev: 'eth1'},
      {dst: '172.18.0.0/16', dev: 'eth0'},
      {dst: '10.244.11.0/24', dev: 'cni0'},
    ]),
    'ip-rules.json': JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]),
  };
  const client = {source: '203.0.113.9', destination: '172.18.0.11', port: '30080'};
  const said = expect.stringContaining('which is an address of eth0: whether the network takes it there');
  expect((await asked(client, given)).map(String)).toContainEqual(said);
  const onLink = given['routes.json'].replace('"gateway":"198.18.0.1",', '');
  expect((await asked(client, {...given, 'routes.json': onLink})).map(String)).toContainEqual(said);
  const toService = {...client, destination: '10.96.1.3', port: '80'};
  const text = "while the client asks 10.96.1.3, while the node's own address is one of eth0";
  expect((await asked(toService, given)).map(String)).toContainEqual(expect.stringContaining(text));
});

describe('where a second uplink has a gateway too', () => {
  const files = (strict: number, ...more: readonly object[]) => ({
    'addresses.json': JSON.stringify(
      ['172.18.0.11', '198.18.0.2'].map((local, at) => ({
        ifname: `eth${at}`,
        addr_info: [{family: 'inet', local, prefixlen: 16, scope: 'global'}],
      })),
    ),
    'links.json': JSON.stringify(['eth0', 'eth1'].map(ifname => ({ifname, flags: ['UP', 'LOWER_UP'], promiscuity: 0}))),
    sysctls: `net.ipv4.ip_forward = 1\nnet.ipv4.conf.all.rp_filter = 0\nnet.ipv4.conf.eth1.rp_filter = ${strict}\n`,
    'routes.json': JSON.stringify([
      {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
      {dst: 'default', gateway: '198.18.0.1', dev: 'eth1', metric: 200},
      {dst: '172.18.0.0/16', dev: 'eth0'},
      {dst: '10.244.11.0/24', dev: 'cni0'},
      {dst: '10.244.12.0/24', gateway: '172.18.0.12', dev: 'eth0'},
      ...more,
    ]),
    'ip-rules.json': JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]),
  });
  const client = {source: '203.0.113.9', destination: '10.96.1.3', port: '80'};

  test('whether a client comes by it is not known if the kernel drops what does', async () => {
    const reason =
      'whether the packet comes by eth1, which a default route leads by too, is not known; there it has another outcome (drop: ';
    expect((await asked(client, files(1))).map(String)).toContainEqual(expect.stringContaining(`undecided,${reason}rp_filter of eth1`));
    expect((await asked(client, files(2))).map(([verdict]) => verdict)).not.toContain('undecided');
    // This address is on the first link.
    expect((await asked({...client, destination: '172.18.0.11', port: '30080'}, files(1))).map(([verdict]) => verdict)).not.toContain(
      'undecided',
    );
  });

  test.each([
    [{dst: '10.244.12.4', gateway: '172.18.0.1', dev: 'eth0'}, 'the default gateway 172.18.0.1, while another route leads to node-b'],
  ])('what is for a pod of another node may not get there by %j', async (route, text) => {
    const links = JSON.stringify([
      {ifname: 'veth9', flags: ['UP', 'LOWER_UP'], promiscuity: 0, link_netnsid: 3, linkinfo: {info_kind: 'veth'}},
    ]);
    const outcomes = await asked({...toService, destination: '10.244.12.4', port: '8080'}, {...files(0, route), 'links.json': links});
    expect(outcomes.map(String)).toEqual([expect.stringContaining(text)]);
  });

  test.each([
    [{dst: '10.244.11.4', dev: 'eth1'}, 'by eth1'],
    [{dst: '10.244.11.4', gateway: '198.18.0.77', dev: 'eth1'}, 'to 198.18.0.77 by eth1'],
  ])('what is for a pod of the node may not get there by %j', async (route, way) => {
    const links = JSON.stringify([
      ...['eth0', 'eth1'].map(ifname => ({ifname, flags: ['UP', 'LOWER_UP'], promiscuity: 0})),
      {ifname: 'veth9', flags: ['UP', 'LOWER_UP'], promiscuity: 0, link_netnsid: 3, linkinfo: {info_kind: 'veth'}},
    ]);
    const outcomes = await asked(
      {...toService, source: '172.18.0.12', destination: '10.244.11.4', port: '8080'},
      {...files(0, route), 'links.json': links},
    );
    expect(outcomes.map(String)).toEqual([
      expect.stringContaining(
        `the node sends what is for 10.244.11.4, a pod of its own, ${way}: whether the network brings it back is not known`,
      ),
    ]);
  });
});

describe('packet and check agree about', () => {
  const withRules = async (packet: typeof toService, ...lines: readonly string[]) => {
    const given = await scenario();
    given.rules('node-a').insertBefore([`-A ${lines[0]?.split(' ')[1]}`, 'KUBE-PROXY-FIREWALL'], ...lines);
    const [answer] = askNodes(packet, given.snapshot(), name => name === 'node-a');
    return answer?.outcomes ?? [];
  };

  test.each([
    ['-m limit --limit 10000/sec --limit-burst 10000 -j ACCEPT', '-j DROP'],
    ['-p tcp -m connlimit --connlimit-above 500 --connlimit-mask 32 --connlimit-saddr -j REJECT'],
  ])('limits far above what Services are asked for, which hold no packet up: %s', async (...rules) => {
    const outcomes = await withRules(toService, ...rules.map(rule => `-A FORWARD ${rule}`));
    expect(new Set(outcomes.map(({verdict}) => verdict))).toEqual(new Set(['accept']));
    const low = rules.map(rule => `-A FORWARD ${rule.replace('10000/sec', '3/min').replace('500', '5')}`);
    expect((await withRules(toService, ...low)).map(({verdict}) => verdict)).toContain('undecided');
  });

  test('source ports of what the node sends to itself: a share of its connections', async () => {
    const own = {source: '172.18.0.11', destination: '172.18.0.11', port: '10250'};
    const outcomes = await withRules(own, '-A INPUT -p tcp -m tcp --sport 1024:46000 --dport 10250 -j DROP');
    expect(outcomes.map(({verdict}) => verdict).toSorted()).toEqual(['accept', 'drop']);
  });
});

test('the reply to a client whose network an address of lo takes for the node stays there', async () => {
  const routes = [
    {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
    {dst: '10.244.11.0/24', dev: 'cni0'},
    {type: 'local', dst: '203.0.113.0/24', dev: 'lo', table: 'local', scope: 'host'},
  ];
  const rules = ['local', 'main'].map((table, at) => ({priority: at * 32_766, src: 'all', table}));
  const files = {'routes.json': JSON.stringify(routes), 'ip-rules.json': JSON.stringify(rules)};
  const from = async (source: string) =>
    new Set((await asked({source, destination: '172.18.0.11', port: '30080'}, files)).map(([verdict]) => verdict));
  expect(await from('203.0.113.9')).toEqual(new Set(['drop']));
  expect(await from('198.51.100.9')).toEqual(new Set(['accept']));
});

test('with forwarding on, or unread, packets are accepted', async () => {
  for (const sysctls of ['net.ipv4.ip_forward = 1\n', ''])
    expect(new Set((await asked(toService, {sysctls})).map(([verdict]) => verdict))).toEqual(new Set(['accept']));
});

test('a packet to an endpoint without a route is dropped, and others are accepted', async () => {
  const routes = [
    {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
    {dst: '10.244.11.0/24', dev: 'cni0'},
    {type: 'blackhole', dst: '10.244.12.0/24'},
  ];
  const rules = [{priority: 32_766, src: 'all', table: 'main'}];
  const outcomes = await asked(toService, {'routes.json': JSON.stringify(routes), 'ip-rules.json': JSON.stringify(rules)});
  expect(outcomes).toContainEqual(['drop', 'the node has no route to 10.244.12.4']);
  expect(outcomes).toContainEqual(['accept', undefined]);
});

describe('where an interface to pods', () => {
  const files = (routes: readonly object[], flags: readonly string[] = ['UP']) => ({
    'routes.json': JSON.stringify([{dst: 'default', gateway: '172.18.0.1', dev: 'eth0'}, ...routes]),
    'ip-rules.json': JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]),
    'links.json': JSON.stringify([
      {ifname: 'cali4', flags: ['UP'], promiscuity: 0, link_netnsid: 1},
      {ifname: 'cali5', flags, promiscuity: 0, link_netnsid: 2},
    ]),
  });
  const toPod = {...toService, destination: '10.244.11.5', port: '8080', source: '172.18.0.12'};
  const own = {dst: '10.244.11.5', dev: 'cali5'};

  test.each<readonly [string, readonly object[], readonly string[], string]>([
    ['has no carrier', [{...own, flags: ['linkdown']}], ['UP'], 'drop,cali5, which leads to 10.244.11.5, has no carrier'],
    [
      'is down, its pod is lost',
      [],
      [],
      'drop,the node sends what is for 10.244.11.5, a pod of its own, to the default gateway 172.18.0.1, while an interface of pods is down (cali5)',
    ],
    [
      'is there without its route, the network may bring the packet back',
      [],
      ['UP'],
      'undecided,the node sends what is for 10.244.11.5, a pod of its own, to the default gateway 172.18.0.1: whether the network brings it back is not known',
    ],
    [
      'is one of two, and has no carrier',
      [
        {
          dst: '10.244.11.0/24',
          nexthops: [
            {dev: 'cali4', flags: []},
            {dev: 'cali5', flags: ['linkdown']},
          ],
        },
      ],
      ['UP'],
      'undecided,cali5, one of the next hops to 10.244.11.5, has no carrier: what the kernel sends there is lost',
    ],
    ['is up', [own], ['UP'], 'accept,'],
  ])('%s', async (_, routes, flags, said) => {
    expect((await asked(toPod, files(routes, flags))).map(String)).toEqual([said]);
  });
});

test('a node port on 127.0.0.1 does not answer without route_localnet', async () => {
  const loopback = {source: '127.0.0.1', destination: '127.0.0.1', port: '30080'};
  const withSwitch = (value: number, ofInterface = '') =>
    asked(loopback, {sysctls: `net.ipv4.ip_forward = 1\nnet.ipv4.conf.all.route_localnet = ${value}\n${ofInterface}`});
  expect((await withSwitch(0)).map(String)).toContainEqual(expect.stringMatching(/^drop,the kernel sends nothing from a loopback address/));
  expect(new Set((await withSwitch(1)).map(([verdict]) => verdict))).toEqual(new Set(['accept']));
});

describe('a node port on a loopback address', () => {
  const on = (address: string, port = '30080') => ({source: address, destination: address, port});

  test('is said not to be served on ::1, which no proxy mode does', async () => {
    expect((await asked(on('::1', '30093'), {})).map(String)).toEqual([
      'accept,the node port 30093 is not served on a loopback address: no proxy mode has rules for node ports on ::1. Only a process of the node can answer',
    ]);
  });

  test('is said not to be served on 127.0.0.1 in nftables mode', async () => {
    expect((await asked(on('127.0.0.1'), {}, 'nftables/1.36')).map(String)).toContainEqual(
      expect.stringMatching(
        /^accept,the node port 30080 is not served on a loopback address: rules serve node ports on 127\.0\.0\.1 in iptables mode only/,
      ),
    );
  });

  test('needs no words where the port is no node port, and where it is served', async () => {
    expect(await asked(on('::1', '22'), {})).toEqual([['accept', undefined]]);
    expect(await asked(on('127.0.0.1', '22'), {}, 'nftables/1.36')).toEqual([['accept', undefined]]);
    expect((await asked(on('127.0.0.1'), {})).map(([, reason]) => reason)).not.toContainEqual(expect.stringContaining('is not served'));
  });
});
