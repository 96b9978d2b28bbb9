import {expect, test} from 'vitest';
import {commandText} from '../../../src/cli/options/diagnose-options.ts';

test('a printed command can be pasted into a shell', () => {
  expect(commandText(['check', '-A', '-l', 'tier in (web)', '--from', "it's.tgz", ''])).toBe(
    "kubectl svc-trace check -A -l 'tier in (web)' --from 'it'\\''s.tgz' ''",
  );
});

test('a printed command contains no password of a URL and no value of --as-user-extra', () => {
  const args = [
    'check',
    '--server',
    'https://ann:p/w@h.example:6443',
    '-s=https://b:c@h/',
    '--as-user-extra',
    'scopes=hush',
    '--as-user-extra=a=hush',
  ];
  expect(commandText(args)).toBe(
    'kubectl svc-trace check --server https://h.example:6443 -s=https://h/ --as-user-extra HIDDEN --as-user-extra=HIDDEN',
  );
});

test.each([[['check', '--token', 'secret']], [['check', '--token=secret']], [['check', '--token=a=secret']]])(
  'a printed command contains no token: %j',
  args => {
    expect(commandText(args)).toMatch(/^kubectl svc-trace check --token[ =]HIDDEN$/);
  },
);
