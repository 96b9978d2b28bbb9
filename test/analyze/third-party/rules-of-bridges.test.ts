import {expect, test} from 'vitest';
import {scenario} from '../../scenario.ts';

const port = {ifindex: 9, ifname: 'veth9', flags: ['UP'], mtu: 1500, master: 'cni0', link_netnsid: 0, linkinfo: {info_kind: 'veth'}};
const bridge = {ifindex: 8, ifname: 'cni0', flags: ['UP'], mtu: 1500, linkinfo: {info_kind: 'bridge'}};

/** The findings about rules of other programs, on a node with one table of bridges. */
async function found(
  chain: string,
  rule: object | readonly object[] | null,
  policy: string,
  links: readonly object[],
): Promise<readonly string[]> {
  const given = await scenario('healthy/1.36-iptables');
  const table = {family: 'bridge', table: 'filter'};
  const base = {chain: {...table, name: chain, handle: 1, type: 'filter', hook: 'forward', prio: -200, policy}};
  const rules = rule === null ? [] : [{rule: {...table, chain, handle: 2, expr: [rule].flat()}}];
  const listed = [{metainfo: {version: '1.0.6'}}, {table: {family: 'bridge', name: 'filter', handle: 1}}, base, ...rules];
  given.file('node-a', 'nft.json', JSON.stringify({nftables: listed}));
  given.file('node-a', 'links.json', JSON.stringify(links));
  const findings = given.findings({nodes: node => node === 'node-a'}).filter(({code}) => /^ST[34]/.test(code));
  return findings.map(({code, severity, message}) => `${code} ${severity} ${message}`);
}

test('a rule of a bridge that drops is in doubt where pods are on a bridge', async () => {
  const text = /^ST403 warning a rule of table bridge filter drops frames on bridges, and rules of bridges are not evaluated/;
  expect(await found('FORWARD', {drop: null}, 'accept', [bridge, port])).toEqual([expect.stringMatching(text)]);
  expect(await found('FORWARD', null, 'drop', [bridge, port])).toEqual([
    expect.stringMatching(/^ST403 warning a policy of table bridge filter/),
  ]);
});

test('a rule of the bridge of the node itself informs', async () => {
  const text = /^ST403 info a rule of table bridge filter drops frames .*: the outcome for packets that pass eth0 is undetermined/;
  expect(await found('FORWARD', {drop: null}, 'accept', [{...bridge, ifname: 'eth0'}])).toEqual([expect.stringMatching(text)]);
});

const match = (left: object, right: string): object => ({match: {op: '==', left, right}});
const field = (protocol: string, name: string): object => ({payload: {protocol, field: name}});

test('a rule that drops ARP informs', async () => {
  const texts = await Promise.all(
    [match(field('ether', 'type'), 'arp'), match(field('arp', 'operation'), 'request')].map(one =>
      found('FORWARD', [one, {drop: null}], 'accept', [bridge, port]),
    ),
  );
  for (const text of texts) expect(text).toEqual([expect.stringMatching(/^ST403 info a rule of table bridge filter drops ARP on bridges/)]);
});

test.each([
  ['accepts', 'FORWARD', {accept: null}, [bridge, port]],
  ['drops, and no pod is on a bridge', 'FORWARD', {drop: null}, [bridge]],
  ['is about DHCP', 'FORWARD', [match(field('udp', 'dport'), '67'), {drop: null}], [bridge, port]],
  ['is about broadcasts', 'FORWARD', [match({meta: {key: 'pkttype'}}, 'broadcast'), {drop: null}], [bridge, port]],
  ['is the one by which an old kubelet drops copies of packets', 'KUBE-DEDUP', {drop: null}, [bridge, port]],
] as const)('nothing is said of a rule that %s', async (_, chain, rule, links) => {
  expect(await found(chain, rule, 'accept', links)).toEqual([]);
});
