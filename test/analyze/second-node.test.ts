import {describe, expect, test} from 'vitest';
import {packetRenderers} from '../../src/render/table/packet-report.ts';
import {askNodes, type PacketFlags} from '../../src/run/packet/packet-flags.ts';
import type {Snapshot} from '../../src/model/snapshot.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';
import {plain} from '../render/report.ts';

const snapshot = await snapshotOf('healthy/1.36-iptables');
const fromPod: PacketFlags = {source: '10.244.11.20', destination: 'shop/web'};
const fromOutside: PacketFlags = {source: '203.0.113.9', destination: '172.18.0.11', port: '30080'};

function withRulesOf(name: string, change: (rules: string) => string): Snapshot {
  const nodes = snapshot.nodes.map(node =>
    node.name === name ? withFiles(node, {'iptables-save': change(node.read('iptables-save')?.toString() ?? '')}) : node,
  );
  return {...snapshot, nodes};
}

/** The rules of node-b, which has the endpoint 10.244.12.4, begin FORWARD with this one. */
function onNodeB(rule: string): Snapshot {
  return withRulesOf('node-b', rules => rules.replace(/^-A FORWARD /m, `${rule}\n-A FORWARD `));
}

/** What happens to packets that node-a receives, by endpoint. */
function outcomes(flags: PacketFlags, given: Snapshot): Readonly<Record<string, string>> {
  const [answer] = askNodes(flags, given, name => name === 'node-a');
  return Object.fromEntries(
    (answer?.outcomes ?? []).map(({destination, verdict, lost, onward}) => [
      destination ?? '',
      [lost ?? '', verdict, onward === undefined ? '' : `${onward.node}${onward.path === null ? ' not walked' : ''}`].join(' ').trim(),
    ]),
  );
}

