import {expect, test} from 'vitest';
import {askNodes} from '../../../src/run/packet/packet-flags.ts';
import {scenario, type Scenario} from '../../scenario.ts';

/** node-a of a cluster of both families, whose table filter has these rules of IPv6 in INPUT. */
async function withRules(...rules: readonly string[]): Promise<Scenario> {
  const given = await scenario();
  const own = [
    {local: '172.18.0.11', prefixlen: 16},
    {local: 'fd00:172:18::11', prefixlen: 64},
  ];
  given.file('node-a', 'addresses.json', JSON.stringify([{ifname: 'lo'}, {ifname: 'eth0', addr_info: own}]));
  given.nodeObject('node-a', node => withAddress(node, 'fd00:172:18::11'));
  given.nodeObject('node-b', node => withAddress(node, 'fd00:172:18::12'));
  const dump = given.rules('node-a', 'ip6tables-save');
  for (const rule of rules) dump.append('filter', `-A INPUT ${rule}`);
  return given;
}

type NodeObject = Parameters<Parameters<Scenario['nodeObject']>[1]>[0];

function withAddress(node: NodeObject, address: string): NodeObject {
  return {...node, status: {...node.status, addresses: [...(node.status?.addresses ?? []), {type: 'InternalIP', address}]}};
}

const said = (given: Scenario): readonly string[] =>
  given
    .newFindings({nodes: name => name === 'node-a'})
    .filter(({message}) => /neighbor/.test(message))
    .map(({code, severity, message}) => `${code} ${severity} ${message}`);

test('a rule that drops what answers for neighbors is a warning', async () => {
  const effect = 'are dropped by a third-party rule: but for permanent entries, the node does not find nodes, pods and clients there';
  const answers = `ST402 warning neighbor advertisements (ICMPv6 type 136) that arrive (on eth0) ${effect}`;
  expect(said(await withRules('-p ipv6-icmp -m icmp6 --icmpv6-type 136 -j DROP'))).toEqual([expect.stringContaining(answers)]);
  expect(said(await withRules('-p ipv6-icmp -j DROP'))).toEqual([expect.stringMatching(/type 136.*type 135.* that arrive \(on eth0\)/)]);
});

test('a rule that drops what asks for the node is told from it', async () => {
  const found = said(await withRules('-i eth0 -p ipv6-icmp -m icmp6 --icmpv6-type neighbour-solicitation -j DROP'));
  expect(found).toEqual([expect.stringContaining('the node is not found by nodes, pods and clients there')]);
});

test.each([
  [['-p ipv6-icmp -m icmp6 --icmpv6-type 135 -j ACCEPT', '-p ipv6-icmp -m icmp6 --icmpv6-type 136 -j ACCEPT', '-p ipv6-icmp -j DROP']],
  [['-p ipv6-icmp -m hl --hl-eq 255 -j ACCEPT', '-p ipv6-icmp -j DROP']],
  [['-s fe80::/10 -p ipv6-icmp -j ACCEPT', '-p ipv6-icmp -j DROP']],
  [['-p ipv6-icmp -m icmp6 --icmpv6-type 128 -j DROP']],
  [['-i wg0 -p ipv6-icmp -j DROP']],
])('rules that let some of them through are none: %j', async rules => {
  expect(said(await withRules(...rules))).toEqual([]);
});

test('packet leaves open whether the kernel finds the neighbor', async () => {
  const given = await withRules('-p ipv6-icmp -m icmp6 --icmpv6-type 136 -j DROP');
  const asked = {source: 'fd00:172:18::11', destination: 'fd00:172:18::12', port: '80', node: 'node-a'};
  const [answer] = askNodes(asked, given.snapshot(), name => name === 'node-a');
  expect(answer?.outcomes.map(({verdict, reason}) => `${verdict} ${reason}`)).toEqual([
    expect.stringMatching(
      /^undecided "-A INPUT .*136.* that arrive: by eth0 the kernel finds only neighbors that it has permanent entries for/,
    ),
  ]);
});

test('packet leaves open whether a neighbor finds the node, to which it answers', async () => {
  const given = await withRules();
  given.rules('node-a', 'ip6tables-save').append('filter', '-A OUTPUT -p ipv6-icmp -m icmp6 --icmpv6-type 136 -j DROP');
  const asked = {source: 'fd00:172:18::11', destination: 'fd00:172:18::12', port: '80', node: 'node-a'};
  const [answer] = askNodes(asked, given.snapshot(), name => name === 'node-a');
  expect(answer?.outcomes.map(({verdict, reason}) => `${verdict} ${reason}`)).toEqual([
    expect.stringMatching(/^undecided "-A OUTPUT .*136.* that leave: by eth0 the node is found only by neighbors that know it/),
  ]);
});
