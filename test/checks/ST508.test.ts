import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {Family} from '../../src/model/address.ts';
import {type FindingSummary, containing, scenario, type Scenario} from '../scenario.ts';

const flow = (to: string) =>
  `udp      17 25 src=10.244.13.7 dst=10.96.0.10 sport=40000 dport=53 src=${to} dst=10.244.13.7 sport=53 dport=40000 mark=0 use=1\n`;

test('reports a tracked flow to a former endpoint, with the address and the line', async () => {
  expect(await tracked(`${flow('10.244.11.9')}${flow('10.244.11.77')}`)).toEqual([
    {
      ...{code: 'ST508', severity: 'warning', node: 'node-b', family: 'IPv4', subject: 'infra/dns:dns'},
      message: containing('1 tracked UDP flow leads to 10.244.11.77:53, no endpoint of the Service (conntrack line 2)'),
    },
  ]);
});

test('shows the command that deletes the flow and no other, by family and protocol', async () => {
  const given = await scenario();
  given.file('node-b', 'conntrack', `${flow('10.244.11.9')}${flow('10.244.11.77')}`);
  expect(given.findings().find(({code}) => code === 'ST508')?.command).toBe(
    'conntrack -D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.244.11.77 --reply-port-src 53',
  );
});

test('reports a flow that began before the rules existed and was never translated', async () => {
  expect((await tracked(flow('10.96.0.10'))).map(({code, message}) => [code, message])).toEqual([
    ['ST508', containing('leads to 10.96.0.10:53 (untranslated: no rule sent it to an endpoint when it began), no endpoint')],
  ]);
});

test('stays silent for flows to endpoints', async () => {
  expect(await tracked(flow('10.244.11.9'))).toEqual([]);
});

test('stays silent for TCP connections, which keep their endpoint by design', async () => {
  expect(await tracked(flow('10.244.11.77').replace('udp      17', 'tcp      6'))).toEqual([]);
});

const connection = (state: string, expiresIn: number, to = '10.244.11.77') =>
  `tcp      6 ${expiresIn} ${state} src=10.244.13.7 dst=10.96.1.1 sport=40000 dport=80 src=${to} dst=10.244.13.7 sport=8080 dport=40000 [ASSURED] mark=0 delta-time=90 use=1\n`;

test.each([
  ['repeats its first packet to a former endpoint', connection('SYN_SENT', 100), '10.244.11.77:8080'],
  ['repeats data to a former endpoint', connection('ESTABLISHED', 280), '10.244.11.77:8080'],
  ['began before the rules were there', connection('SYN_SENT', 100, '10.96.1.1').replace('sport=8080', 'sport=80'), '10.96.1.1:80'],
])('reports a TCP connection that %s, with its client and its age', async (_, text, end) => {
  const given = await scenario();
  given.file('node-b', 'conntrack-tcp', text);
  expect(given.newFindings()).toMatchObject([
    {
      code: 'ST508',
      message: containing(`shop/web:http: 1 tracked TCP connection leads to ${end}`, 'from 10.244.13.7, the oldest for 90 s'),
    },
  ]);
});

test.each([
  ['in use', connection('ESTABLISHED', 431_990)],
  ['closing', connection('TIME_WAIT', 100)],
  ['to an endpoint', connection('SYN_SENT', 100, '10.244.11.4')],
])('stays silent for a TCP connection that is %s', async (_, text) => {
  const given = await scenario();
  given.file('node-b', 'conntrack-tcp', text);
  expect(given.newFindings()).toEqual([]);
});

test('reports flows to a Service that lost its last endpoint, which kube-proxy 1.32 and later leave alone', async () => {
  const given = await scenario();
  given.file('node-b', 'conntrack', flow('10.244.11.77'));
  given.slices('infra/dns', slice => ({...slice, endpoints: []}));
  const found = given.findings({nodes: name => name === 'node-b'}).filter(({code}) => code === 'ST508');
  expect(found.map(({message}) => message)).toEqual([expect.stringContaining('1 tracked UDP flow leads to 10.244.11.77:53')]);
});

const toHostPort = (end: string) =>
  `udp      17 25 src=10.244.13.7 dst=172.18.0.12 sport=40000 dport=8125 [UNREPLIED] src=${end} dst=10.244.13.7 sport=8125 dport=40000 mark=0 use=1\n`;

