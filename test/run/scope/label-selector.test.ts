import {expect, test} from 'vitest';
import {matchesSelector, parseSelector} from '../../../src/run/scope/choose-nodes.ts';

const labels = {app: 'web', tier: 'front', 'app.kubernetes.io/name': 'shop', empty: ''};

test.each([
  ['app=web', true],
  ['app==web', true],
  ['app=db', false],
  ['app!=db', true],
  ['app!=web', false],
  ['missing!=web', true],
  ['app', true],
  ['missing', false],
  ['!missing', true],
  ['! app', false],
  ['app in (web, db)', true],
  ['app in (db)', false],
  ['app notin (db)', true],
  ['missing notin (db)', true],
  ['app=web,tier=front', true],
  ['app=web,tier=back', false],
  ['app in (web,db),!missing', true],
  ['app.kubernetes.io/name=shop', true],
  ['empty=', true],
])('%s', (selector, matches) => {
  expect(matchesSelector(labels, parseSelector(selector))).toBe(matches);
});

test.each(['a=(', 'app in web', '=web', 'app=web,', 'a b'])('%s is not a selector', selector => {
  expect(() => parseSelector(selector)).toThrow('is not a label selector');
});

test('the error about a selector spells out control characters', () => {
  expect(() => parseSelector('a\u001b[2J=b')).toThrow('"a\\x1b[2J=b" is not a label selector');
});
