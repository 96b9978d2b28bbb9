import {execFileSync} from 'node:child_process';
import {expect, test} from 'vitest';
import {commandLine, joinedCommand, shellWord} from '../../src/model/text.ts';

const hostile = ['$(id>&2)', '`id`', 'a;id', "it's", "\\'; id; '", '"x"', 'a b', 'größer 東京', '!!', '~', '*', 'a\\nb', '#x', '{a,b}'];

/** What a program gets as its arguments where a shell runs the command. */
function argumentsIn(shell: string, command: string): readonly string[] {
  const script = `sysctl() { printf '%s\\n' "$@"; }\n${command}`;
  return execFileSync(shell, ['-c', script], {encoding: 'utf8'}).slice(0, -1).split('\n');
}

test.each(['bash', 'dash'])('%s reads each name in a command as one word, and runs nothing in it', shell => {
  for (const name of hostile)
    expect(argumentsIn(shell, commandLine`sysctl -w net.ipv4.conf.${name}.forwarding=1 ${name}` ?? '')).toEqual([
      '-w',
      `net.ipv4.conf.${name}.forwarding=1`,
      name,
    ]);
});

test.each(['bash', 'dash'])('%s reads a word with a newline as one word', shell => {
  expect(argumentsIn(shell, `sysctl ${shellWord("a\nb'c")}`)).toEqual(['a', "b'c"]);
});

test.each(['', '-x', 'a\nb', 'a\u001b[2J', 'a\u202eb', 'a\ud800'])('there is no command with the name %j', name => {
  expect(commandLine`ip link show ${name}`).toBeNull();
  expect(joinedCommand(commandLine`ip`, commandLine`${name}`)).toBeNull();
});

test('parts of a command are joined by blanks, and empty ones are left out', () => {
  expect(joinedCommand(commandLine`kubectl logs`, commandLine``, commandLine`--tail=300`)).toBe('kubectl logs --tail=300');
});
