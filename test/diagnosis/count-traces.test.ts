import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {Report} from '../../src/model/report.ts';
import type {CountedRule} from '../../src/model/service-trace.ts';
import {counted} from '../counted.ts';
import {captureNames, snapshotOf} from '../fixtures.ts';
import {someOf} from '../cases.ts';

const options = {toolVersion: '0.0.0', trace: true} as const;

/** All rules of all traces that stand in a dump. */
function rulesOf({traces}: Report): readonly CountedRule[] {
  const entries = traces.flatMap(trace => trace.entries);
  const rules = entries.flatMap(({steps, endpoints, end}) => [
    ...steps,
    ...endpoints.flatMap(({pick, rewrite}) => [pick, rewrite]),
    end?.rule ?? null,
  ]);
  return rules.flatMap(rule => (rule === null || rule.line === 0 ? [] : [rule]));
}

function withoutCounters(report: Report): unknown {
  return JSON.parse(JSON.stringify(report, (name, value: unknown) => (name === 'packets' || name === 'bytes' ? undefined : value)));
}

describe.each(someOf(captureNames('healthy', 'faults')))('%s, dumped with counters', name => {
  test('has the counters of each rule, and is otherwise the same', async () => {
    const snapshot = await snapshotOf(name);
    const report = diagnose(counted(snapshot), options);
    const rules = rulesOf(report);
    expect(rules.length).toBeGreaterThan(100);
    expect(rules.filter(({packets, bytes, line}) => packets !== line || bytes !== line * 60)).toEqual([]);
    expect(withoutCounters(report)).toEqual(withoutCounters(diagnose(snapshot, options)));
  });
});

test.each(someOf(captureNames('ipvs', 'nftables')))('%s has none, and none are invented', async name => {
  const rules = rulesOf(diagnose(counted(await snapshotOf(name)), options));
  expect(rules.length).toBeGreaterThan(10);
  expect(rules.filter(({packets, table}) => packets !== undefined && table === 'ipvs')).toEqual([]);
});
