import {describe, expect, test} from 'vitest';
import {parseCommandLine} from '../../parse-command-line.ts';

describe('a name that no namespace has', () => {
  test.each([
    ['check', '-n', '..'],
    ['check', '-n', 'shop,../kube-system'],
    ['web', '-n', 'Shop'],
    ['rules', '--from', 'b', '-n', 'a/b'],
    ['packet', '--from', 'b', '-n', `${'a'.repeat(64)}`],
    ['watch', '-n', '$(id)'],
    ['check', '--debug-namespace', '..'],
    ['check', '--agents', '--agents-namespace', 'a,b'],
  ])('is refused where it is typed: %s %s %s', async (...words) => {
    await expect(parseCommandLine(words)).rejects.toThrow('is not the name of a namespace: up to 63 lower case letters, digits and -');
  });

  test('is one with a flag of its own where it means all', async () => {
    await expect(parseCommandLine(['check', '-n', '*'])).rejects.toThrow('(all namespaces: -A)');
  });
});

test('names of namespaces, several with commas, and an empty one for the default are taken', async () => {
  for (const name of ['shop', 'shop,infra', 'a-1', ''])
    expect(await parseCommandLine(['check', '-n', name])).toMatchObject({flags: {namespace: name}});
});
