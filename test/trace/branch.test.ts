import {expect, test} from 'vitest';
import {startBranch, summarizeEnds} from '../../src/trace/branch.ts';
import {packetOf, ruleset} from './send.ts';

test('a rule that cannot be evaluated, with a hundred thousand paths behind it, is summarized at once', () => {
  const [rule] = ruleset({filter: '-A FORWARD -m unheard -j DROP'}).chain('filter', 'FORWARD')?.rules() ?? [];
  if (rule === undefined) throw new Error('no rule');
  const branch = startBranch(packetOf({from: '10.244.1.9', to: '10.96.0.1', port: 80}));
  const supposed = Array.from({length: 200_000}, () => ({...branch, supposed: rule, verdict: 'drop' as const}));
  const [end, ...others] = summarizeEnds([{...branch, inferred: [rule], verdict: 'accept'}, ...supposed]);
  expect(others).toEqual([]);
  expect(end?.outcome).toMatchObject({verdict: 'undecided', doubt: {text: rule.text}, otherwise: {verdict: 'accept'}});
});