describe('a packet that a node sends on to an endpoint of another node', () => {
  test('meets the rules there, which one to an endpoint of the node itself does not', () => {
    const all = {'10.244.11.4:8080': 'accept', '10.244.11.5:8080': 'accept', '10.244.12.4:8080': 'accept node-b'};
    expect(outcomes(fromPod, snapshot)).toEqual(all);
    expect(outcomes(fromPod, onNodeB('-A FORWARD -d 10.244.12.4/32 -j DROP'))).toEqual({...all, '10.244.12.4:8080': 'drop node-b'});
    expect(outcomes(fromPod, onNodeB('-A FORWARD -d 10.244.11.4/32 -j DROP'))).toEqual(all);
  });

  test('has the address of the pod, or of the node that masquerades it', () => {
    const pods = onNodeB('-A FORWARD -s 10.244.11.0/24 -j REJECT');
    expect(outcomes(fromPod, pods)).toMatchObject({'10.244.12.4:8080': 'reject node-b'});
    expect(outcomes(fromOutside, pods)).toMatchObject({'10.244.12.4:8080': 'accept node-b'});
    const nodes = onNodeB('-A FORWARD -s 172.18.0.11/32 -j REJECT');
    expect(outcomes(fromPod, nodes)).toMatchObject({'10.244.12.4:8080': 'accept node-b'});
    expect(outcomes(fromOutside, nodes)).toMatchObject({'10.244.12.4:8080': 'reject node-b'});
  });

  test('has a source port that was drawn: rules about single ones do nothing to it, others to their share', () => {
    const withPorts = (ports: string): Snapshot => onNodeB(`-A FORWARD -p tcp -m tcp --sport ${ports} -d 10.244.12.4/32 -j DROP`);
    expect(outcomes(fromOutside, withPorts('8080'))).toMatchObject({'10.244.12.4:8080': 'accept node-b'});
    expect(outcomes(fromOutside, withPorts('1024:65535'))).toMatchObject({'10.244.12.4:8080': 'drop node-b'});
    const [answer] = askNodes(fromOutside, withPorts('1024:33279'), name => name === 'node-a');
    const ofOther = (answer?.outcomes ?? []).filter(({onward}) => onward !== undefined);
    expect(ofOther.map(({verdict, probability}) => [verdict, probability.toFixed(3)])).toEqual([
      ['accept', '0.167'],
      ['drop', '0.167'],
    ]);
  });

  test('is lost with its reply', () => {
    const silent = onNodeB('-A FORWARD -s 10.244.12.4/32 -j DROP');
    expect(outcomes(fromPod, silent)).toMatchObject({'10.244.12.4:8080': 'reply drop node-b'});
  });

  test('is lost where it is not masqueraded and its sender is outside, or on that node: nothing translates the answer back', () => {
    const unmasqueraded = withRulesOf('node-a', rules => rules.replace(/^-A KUBE-MARK-MASQ .*\n/m, ''));
    const fromNear = {...fromOutside, source: '172.18.0.50'};
    expect(outcomes(fromNear, snapshot)).toMatchObject({'10.244.12.4:8080': 'accept node-b'});
    expect(outcomes(fromNear, unmasqueraded)).toMatchObject({'10.244.11.4:8080': 'accept', '10.244.12.4:8080': 'reply drop node-b'});
    // Also where the packet came through that node, to the address of the other one.
    const through = askNodes({...fromNear, destination: '172.18.0.11', port: '30080'}, unmasqueraded, name => name === 'node-b');
    expect(through.flatMap(({outcomes: all}) => all.map(({destination, lost}) => [destination, lost]))).toEqual([
      ['10.244.11.4:8080', undefined],
      ['10.244.11.5:8080', undefined],
      ['10.244.12.4:8080', 'reply'],
    ]);
    const fromNodeB = {...fromOutside, source: '172.18.0.12'};
    expect(outcomes(fromNodeB, unmasqueraded)).toMatchObject({'10.244.12.4:8080': 'drop node-b'});
    expect(outcomes(fromNodeB, snapshot)).toMatchObject({'10.244.12.4:8080': 'accept node-b'});
  });

  test('is answered by a process of that node, whose answer meets the rules there', () => {
    const toNode: PacketFlags = {source: '172.18.0.11', destination: '172.18.0.12', port: '9100'};
    expect(outcomes(toNode, snapshot)).toEqual({'': 'accept node-b'});
    const silent = withRulesOf('node-b', rules =>
      rules.replace(/^-A FORWARD /m, '-A OUTPUT -p tcp -m tcp --sport 9100 -j DROP\n-A FORWARD '),
    );
    expect(outcomes(toNode, silent)).toEqual({'': 'reply drop node-b'});
  });

  test('may be for a pod and no Service', () => {
    const toPod: PacketFlags = {source: '10.244.11.20', destination: '10.244.12.4', port: '8080'};
    expect(outcomes(toPod, onNodeB('-A FORWARD -d 10.244.12.4/32 -j DROP'))).toEqual({'': 'drop node-b'});
  });

  test('is undecided where that node has the address of the endpoint too', () => {
    const files = {
      'routes.json': [
        {type: 'local', dst: '10.244.12.4', dev: 'lo', table: 'local'},
        {dst: '10.244.12.0/24', dev: 'cni0'},
      ],
      'ip-rules.json': ['local', 'main'].map((table, priority) => ({priority, src: 'all', table})),
    };
    const texts = Object.fromEntries(Object.entries(files).map(([file, content]) => [file, JSON.stringify(content)]));
    const nodes = snapshot.nodes.map(node => (node.name === 'node-b' ? withFiles(node, texts) : node));
    expect(outcomes(fromPod, {...snapshot, nodes})).toMatchObject({'10.244.12.4:8080': 'undecided node-b', '10.244.11.4:8080': 'accept'});
  });

  test('is not followed to a node that was not chosen, which the answer says', () => {
    const alone = {...snapshot, nodes: snapshot.nodes.filter(({name}) => name === 'node-a')};
    expect(outcomes(fromPod, alone)).toMatchObject({'10.244.12.4:8080': 'accept node-b not walked'});
    const text = packetRenderers.tree(askNodes(fromPod, alone), {...plain, width: 200});
    expect(text).toMatch(/^ {4}on node-b: its rules were not walked \(--node names both\)$/m);
  });

  test('is not accepted for the senders that only the other node tells apart', () => {
    const [answer] = askNodes(fromPod, onNodeB('-A FORWARD -s 10.244.11.64/26 -j DROP'), name => name === 'node-a');
    expect(answer?.senders).toBe('10.244.11.0/30, 10.244.11.6-10.244.11.63, 10.244.11.128/25');
  });

  test('has the rules of both nodes in text and in JSON', () => {
    const [answer] = askNodes(fromPod, onNodeB('-A FORWARD -d 10.244.12.4/32 -j DROP'), name => name === 'node-a');
    const answers = answer === undefined ? [] : [answer];
    const text = packetRenderers.tree(answers, {...plain, width: 200});
    expect(text).toMatch(/^node-a: .* 2 endpoints, 33\.3% each or dropped on node-b by line \d+, DROP of FORWARD \(33\.3%\)$/m);
    expect(text).toMatch(/^└─ 33\.3% sent on to 10\.244\.12\.4:8080 and dropped on node-b$/m);
    expect(text.split('on node-b:\n')[1]).toMatch(/-A FORWARD -d 10\.244\.12\.4\/32 -j DROP\n/);
    const json = JSON.parse(packetRenderers.json(answers)) as {outcomes: readonly {onward?: unknown}[]};
    expect(json.outcomes.map(({onward}) => onward)).toEqual([
      undefined,
      undefined,
      {
        node: 'node-b',
        path: expect.arrayContaining([expect.objectContaining({chain: 'FORWARD', rule: '-A FORWARD -d 10.244.12.4/32 -j DROP'})]),
      },
    ]);
  });
});