test('reports a flow from a port of the node to an address that no pod has any more, with the command that deletes it', async () => {
  const given = await scenario();
  given.file('node-b', 'conntrack', toHostPort('10.244.12.200'));
  expect(given.findings().filter(({code}) => code === 'ST508')).toMatchObject([
    {
      ...{severity: 'warning', node: 'node-b'},
      message: containing(
        'leads from port 8125 of this node to 10.244.12.200:8125',
        'of a host port is gone (conntrack line 1); from 10.244.13.7',
      ),
      command: containing('--orig-dst 172.18.0.12 --orig-port-dst 8125 --reply-src 10.244.12.200'),
    },
  ]);
});

test.each([
  ['to a pod', (given: Scenario) => given.file('node-b', 'conntrack', toHostPort('10.244.12.4'))],
  [
    'to an address outside of its pod network, as of a container of Docker',
    (given: Scenario) => given.file('node-b', 'conntrack', toHostPort('172.17.0.2')),
  ],
  [
    'to a pod that is younger than the list of pods, which a rule of its network plugin shows',
    (given: Scenario) => {
      given.file('node-b', 'conntrack', toHostPort('10.244.12.200'));
      given.rules('node-b').append('nat', '-A CNI-DN-1 -p udp -m udp --dport 8125 -j DNAT --to-destination 10.244.12.200:8125');
    },
  ],
  [
    'where only some pods were read',
    (given: Scenario) => {
      given.file('node-b', 'conntrack', toHostPort('10.244.12.200'));
      given.api(() => ({podsOf: new Set<string>()}));
    },
  ],
])('stays silent for a flow from a port of the node %s', async (_, change) => {
  const given = await scenario();
  change(given);
  expect(given.newFindings().filter(({code}) => code === 'ST508')).toEqual([]);
});

test('stays silent for flows to other addresses than those of a Service', async () => {
  expect(await tracked(flow('10.244.11.77').replaceAll('10.96.0.10', '8.8.8.8'))).toEqual([]);
});

/** `conntrack -L -p udp` on a node with 192.168.9.1 and fd09::1 whose rules translate 30053 in both families: nothing listens, so nothing is answered. */
const dualStackFlows = `udp      17 26 src=192.168.9.2 dst=192.168.9.1 sport=40001 dport=30053 [UNREPLIED] src=10.244.1.5 dst=192.168.9.2 sport=53 dport=40001 mark=0 use=1
udp      17 26 src=fd09::2 dst=fd09::1 sport=40002 dport=30053 [UNREPLIED] src=fd00:244::5 dst=fd09::2 sport=53 dport=40002 mark=0 use=1
conntrack v1.4.7 (conntrack-tools): 2 flow entries have been shown.
udp      17 26 src=fd09::2 dst=fd09::1 sport=40002 dport=30053 [UNREPLIED] src=fd00:244::5 dst=fd09::2 sport=53 dport=40002 mark=0 use=1
`;

/** The same from /proc/net/nf_conntrack. */
const dualStackFile = `ipv4     2 udp      17 26 src=192.168.9.2 dst=192.168.9.1 sport=40001 dport=30053 [UNREPLIED] src=10.244.1.5 dst=192.168.9.2 sport=53 dport=40001 mark=0 zone=0 use=2
ipv6     10 udp      17 26 src=fd09:0000:0000:0000:0000:0000:0000:0002 dst=fd09:0000:0000:0000:0000:0000:0000:0001 sport=40002 dport=30053 [UNREPLIED] src=fd00:0244:0000:0000:0000:0000:0000:0005 dst=fd09:0000:0000:0000:0000:0000:0000:0002 sport=53 dport=40002 mark=0 zone=0 use=2
`;

/** To the node itself: 30054 is answered by one of its programs, 30055 by none. */
const ownFlows = `udp      17 27 src=192.168.9.2 dst=192.168.9.1 sport=40003 dport=30054 src=192.168.9.1 dst=192.168.9.2 sport=30054 dport=40003 mark=0 use=1
udp      17 27 src=192.168.9.2 dst=192.168.9.1 sport=40004 dport=30055 [UNREPLIED] src=192.168.9.1 dst=192.168.9.2 sport=30055 dport=40004 mark=0 use=1
udp      17 28 src=fd09::2 dst=fd09::1 sport=40005 dport=30055 [UNREPLIED] src=fd09::1 dst=fd09::2 sport=30055 dport=40005 mark=0 use=1
`;

