import {expect, test} from 'vitest';
import {commandText} from '../../../src/cli/options/diagnose-options.ts';

test('a printed command can be pasted into a shell', () => {
  expect(commandText(['check', '-A', '-l', 'tier in (web)', '--from', "it's.tgz", ''])).toBe(
    "kubectl svc-trace check -A -l 'tier in (web)' --from 'it'\\''s.tgz' ''",
  );
});

test.each([[['check', '--token', 'secret']], [['check', '--token=secret']], [['check', '--token=a=secret']]])(
  'a printed command contains no token: %j',
  args => {
    expect(commandText(args)).toMatch(/^kubectl svc-trace check --token[ =]HIDDEN$/);
  },
);
