import {expect, test} from 'vitest';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {scenario} from '../scenario.ts';

const link = (name: string, info: object, others: object = {}): object => ({
  ifname: name,
  flags: ['UP'],
  mtu: 1500,
  linkinfo: info,
  ...others,
});
const bridge = (data: object = {}): object => link('cni0', {info_kind: 'bridge', info_data: data});
const port = (name: string, data: object = {}): object =>
  link(
    name,
    {info_kind: 'veth', info_slave_kind: 'bridge', info_slave_data: {hairpin: true, isolated: false, ...data}},
    {master: 'cni0', link_netnsid: 1},
  );
const ports = (data: object = {}): readonly object[] => [bridge(), port('veth4', data), port('veth5', data)];
const switches = (on: number): string => `net.bridge.bridge-nf-call-iptables = ${on}\nnet.bridge.bridge-nf-call-ip6tables = ${on}\n`;
const table = (rule: string): string =>
  `table bridge filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy accept;\n\t\t${rule}\n\t}\n}\n`;

/** What `packet` says of a pod on a bridge and each endpoint. */
async function asked(source: string, links: readonly object[], files: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const given = await scenario();
  const routes = [
    {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
    {dst: '10.244.11.0/24', dev: 'cni0'},
  ];
  const all = {'links.json': JSON.stringify(links), 'routes.json': JSON.stringify(routes), 'ip-rules.json': usual, ...files};
  for (const [name, content] of Object.entries(all)) given.file('node-a', name, content);
  const [answer] = askNodes({source, destination: 'shop/web', port: '80'}, given.snapshot(), name => name === 'node-a');
  return answer?.outcomes.map(({verdict, destination, reason = ''}) => `${destination} ${verdict} ${reason}`.trim()).sort() ?? [];
}

const usual = JSON.stringify([{priority: 32_766, src: 'all', table: 'main'}]);

test.each<readonly [title: string, links: readonly object[], files: Readonly<Record<string, string>>, source: string, said: RegExp | null]>(
  [
    ['the bridge bypasses rules', ports(), {sysctls: switches(0)}, '10.244.11.9', /drop net\.bridge\.bridge-nf-call-iptables is 0/],
    ['the bridge asks for rules itself', [bridge({nf_call_iptables: 1}), port('veth4')], {sysctls: switches(0)}, '10.244.11.9', null],
    ['bridges show packets to rules', ports(), {sysctls: switches(1)}, '10.244.11.9', null],
    [
      'ports are isolated',
      ports({isolated: true}),
      {sysctls: switches(1)},
      '10.244.11.9',
      /drop the bridge sends nothing from one isolated port/,
    ],
    ['its own is isolated', ports({isolated: true}), {sysctls: switches(1)}, '10.244.11.4', /drop .*isolated port back to it \(2 of 2/],
    ['one is', [...ports(), port('veth6', {isolated: true})], {sysctls: switches(1)}, '10.244.11.9', /undecided .*1 of 3 ports of cni0/],
    ['hairpin is off', ports({hairpin: false}), {sysctls: switches(1)}, '10.244.11.4', /drop .*hairpin_mode is 0 \(2 of 2 ports of cni0\)/],
    ['it is off for others', ports({hairpin: false}), {sysctls: switches(1)}, '10.244.11.9', null],
    [
      'a rule of bridges drops',
      ports(),
      {sysctls: switches(1), 'nft.txt': table('ip daddr 10.244.11.4 drop')},
      '10.244.11.9',
      /undecided a rule of table bridge/,
    ],
    ['it is about DHCP', ports(), {sysctls: switches(1), 'nft.txt': table('udp dport 67 drop')}, '10.244.11.9', null],
  ],
)('a packet from a pod to another, where %s', async (_, links, files, source, said) => {
  const given = await asked(source, links, files);
  const here = given.filter(line => line.startsWith('10.244.11.4:'));
  expect(here).toEqual([said === null ? '10.244.11.4:8080 accept' : expect.stringMatching(said)]);
});

test.each<readonly [title: string, hairpin: boolean, on: number, source: string, verdict: string]>([
  ['is dropped by the bridge that is the interface of the node', false, 1, '203.0.113.9', 'drop'],
  ['goes back out by a port in hairpin mode', true, 1, '203.0.113.9', 'accept'],
  ['is routed where bridges show rules nothing', false, 0, '203.0.113.9', 'accept'],
  ['of a pod of the node comes by no port of that bridge', false, 1, '10.244.11.9', 'accept'],
])('a packet that DNAT sends to another node %s', async (_, hairpin, on, source, verdict) => {
  const given = await scenario();
  const uplink = link('enp1', {info_slave_kind: 'bridge', info_slave_data: {hairpin}}, {master: 'eth0'});
  given.file('node-a', 'links.json', JSON.stringify([link('eth0', {info_kind: 'bridge'}), uplink]));
  given.file('node-a', 'routes.json', JSON.stringify([{dst: 'default', gateway: '172.18.0.1', dev: 'eth0'}]));
  given.file('node-a', 'ip-rules.json', usual);
  given.file('node-a', 'sysctls', switches(on));
  const asked = {source, destination: '172.18.0.11', port: '30080'};
  const [answer] = askNodes(asked, given.snapshot(), name => name === 'node-a');
  const there = answer?.outcomes.filter(({destination}) => destination?.startsWith('10.244.12.') === true);
  expect(new Set(there?.map(outcome => outcome.verdict))).toEqual(new Set([verdict]));
});

test('a rule about the port of servers does not leave the answer open, and its class of senders is named', async () => {
  const given = await scenario();
  given.file(
    'node-a',
    'nft.txt',
    'table ip a {\n\tchain f {\n\t\ttype filter hook forward priority 0; policy accept;\n\t\ttcp sport 8080 drop\n\t}\n}\n',
  );
  const ask = (more: object) =>
    askNodes({source: '10.244.12.9', destination: '10.244.12.4', port: '80', ...more}, given.snapshot(), name => name === 'node-a')[0];
  expect(ask({})?.outcomes.map(({verdict}) => verdict)).toEqual(['accept']);
  expect(ask({})?.senders).toMatch(/source port 0-8079, 8081-65535$/);
  expect(ask({'source-port': 8080})?.outcomes.map(({verdict}) => verdict)).toEqual(['drop']);
});

test('an endpoint has no address of the node, also where the interfaces of the node were not read', async () => {
  const given = await scenario();
  given.file('node-a', 'addresses.json', null);
  given.file('node-a', 'nft.txt', 'table ip a {\n\tchain f {\n\t\ttype filter hook forward priority 0; policy drop;\n\t}\n}\n');
  const [answer] = askNodes({source: '10.244.11.9', destination: 'shop/web', port: '80'}, given.snapshot(), name => name === 'node-a');
  expect(new Set(answer?.outcomes.map(({verdict}) => verdict))).toEqual(new Set(['drop']));
});

test.each([
  [undefined, 'reject'],
  ['nftables/1.36', 'reject'],
  // kube-ipvs0 may have it.
  ['ipvs/1.36', 'undecided'],
])(
  'a cluster IP is no address of the node but in IPVS mode, where the interfaces of the node were not read (%s)',
  async (capture, verdict) => {
    const given = await scenario(capture);
    for (const file of ['addresses.json', 'kube-ipvs0.json']) given.file('node-a', file, null);
    const [answer] = askNodes({source: '10.244.11.9', destination: 'shop/empty', port: '80'}, given.snapshot(), name => name === 'node-a');
    expect(answer?.outcomes.map(outcome => outcome.verdict)).toEqual([verdict]);
  },
);
