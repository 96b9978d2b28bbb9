import {expect, test} from 'vitest';
import {commandText} from '../../../src/cli/options/command-text.ts';

test('a command can be pasted into a shell again', () => {
  expect(commandText(['check', '-A', '-l', 'tier in (web)', '--from', "it's.tgz", ''])).toBe(
    "kubectl svc-trace check -A -l 'tier in (web)' --from 'it'\\''s.tgz' ''",
  );
});

test.each([[['check', '--token', 'secret']], [['check', '--token=secret']], [['check', '--token=a=secret']]])(
  'a token is not in it: %j',
  args => {
    expect(commandText(args)).toMatch(/^kubectl svc-trace check --token[ =]HIDDEN$/);
  },
);
