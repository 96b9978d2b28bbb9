import {expect, test} from 'vitest';
import {parseConntrack} from '../../src/parse/conntrack.ts';
import {readFixture} from '../fixtures.ts';

test('a capture is read line by line', () => {
  const text = readFixture('captures/healthy/1.36-iptables/nodes/node-a/conntrack').toString();
  const connections = [...parseConntrack(text, 'tcp')];
  expect(connections).toHaveLength(text.trim().split('\n').length);
  expect(connections[0]).toEqual({
    protocol: 'tcp',
    original: {source: '127.0.0.1', destination: '127.0.0.1', sourcePort: 32850, destinationPort: 10249},
    reply: {source: '127.0.0.1', destination: '127.0.0.1', sourcePort: 10249, destinationPort: 32850},
    ...{state: 'TIME_WAIT', expiresIn: 106, age: null, isAnswered: true, line: 1},
  });
  expect([...parseConntrack(text, 'udp')]).toEqual([]);
});

test('a translated connection has its endpoint in the reply tuple', () => {
  // `conntrack -L` and /proc/net/nf_conntrack, with and without an answer, with and without counters.
  const lines = [
    'udp      17 29 src=10.244.1.5 dst=10.96.0.10 sport=40000 dport=53 [UNREPLIED] src=10.244.2.7 dst=10.244.1.5 sport=53 dport=40000 mark=0 use=1',
    'conntrack v1.4.7 (conntrack-tools): 2 flow entries have been shown.',
    'ipv4     2 udp      17 29 src=10.244.1.5 dst=10.96.0.10 sport=40001 dport=53 packets=1 bytes=60 src=10.244.2.8 dst=10.244.1.5 sport=53 dport=40001 packets=1 bytes=90 [ASSURED] mark=0 zone=0 use=2',
  ];
  expect([...parseConntrack(lines.join('\n'), 'udp')]).toMatchObject([
    {
      original: {destination: '10.96.0.10', destinationPort: 53},
      reply: {source: '10.244.2.7', sourcePort: 53},
      expiresIn: 29,
      state: null,
      isAnswered: false,
      line: 1,
    },
    {original: {destination: '10.96.0.10', destinationPort: 53}, reply: {source: '10.244.2.8', sourcePort: 53}, line: 3},
  ]);
});

test('connections of other protocols, or without ports, are skipped', () => {
  const lines = [
    'icmp     1 29 src=10.0.0.1 dst=10.0.0.2 type=8 code=0 id=1 src=10.0.0.2 dst=10.0.0.1 type=0 code=0 id=1 mark=0 use=1',
    'tcp      6 100 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2',
    'udplite  136 29 src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1 mark=0 use=1',
  ];
  for (const protocol of ['icmp', 'tcp', 'udp']) expect([...parseConntrack(lines.join('\n'), protocol)]).toEqual([]);
});

test('connections behind a flood of short lines are read without an array of these', () => {
  const flow =
    'udp      17 29 src=10.244.1.5 dst=10.96.0.10 sport=40000 dport=53 src=10.244.2.7 dst=10.244.1.5 sport=53 dport=40000 mark=0 use=1';
  const connections = parseConntrack(`${flow}\r\n${'x 0\n'.repeat(1000)}\n${flow}`, 'udp');
  expect([...connections].map(({line, reply}) => [line, reply.destinationPort])).toEqual([
    [1, 40000],
    [1003, 40000],
  ]);
});