const bothEndpoints = {IPv4: '10.244.1.5', IPv6: 'fd00:244::5'};

test('stays silent for both families of a dual-stack node port', async () => {
  for (const text of [dualStackFlows, dualStackFile]) expect(await trackedFor({text, endpoints: bothEndpoints})).toEqual([]);
});

test('reports the family whose flows lead to a former endpoint, and each flow once', async () => {
  const endpoints = {...bothEndpoints, IPv6: 'fd00:244::6'};
  expect(await trackedFor({text: dualStackFlows, endpoints})).toEqual([
    {family: 'IPv6', message: containing('1 tracked UDP flow leads to [fd00:244::5]:53, no endpoint of the Service (conntrack line 2)')},
  ]);
});

test('stays silent for IPv4 flows to the node port of an IPv6-only Service', async () => {
  const endpoints = {IPv6: 'fd00:244::5'};
  expect(await trackedFor({text: dualStackFlows, endpoints})).toEqual([]);
});

test('of flows to a node port that no rule translated, those that nobody answers are reported', async () => {
  const found = (nodePort: number) => trackedFor({text: ownFlows, endpoints: bothEndpoints, nodePort});
  expect(await found(30054)).toEqual([]);
  expect(await found(30055)).toMatchObject([{family: 'IPv4', message: containing('192.168.9.1:30055 (untranslated')}, {family: 'IPv6'}]);
});

test('stays silent for addresses of the node that serve no node ports', async () => {
  const endpoints = {IPv4: '10.244.1.99'};
  const settings = 'mode: iptables\nnodePortAddresses: [172.18.0.0/16]\n';
  expect(await trackedFor({text: dualStackFlows, endpoints})).toMatchObject([{family: 'IPv4'}]);
  expect(await trackedFor({text: dualStackFlows, endpoints, settings})).toEqual([]);
});

test('stays silent for a flow that a Local policy left untranslated, and reports it where an endpoint is local', async () => {
  const text = `udp      17 26 src=192.168.9.2 dst=203.0.113.7 sport=40006 dport=53 [UNREPLIED] src=203.0.113.7 dst=192.168.9.2 sport=53 dport=40006 mark=0 use=1\n`;
  const local = {text, endpoints: bothEndpoints, policy: 'Local', externalIP: '203.0.113.7'} as const;
  expect(await trackedFor({...local, nodeName: 'node-a'})).toEqual([]);
  expect(await trackedFor({...local, nodeName: 'node-b'})).toMatchObject([{family: 'IPv4'}]);
});

test('stays silent for flows of another conntrack zone', async () => {
  const text = dualStackFile.replaceAll('zone=0', 'zone=3');
  expect(await trackedFor({text, endpoints: {IPv4: '10.244.1.99'}})).toEqual([]);
});

test('stays silent for flows to an endpoint that was removed within the grace period, and reports them afterwards', async () => {
  const given = await scenario();
  given.file('node-b', 'conntrack', flow('10.244.11.77'));
  const {api, ...snapshot} = given.snapshot();
  const now = (api.endpointSlices ?? []).find(({endpoints}) => endpoints?.some(({addresses}) => addresses?.[0] === '10.244.11.9'));
  if (now === undefined) throw new Error('the capture has no slice of infra/dns');
  const left = {addresses: ['10.244.11.77'], conditions: {ready: true}, nodeName: 'node-a'};
  const before = {...now, endpoints: [...(now.endpoints ?? []), left]};
  const leftAgo = (milliseconds: number) => {
    const at = 1_000_000;
    const changes = [{kind: 'EndpointSlice', at: at - milliseconds, before, now}] as const;
    const history = {since: 0, changes, nodes: {'node-b': {from: at, to: at + 300}}};
    return diagnose({...snapshot, api, history}, {toolVersion: '0.0.0', nodes: name => name === 'node-b'}).findings;
  };
  const codes = (findings: readonly {readonly code: string}[]) => findings.map(({code}) => code).filter(code => code === 'ST508');
  expect(codes(leftAgo(5000))).toEqual([]);
  expect(codes(leftAgo(20_000))).toEqual(['ST508']);
});

