import {Buffer} from 'node:buffer';
import {describe, expect, test} from 'vitest';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';
import {hasCounters, pickLines, ruleCounters} from '../../../src/parse/iptables/rule-counters.ts';
import {readFixture} from '../../fixtures.ts';

describe.each(['iptables-nft-save-c', 'iptables-legacy-save-c', 'iptables-S-v'])('%s', name => {
  const dump = readFixture(`parse/${name}`);
  const rules = parseDumps(dump).flatMap(({tables}) =>
    [...tables.values()].flatMap(({chains}) => [...chains.values()].flatMap(chain => chain.rules())),
  );
  const lines = pickLines(dump, new Set(rules.map(({line}) => line)));

  test('every rule has the counters in its line', () => {
    expect(hasCounters(dump)).toBe(true);
    expect(rules.length).toBeGreaterThan(10);
    const counted = rules.map(({line, text}) => ruleCounters(lines.get(line) ?? '', text));
    expect(counted).not.toContain(null);
    expect(counted.filter(counters => counters?.packets !== 0)).toEqual([
      {packets: 12, bytes: 720},
      {packets: 1, bytes: 60},
      {packets: 5, bytes: 300},
    ]);
  });

  test('a line with another rule is ignored', () => {
    const [first, second] = rules;
    expect(ruleCounters(lines.get(first?.line ?? 0) ?? '', second?.text ?? '')).toBeNull();
  });
});

test.each(['iptables-nft-save', 'iptables-S', 'many-extensions'])('%s has none', name => {
  const dump = readFixture(`parse/${name}`);
  const rules = parseDumps(dump).flatMap(({tables}) =>
    [...tables.values()].flatMap(({chains}) => [...chains.values()].flatMap(chain => chain.rules())),
  );
  const lines = pickLines(dump, new Set(rules.map(({line}) => line)));
  expect(rules.map(({line, text}) => ruleCounters(lines.get(line) ?? '', text)).filter(counters => counters !== null)).toEqual([]);
});

test('a comment is not a counter', () => {
  const rule = '-A X -m comment --comment "see -c 1 2 and counter packets 3 bytes 4" -j ACCEPT';
  expect(ruleCounters(rule, rule)).toBeNull();
  expect(ruleCounters(`[5:6] ${rule}`, rule)).toEqual({packets: 5, bytes: 6});
});

test('nft prints them inside a rule', () => {
  expect(
    ruleCounters('\t\tip daddr 10.96.0.1 counter packets 5 bytes 300 accept # handle 22', 'ip daddr 10.96.0.1 counter accept'),
  ).toEqual({
    packets: 5,
    bytes: 300,
  });
});

test('lines are counted from 1, and the last may have no newline', () => {
  expect([...pickLines(Buffer.from('a\n\nb\nc'), new Set([1, 3, 4, 9]))]).toEqual([
    [1, 'a'],
    [3, 'b'],
    [4, 'c'],
  ]);
});
