import {expect, test} from 'vitest';
import {meantCommand} from '../../src/cli/short-error.ts';

const commands = ['check', 'diff', 'trace', 'watch'];

function suggestions(word: string | null, error: object): unknown {
  return (meantCommand(Object.assign(new Error('x'), error), {word, commands}) as {suggestions?: unknown}).suggestions;
}

test.each([
  ['chekc', ['the command "check"']],
  ['dif', ['the command "diff"']],
  ['web', undefined],
  [null, undefined],
])('%s, taken for a Service, may have been meant as a command', (word, expected) => {
  expect(suggestions(word, {oclif: {exit: 2}})).toEqual(expected);
});

test('what else may have been meant is said before it', () => {
  expect(suggestions('wathc', {oclif: {exit: 2}, suggestions: ['shop/match']})).toEqual(['shop/match', 'the command "watch"']);
});

test('what is no wrong use is left alone', () => {
  for (const error of [{}, {oclif: {exit: 3}}, {oclif: {exit: 1}}]) expect(suggestions('chekc', error)).toBeUndefined();
});
