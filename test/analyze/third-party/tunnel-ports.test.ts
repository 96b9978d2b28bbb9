import {expect, test} from 'vitest';
import {kernel} from '../../incidents/changes.ts';
import {containing, findingsOf, scenario} from '../../scenario.ts';

const input = (last: string, ...first: readonly string[]) =>
  [...first, `-A INPUT -p udp -m udp --dport 8472 -j ${last}`].map(rule => ['filter', rule] as const);

async function found(rules: readonly (readonly [string, string])[], parts: Parameters<typeof kernel>[1] = {}) {
  const given = await scenario();
  kernel(given, parts);
  const dump = given.rules('node-a');
  for (const [table, rule] of rules) dump.append(table, rule);
  return given.newFindings().flatMap(({code, message}) => (code === 'ST402' ? [message] : []));
}

test('a rule that stops the tunnel of all other nodes is reported', async () => {
  expect(await found(input('DROP'))).toEqual([
    containing('packets that carry those of pods from other nodes (node-b, node-c) to flannel.1, UDP 8472, are dropped'),
  ]);
});

test('a rule that stops the tunnel to all other nodes is reported, with the Services that need it', async () => {
  const given = await scenario();
  kernel(given, {});
  given.rules('node-a').append('filter', '-A OUTPUT -p udp -m udp --dport 8472 -j REJECT');
  const [finding] = findingsOf(given.snapshot()).filter(({code, message}) => code === 'ST402' && message.startsWith('packets that carry'));
  expect(finding?.message).toContain(
    'packets that carry those of pods to other nodes (node-b, node-c) by flannel.1, UDP 8472, are refused by a third-party rule: pods of this node and of other nodes do not reach each other, nor get an answer',
  );
  expect(finding?.affects).toContainEqual({namespace: 'shop', name: 'web', ports: ['http']});
});

test.each([
  ['the nodes are let in', input('DROP', '-A INPUT -s 172.18.0.0/16 -j ACCEPT')],
  ['a node is let in', input('DROP', '-A INPUT -s 172.18.0.12/32 -j ACCEPT')],
  ['it is about another interface', [['filter', '-A INPUT -i eth1 -p udp -m udp --dport 8472 -j DROP']] as const],
  ['its match is not known', [['filter', '-A INPUT -p udp -m udp --dport 8472 -m bpf --object-pinned /x -j DROP']] as const],
])('nothing is reported where %s', async (_, rules) => {
  expect(await found(rules)).toEqual([]);
});

test('nothing is reported of a tunnel that no route uses', async () => {
  const given = await scenario();
  kernel(given, {});
  given.file('node-a', 'routes.json', JSON.stringify([{dst: 'default', gateway: '172.18.0.1', dev: 'eth0'}]));
  given.rules('node-a').append('filter', '-A INPUT -p udp -m udp --dport 8472 -j DROP');
  expect(given.newFindings().filter(({code}) => code === 'ST402')).toEqual([]);
});
