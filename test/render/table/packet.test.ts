import {readFileSync} from 'node:fs';
import {describe, expect, test} from 'vitest';
import type {PacketAnswer} from '../../../src/analyze/packet-query.ts';
import {askNodes} from '../../../src/run/packet/packet-flags.ts';
import {packetRenderers} from '../../../src/render/table/packet.ts';
import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {capturePath, snapshotOf} from '../../fixtures.ts';
import {hostile, plain} from '../report.ts';

const toWeb = {source: '10.244.11.20', destination: 'shop/web', namespace: 'shop'};

function linesOf(snapshot: Snapshot, node: string, flags: object = toWeb, width = 200): readonly string[] {
  const answers = askNodes(flags as Parameters<typeof askNodes>[0], snapshot, name => name === node);
  return packetRenderers.tree(answers, {...plain, width}).split('\n');
}

describe('the place of each rule on the path of a packet', () => {
  test('is the chain in nftables mode, with the chain that an element of a map jumps to, and no line number', async () => {
    const lines = linesOf(await snapshotOf('nftables/1.36'), 'node-b');
    expect(lines.slice(1, 6)).toEqual([
      '├─ 33.3% accepted 10.244.11.4:8080',
      '│    ip kube-proxy filter-prerouting-pre-dnat: ct state new jump firewall-check',
      '│    ip kube-proxy nat-prerouting: jump services',
      '│    ip kube-proxy services: ip daddr . meta l4proto . th dport vmap @service-ips → service-KHN6ECMT-shop/web/tcp/http',
      expect.stringMatching(/^│ {4}ip kube-proxy service-KHN6ECMT-shop\/web\/tcp\/http: meta l4proto tcp dnat ip to numgen random mod 3/),
    ]);
    expect(lines.join('\n')).not.toMatch(/ip kube-proxy[^:]*:\d/);
  });

  test('is the line of a pasted nft list ruleset', async () => {
    const pasted = await readBundle(`${capturePath('nftables/1.36')}/nodes/node-b/nft.txt`);
    const flags = {source: '10.244.11.20', destination: '10.96.1.1', port: '80', 'local-address': ['172.18.0.12']};
    const text = readFileSync(`${capturePath('nftables/1.36')}/nodes/node-b/nft.txt`, 'utf8').split('\n');
    const [, chain = '', line = ''] = /ip kube-proxy (\S+?):(\d+): jump services/.exec(linesOf(pasted, 'nft.txt', flags).join('\n')) ?? [];
    expect(chain).toBe('nat-prerouting');
    expect(text[Number(line) - 1]?.trim()).toBe('jump services');
  });

  test('is the virtual server and the real server in IPVS mode', async () => {
    const lines = linesOf(await snapshotOf('ipvs/1.36'), 'node-a');
    expect(lines).toContain('│    ipvs -A -t 10.96.1.1:80 -s rr');
    expect(lines).toContain('│    ipvs -a -t 10.96.1.1:80 -r 10.244.11.4:8080 -m -w 1');
  });

  test('is the line of the dump in iptables mode', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const lines = linesOf(snapshot, 'node-c');
    const [, number = '', rule = ''] = /nat:(\d+) (-A KUBE-SVC-\S+ .*)$/m.exec(lines.join('\n')) ?? [];
    const dump = snapshot.nodes
      .find(({name}) => name === 'node-c')
      ?.read('iptables-save')
      ?.toString()
      .split('\n');
    expect(dump?.[Number(number) - 1]).toBe(rule);
  });
});

test('no line is wider than the terminal, except for long words', async () => {
  for (const [capture, node] of [
    ['nftables/1.36', 'node-b'],
    ['ipvs/1.36', 'node-a'],
  ] as const) {
    for (const width of [80, 120]) {
      for (const line of linesOf(await snapshotOf(capture), node, toWeb, width)) expect(line.length).toBeLessThanOrEqual(width + 2);
    }
  }
});

test('a rule is escaped', () => {
  const rule = {table: hostile.escape, chain: hostile.c1, line: 3, text: hostile.newline};
  const answer: PacketAnswer = {
    node: 'node-a',
    query: {family: 'IPv4', source: '10.0.0.1', destination: '10.0.0.2', port: 80, protocol: 'TCP', inInterface: null},
    outcomes: [{verdict: 'drop', destination: null, probability: 1, masquerade: false, path: [rule]}],
  };
  const text = packetRenderers.tree([answer], {...plain, color: true});
  for (const part of [hostile.escape, hostile.c1]) expect(text).not.toContain(part);
});