test('stays silent in nftables mode for addresses of the node other than the primary one', async () => {
  const cluster = await scenario('nftables/1.36');
  const addressInfo = ['172.18.0.11', '192.168.9.1'].map(local => ({family: 'inet', local, scope: 'global'}));
  cluster.file('node-a', 'addresses.json', JSON.stringify([{ifname: 'eth0', flags: ['UP'], addr_info: addressInfo}]));
  cluster.addService({
    metadata: {namespace: 'infra', name: 'dual'},
    spec: {
      ...{type: 'NodePort', clusterIP: '10.96.77.1', clusterIPs: ['10.96.77.1'], ipFamilies: ['IPv4']},
      ports: [{name: 'dns', protocol: 'UDP', port: 53, nodePort: 30053}],
    },
  });
  cluster.addSlice({
    metadata: {namespace: 'infra', name: 'dual-1', labels: {'kubernetes.io/service-name': 'dual'}},
    addressType: 'IPv4',
    ports: [{name: 'dns', protocol: 'UDP', port: 53}],
    endpoints: [{addresses: ['10.244.1.99'], conditions: {ready: true}}],
  });
  const toNodePort = (address: string) => {
    cluster.file('node-a', 'conntrack', dualStackFlows.replaceAll('192.168.9.1 ', `${address} `));
    return cluster.findings({nodes: name => name === 'node-a'}).filter(({code}) => code === 'ST508').length;
  };
  expect([toNodePort('172.18.0.11'), toNodePort('192.168.9.1')]).toEqual([1, 0]);
});

interface Tracked {
  /** What conntrack shows. */
  readonly text: string;
  /** By family; the Service has the families of its endpoints. */
  readonly endpoints: Readonly<Partial<Record<Family, string>>>;
  readonly nodePort?: number;
  readonly policy?: 'Local';
  readonly externalIP?: string;
  /** Where the endpoints are. */
  readonly nodeName?: string;
  /** kube-proxy's configuration. */
  readonly settings?: string;
}

/** What is said on node-b, with the addresses 192.168.9.1 and fd09::1, of a UDP Service with a node port. */
async function trackedFor({text, endpoints, nodePort = 30053, nodeName, settings, ...given}: Tracked) {
  const cluster = await scenario();
  const families = Object.keys(endpoints) as Family[];
  const addresses = families.map(family => (family === 'IPv4' ? '10.96.77.1' : 'fd00:96::1'));
  const metadata = {namespace: 'infra', name: 'dual'};
  cluster.addService({
    metadata,
    spec: {
      ...{type: 'NodePort', clusterIP: addresses[0] ?? '', clusterIPs: addresses, ipFamilies: families},
      ...(given.policy === undefined ? {} : {externalTrafficPolicy: given.policy}),
      ...(given.externalIP === undefined ? {} : {externalIPs: [given.externalIP]}),
      ports: [{name: 'dns', protocol: 'UDP', port: 53, nodePort}],
    },
  });
  for (const family of families)
    cluster.addSlice({
      metadata: {namespace: 'infra', name: `dual-${family}`, labels: {'kubernetes.io/service-name': 'dual'}},
      addressType: family,
      ports: [{name: 'dns', protocol: 'UDP', port: 53}],
      endpoints: [{addresses: [endpoints[family] ?? ''], conditions: {ready: true}, nodeName: nodeName ?? 'node-a'}],
    });
  const addressInfo = ['192.168.9.1', 'fd09::1'].map(local => ({family: local.includes(':') ? 'inet6' : 'inet', local, scope: 'global'}));
  cluster.file('node-b', 'addresses.json', JSON.stringify([{ifname: 'eth0', flags: ['UP'], addr_info: addressInfo}]));
  cluster.file('node-b', 'conntrack', text);
  if (settings !== undefined) {
    cluster.file('node-b', 'configz.json', null);
    cluster.file('node-b', 'kube-proxy-config.yaml', settings);
  }
  const found = cluster.findings({nodes: name => name === 'node-b'}).filter(({code}) => code === 'ST508');
  return found.map(({family, message}) => ({family, message}));
}

async function tracked(conntrack: string): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  given.file('node-b', 'conntrack', conntrack);
  return given.newFindings();
}
