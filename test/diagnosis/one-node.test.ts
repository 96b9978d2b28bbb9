import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {NodeDump} from '../../src/model/snapshot.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';

const healthy = await snapshotOf('healthy/1.36-iptables');

function checked(change: (node: NodeDump) => NodeDump) {
  return diagnose({...healthy, nodes: healthy.nodes.map(node => (node.name === 'node-b' ? change(node) : node))}, {toolVersion: '0.0.0'});
}

describe('what is wrong with one node takes nothing from the others', () => {
  test('a fault of this program is named as one, with what to report', () => {
    const read = (): never => {
      throw new TypeError('x is not a function');
    };
    const {nodes, findings, summary} = checked(node => ({...node, read}));
    expect(nodes.map(({name, status}) => [name, status])).toEqual([
      ['node-a', 'checked'],
      ['node-b', 'unread'],
      ['node-c', 'checked'],
    ]);
    const [found] = findings.filter(({node}) => node === 'node-b');
    expect(found).toMatchObject({code: 'ST901', message: expect.stringContaining('which is a bug of svc-trace: x is not a function')});
    expect(found?.remedy).toContain('capture -o for-the-issue.tgz --redact --node node-b');
    expect(summary).toMatchObject({verdict: 'incomplete', nodesChecked: 2, nodesUnread: 1});
  });

  test.each([
    ['empty lines', '\n'.repeat(1_100_000), /more than 1,000,000 lines/],
    ['one endless line', `-A X ${'x'.repeat(65 << 20)}`, /more than 64 MiB/],
    ['NUL characters', '*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SER\0\0S -j RETURN\nCOMMIT\n', /^line 3 of its rules holds NUL characters/],
    ['lines that no iptables prints', `*nat\n${'x\n'.repeat(100_001)}COMMIT\n`, /more than 100000 of its lines are none of iptables-save/],
  ])('a dump of %s is refused with the reason', (_, dump, reason) => {
    const {nodes} = checked(node => withFiles(node, {'iptables-save': dump}));
    expect(nodes.map(({status}) => status)).toEqual(['checked', 'unread', 'checked']);
    expect(nodes[1]?.reason).toMatch(reason);
    expect(nodes[1]?.reason).not.toContain('bug');
  });
});

test('rules of a paste that are as many as the stack holds are kept', () => {
  const rules = Array.from({length: 150_000}, () => '-A KUBE-SERVICES -d 10.96.0.1/32 -j RETURN').join('\n');
  expect(parseDumps(`${rules}\n`)[0]?.ruleCount).toBeGreaterThan(0);
});
