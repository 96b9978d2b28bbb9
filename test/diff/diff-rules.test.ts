/** The later dump is read by what differs from the earlier one: each difference must be seen wherever it is. */
import {expect, test} from 'vitest';
import {diffRules} from '../../src/diff/diff-bundles.ts';
import type {NodeDump} from '../../src/model/snapshot.ts';
import {readFixture} from '../fixtures.ts';

const dump = readFixture('captures/healthy/1.36-iptables/nodes/node-a/iptables-save').toString();
const chain = 'KUBE-SVC-67NZLRHBNDSAWJRO';
const place = `iptables nat/${chain}`;
const [toFirst = '', toSecond = ''] = dump.split('\n').filter(line => line.startsWith(`-A ${chain} -m comment`));

function nodeWith(text: string): NodeDump {
  return {name: 'node-a', files: ['iptables-save'], read: file => (file === 'iptables-save' ? Buffer.from(text) : null)};
}

function changesTo(later: string) {
  return diffRules(nodeWith(dump), nodeWith(later)).map(({place, came, went}) => ({place, came, went}));
}

test('a rule with one other byte is removed and added', () => {
  const other = toFirst.replace('0.33333333349', '0.33333333348');
  expect(changesTo(dump.replace(toFirst, other))).toEqual([{place, came: [other], went: [toFirst]}]);
});

test('a removed rule is seen, and the lines after it, which are further up, are the same', () => {
  expect(changesTo(dump.replace(`${toSecond}\n`, ''))).toEqual([{place, came: [], went: [toSecond]}]);
});

test('a rule that is apart from the others of its chain is added to it', () => {
  const rule = `-A ${chain} -j RETURN`;
  const end = dump.lastIndexOf('COMMIT');
  expect(changesTo(`${dump.slice(0, end)}${rule}\n${dump.slice(end)}`)).toEqual([{place, came: [rule], went: []}]);
});

test('a chain under another name is removed and added, although its rules lead to the same endpoints', () => {
  const renamed = 'KUBE-SVC-AAAAAAAAAAAAAAAA';
  const places = changesTo(dump.replaceAll(chain, renamed)).map(change => [change.place, change.came.length, change.went.length]);
  expect(places).toEqual([
    ['iptables nat/KUBE-SERVICES', 1, 1],
    [place, 0, 4],
    [`iptables nat/${renamed}`, 4, 0],
  ]);
});

test('other counters and another order of chains are no change', () => {
  const moved = dump.split('\n').filter(line => !line.startsWith(`-A ${chain} `));
  const rules = dump.split('\n').filter(line => line.startsWith(`-A ${chain} `));
  const first = moved.findIndex(line => line.startsWith('-A KUBE-SEP-'));
  const later = [...moved.slice(0, first), ...rules, ...moved.slice(first)]
    .join('\n')
    .replace(/^(:PREROUTING \w+) \[\d+:\d+\]/gm, '$1 [77:7777]');
  expect(later).not.toBe(dump);
  expect(changesTo(later)).toEqual([]);
});
