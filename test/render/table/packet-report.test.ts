import {readFileSync} from 'node:fs';
import {describe, expect, test} from 'vitest';
import type {PacketAnswer} from '../../../src/analyze/packet-query.ts';
import {askNodes} from '../../../src/run/packet/packet-flags.ts';
import {packetRenderers} from '../../../src/render/table/packet-report.ts';
import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import type {Snapshot} from '../../../src/model/snapshot.ts';
import {capturePath, snapshotOf, withFiles} from '../../fixtures.ts';
import {hostile, plain} from '../report.ts';

const toWeb = {source: '10.244.11.20', destination: 'shop/web', namespace: 'shop'};

function linesOf(snapshot: Snapshot, node: string, flags: object = toWeb, width = 200): readonly string[] {
  const answers = askNodes(flags as Parameters<typeof askNodes>[0], snapshot, name => name === node);
  return packetRenderers.tree(answers, {...plain, width}).split('\n');
}

describe('the place of each rule on the path of a packet', () => {
  test('is the chain in nftables mode, with the chain that an element of a map jumps to, and no line number', async () => {
    const lines = linesOf(await snapshotOf('nftables/1.36'), 'node-b');
    // The endpoint is picked by one rule, so that all rules are those of all outcomes.
    expect(lines.filter(line => /^[├└]/.test(line))).toEqual([
      '├─ 33.3% accepted 10.244.11.4:8080',
      '├─ 33.3% accepted 10.244.11.5:8080',
      '└─ 33.3% accepted 10.244.12.4:8080',
    ]);
    expect(lines.slice(1, 5)).toEqual([
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

test('a virtual server whose real servers all have the weight 0 refuses the packet, and the first line says so', async () => {
  const {nodes, ...rest} = await snapshotOf('ipvs/1.36');
  const drained = nodes.map(node =>
    withFiles(node, {
      'ipvsadm-save': (node.read('ipvsadm-save')?.toString() ?? '').replaceAll(/^(-a -t 10\.96\.1\.1:80 .*) -w 1$/gm, '$1 -w 0'),
    }),
  );
  expect(linesOf({...rest, nodes: drained}, 'node-a')[0]).toMatch(/ refused: no real server of 10\.96\.1\.1:80 takes connections$/);
});

test('rules that are left over for a Service that was deleted are told as those of no Service', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const {services} = snapshot.api;
  const deleted = {...snapshot, api: {...snapshot.api, services: services?.filter(({metadata}) => metadata.name !== 'web') ?? null}};
  const toAddress = {source: '10.244.11.20', destination: '10.96.1.1', port: '80'};
  const [first] = linesOf(deleted, 'node-a', toAddress);
  expect(first).toBe('node-a: TCP 10.244.11.20 → 10.96.1.1:80 (of no Service)  3 endpoints, a third each');
  expect(linesOf(snapshot, 'node-a', toAddress)[0]).toContain('10.96.1.1:80 (shop/web:http)  ');
});

test('a packet that both backends of iptables translate has no certain outcome', async () => {
  const lines = linesOf(await snapshotOf('faults/split-brain'), 'node-c', toWeb, Infinity);
  expect(lines[1]).toBe(
    '└─ undetermined: rules of two backends translate the packet: 10.244.11.4:8080, 10.244.11.5:8080, 10.244.12.4:8080 if the hook of iptables-nft runs first, 10.244.99.99:8080 if the hook of iptables-legacy runs first',
  );
  const other = linesOf(await snapshotOf('faults/split-brain'), 'node-c', {...toWeb, destination: 'shop/nodeport'});
  expect(other[0]).toMatch(/ \(shop\/nodeport:http\) {2}3 endpoints, a third each$/);
});

describe('a tracked flow of the same addresses', () => {
  const asked = {source: 'shop/web-3', destination: 'infra/dns', port: '53', protocol: 'udp'};
  const flow = (end: string, source = '10.244.12.4') =>
    `udp      17 25 src=${source} dst=10.96.0.10 sport=40000 dport=53 src=${end} dst=${source} sport=53 dport=40000 [ASSURED] mark=0 use=1\n`;
  async function answer(conntrack: string, flags: object = asked): Promise<readonly string[]> {
    const {nodes, ...rest} = await snapshotOf('healthy/1.36-iptables');
    return linesOf({...rest, nodes: nodes.map(node => withFiles(node, {conntrack}))}, 'node-b', flags);
  }

  test('that keeps sending to a former endpoint is told in the first line and below', async () => {
    const lines = await answer(flow('10.244.12.99'));
    expect(lines[0]).toMatch(/2 endpoints, half each; from source port 40000 still to 10\.244\.12\.99:53, by a tracked flow$/);
    expect(lines.join('\n')).toContain('packets from source port 40000 belong to the flow on line 1 of conntrack');
  });

  test('decides if its source port is asked for', async () => {
    const [first] = await answer(flow('10.244.12.99'), {...asked, 'source-port': 40000});
    expect(first).toMatch(/undetermined: sent to 10\.244\.12\.99:53, where the tracked flow on line 1 leads$/);
  });

  test.each([
    ['leads where the rules lead', flow('10.244.11.9')],
    ['is of another client', flow('10.244.12.99', '10.244.12.5')],
  ])('is not told if it %s', async (_, conntrack) => {
    expect((await answer(conntrack))[0]).toMatch(/2 endpoints, half each$/);
  });
});

test('the first line of an undetermined outcome names the rule that decides, or what was not read', async () => {
  const {nodes, ...rest} = await snapshotOf('healthy/1.36-iptables');
  const first = (change: (dump: string) => string) => {
    const changed = nodes.map(node => withFiles(node, {'iptables-save': change(node.read('iptables-save')?.toString() ?? '')}));
    return linesOf({...rest, nodes: changed}, 'node-a')[0];
  };
  const limit = '-A FORWARD -p tcp -m hashlimit --hashlimit-above 10/sec --hashlimit-mode srcip --hashlimit-name x -j DROP';
  expect(first(dump => dump.replace('-A FORWARD', `${limit}\n-A FORWARD`))).toMatch(
    /undetermined: whether line \d+, DROP of FORWARD, matches is not known$/,
  );
  expect(first(dump => dump.slice(0, dump.indexOf('-A KUBE-SERVICES -d 10.96.1.1/32')))).toMatch(
    /undetermined: the dump was truncated before the end of chain KUBE-SERVICES$/,
  );
});

test('a packet whose source address a rule of another program replaces is answered, on one node and on several', async () => {
  const {nodes, ...rest} = await snapshotOf('healthy/1.36-iptables');
  const hook = '-A POSTROUTING -m comment --comment "kubernetes postrouting rules"';
  const changed = nodes.map(node => {
    const dump = node.read('iptables-save')?.toString() ?? '';
    return withFiles(node, {
      'iptables-save': dump.replace(hook, `-A POSTROUTING -s 10.244.0.0/16 -j SNAT --to-source 172.18.0.12\n${hook}`),
    });
  });
  const answers = askNodes(toWeb as Parameters<typeof askNodes>[0], {...rest, nodes: changed}, () => true);
  expect(packetRenderers.tree(answers, {...plain, width: 200})).toContain('├─ 33.3% accepted 10.244.11.4:8080, masqueraded');
});

describe('a packet to a Service that reaches none of its endpoints is not called accepted', () => {
  const answerOf = async (capture: string, node: string, flags: object = toWeb) => {
    const snapshot = await snapshotOf(capture);
    return {
      lines: linesOf(snapshot, node, flags),
      outcomes: askNodes(flags as Parameters<typeof askNodes>[0], snapshot, name => name === node)[0]?.outcomes,
    };
  };

  test.each([
    ['faults/nat-flushed', 'node-a'],
    ['faults/no-prerouting-hook', 'node-b'],
  ])('where no rule translates its cluster IP: %s', async (capture, node) => {
    const {lines, outcomes} = await answerOf(capture, node);
    expect(lines[0]).toBe(`${node}: TCP 10.244.11.20 → 10.96.1.1:80 (shop/web:http)  reaches no endpoint`);
    expect(lines[1]).toBe(
      '└─ reaches no endpoint of shop/web:http: no rule sends 10.96.1.1:80 to an endpoint, and no host has this address',
    );
    expect(outcomes?.map(({verdict, destination}) => [verdict, destination])).toEqual([['drop', null]]);
  });

  test('where its node port is not translated, and a process of the node can answer', async () => {
    const flags = {source: '203.0.113.9', destination: '172.18.0.12', port: '30080'};
    const {lines, outcomes} = await answerOf('faults/no-prerouting-hook', 'node-b', flags);
    expect(lines[1]).toBe(
      '└─ reaches no endpoint of shop/nodeport:http: no rule sends 172.18.0.12:30080 to an endpoint, and only a process of the node itself can answer',
    );
    expect(outcomes?.[0]?.verdict).toBe('undecided');
  });

  test('where a rule sends it to an address that is none of its endpoints', async () => {
    const {lines, outcomes} = await answerOf('faults/wrong-dnat', 'node-c', {...toWeb, destination: 'shop/manual'});
    expect(lines.filter(line => /^[├└]/.test(line))).toContain('├─ 50% sent to 192.0.2.66:5432: no endpoint of shop/manual:db');
    expect(outcomes?.map(({verdict, destination}) => [verdict, destination])).toContainEqual(['accept', '192.0.2.66:5432']);
  });
});

test('no line is wider than the terminal, except for long words', async () => {
  for (const [capture, node] of [
    ['nftables/1.36', 'node-b'],
    ['ipvs/1.36', 'node-a'],
    ['faults/nat-flushed', 'node-a'],
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

const nftReject = {table: 'ip kube-proxy', chain: 'reject-chain', line: 0, text: 'reject'};

describe('the first line is one answer', () => {
  const query: PacketAnswer['query'] = {
    ...{family: 'IPv4', source: '10.0.0.1', destination: '10.0.0.2', port: 80, protocol: 'TCP', inInterface: null},
  };
  const rule = {table: 'filter', chain: 'DOCKER-USER', line: 27, text: '-A DOCKER-USER -j DROP'};
  const to = (destination: string, probability: number, masquerade = false) =>
    ({verdict: 'accept', destination, probability, masquerade, path: []}) as const;
  const drop = {verdict: 'drop', destination: null, probability: 1, masquerade: false, path: [rule]} as const;
  const firstLine = (...answers: readonly PacketAnswer['outcomes'][]) =>
    packetRenderers
      .tree(
        answers.map((outcomes, at) => ({node: `node-${at}`, query, outcomes})),
        {...plain, width: 200},
      )
      .split('\n')[0];

  test.each<[string, PacketAnswer['outcomes']]>([
    ['sent to 10.1.0.1:80, masqueraded', [to('10.1.0.1:80', 1, true)]],
    ['2 endpoints, half each, 1 of them masqueraded', [to('10.1.0.1:80', 0.5, true), to('10.1.0.2:80', 0.5)]],
    ['2 endpoints, 10% to 90% each', [to('10.1.0.1:80', 0.9), to('10.1.0.2:80', 0.1)]],
    ['dropped by line 27, DROP of DOCKER-USER', [drop]],
    ['dropped by the policy of filter/FORWARD', [{...drop, path: [], policy: 'filter/FORWARD'}]],
    ['dropped: net.ipv4.ip_forward is 0', [{...drop, reason: 'net.ipv4.ip_forward is 0'}]],
    ['refused by a rule of ip kube-proxy reject-chain', [{...drop, verdict: 'reject', path: [nftReject]}]],
    ['dropped on node-x by line 27, DROP of DOCKER-USER', [{...drop, path: [], onward: {node: 'node-x', path: [rule]}}]],
    ['the reply is dropped by line 27, DROP of DOCKER-USER', [{...drop, lost: 'reply'}]],
    ['sent to 10.1.0.1:80 (50%) or dropped by line 27, DROP of DOCKER-USER (50%)', [to('10.1.0.1:80', 0.5), {...drop, probability: 0.5}]],
  ])('%s', (text, outcomes) => {
    expect(firstLine(outcomes)).toBe(`node-0: TCP 10.0.0.1 → 10.0.0.2:80  ${text}`);
  });

  test('for several nodes too, the nodes where it fails first', () => {
    expect(firstLine([to('10.1.0.1:80', 1)], [drop])).toBe(
      'TCP 10.0.0.1 → 10.0.0.2:80  on node-1: dropped by line 27, DROP of DOCKER-USER; on node-0: sent to 10.1.0.1:80',
    );
  });
});

describe('outcomes of many nodes', () => {
  const lines = async (names: readonly string[], source: string) => {
    const answers = askNodes(
      {source, destination: 'shop/manual', namespace: 'shop'} as Parameters<typeof askNodes>[0],
      await snapshotOf('healthy/1.36-iptables'),
      name => names.includes(name),
    );
    return packetRenderers.tree(answers, {...plain, width: 200}).split('\n');
  };

  test('that do the same are one block, with the line numbers of the first', async () => {
    const one = await lines(['node-b'], '192.0.2.77');
    const all = await lines(['node-b', 'node-a', 'node-c'], '192.0.2.77');
    expect(all[0]).toMatch(/^node-a, node-b, node-c \(line numbers of node-a\): TCP 192\.0\.2\.77 → /);
    expect(all).toHaveLength(one.length);
  });

  test('are each a block with -v, in the order of the nodes', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const answers = askNodes({...toWeb, source: '192.0.2.77'} as Parameters<typeof askNodes>[0], snapshot, () => true);
    const shown = packetRenderers.tree(answers, {...plain, width: 200, verbose: true});
    expect(shown.match(/^node-[a-c](?=: TCP)/gm)).toEqual(['node-a', 'node-b', 'node-c']);
    expect(shown).not.toContain('line numbers of');
  });

  test('show the rules that all outcomes pass once: before them, and after them', async () => {
    const text = await lines(['node-a'], '192.0.2.77');
    const at = (rule: RegExp) => text.flatMap((line, index) => (rule.test(line) ? [index] : []));
    const [first = 0, second = 0] = at(/^[├└]─ 50% accepted 192\.0\.2\.1[01]:5432, masqueraded$/);
    const [pass = 0] = at(/^ {2}on node-a, both then pass:$/);
    expect(
      [at(/-A KUBE-SERVICES -d /), at(/-A KUBE-MARK-MASQ /)].every(([one = 99, ...others]) => one < first && others.length === 0),
    ).toBe(true);
    expect(at(/--to-destination 192\.0\.2\.10/)).toEqual([second - 1]);
    expect(at(/--to-destination 192\.0\.2\.11/)).toEqual([pass - 1]);
    expect(at(/-A KUBE-FORWARD /).every(index => index > pass)).toBe(true);
    expect(at(/-A POSTROUTING /)).toHaveLength(1);
  });
});
