import {describe, expect, test} from 'vitest';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';

const rule =
  '-A KUBE-SERVICES -d 10.254.162.44/32 -p tcp -m comment --comment "default/mysql-service: cluster IP" -m tcp --dport 3306 -j KUBE-SVC-67RL4FN6JRUPOJYM';

function rulesOf(text: string): readonly string[] {
  return parseDumps(text).flatMap(({tables}) =>
    [...tables.values()].flatMap(({chains}) =>
      [...chains.values()].flatMap(chain => chain.rules().map(({line, text: own}) => `${line}: ${own}`)),
    ),
  );
}

describe('a rule as people paste it is read', () => {
  test.each([
    ['broken inside its comment', rule.replace(': cluster', ':\n cluster')],
    ['broken before an option', rule.replace(' -m tcp', '\n    -m tcp')],
    ['broken before its target', rule.replace(' -j', '\n-j')],
    ['broken inside the name of a chain', rule.replace('6JRUPOJYM', '\n6JRUPOJYM')],
    ['with curly quotes', rule.replace('"', '\u201c').replace('"', '\u201d')],
    ['with en and em dashes', rule.replaceAll('--', '\u2013')],
    ['with full-width letters', rule.replaceAll(' ', '\u3000').replace('3306', '\uff13\uff13\uff10\uff16')],
    ['with non-breaking spaces', rule.replaceAll(' ', '\u00a0')],
    ['indented', `    ${rule}`],
  ])('%s', (_, text) => {
    expect(rulesOf(`${text}\n`)).toEqual([`1: ${rule}`]);
  });

  test('and later lines keep their numbers', () => {
    const text = `${rule.replace(' -j', '\n-j')}\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n`;
    expect(rulesOf(text)).toEqual([`1: ${rule}`, '3: -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000']);
  });
});

describe('text that only looks wrapped is kept unchanged', () => {
  test('a rule without a target, and prose after a rule', () => {
    const plain = '-A KUBE-FW-A -m comment --comment "other traffic"';
    expect(rulesOf(`${plain}\n${rule}\n`)).toEqual([`1: ${plain}`, `2: ${rule}`]);
    expect(rulesOf(`${rule}\nこれにより ClusterIP へ\n`)).toEqual([`1: ${rule}`]);
  });

  test('a comment in a dump with tables, with any quotes', () => {
    const odd = '-A INPUT -m comment --comment "say \u201chi\u201d \u2013 now" -j ACCEPT';
    expect(rulesOf(`*filter\n:INPUT ACCEPT [0:0]\n${odd}\nCOMMIT\n`)).toEqual([`3: ${odd}`]);
    const listed = '-A INPUT -m comment --comment "say \u201chi\u201d" -j ACCEPT';
    expect(rulesOf(`-P INPUT ACCEPT\n${listed}\n`)).toEqual([`2: ${listed}`]);
  });
});

test('equal lines that follow each other are equal rules, and those of another place in the text repeat them', () => {
  const rule = '-A FORWARD -s 10.0.0.0/8 -j ACCEPT';
  const rules = (text: string) => parseDumps(text)[0]?.chain('filter', 'FORWARD')?.rules().length;
  expect(rules(`${rule}\n${rule}\n`)).toBe(2);
  expect(rules(`${rule}\n\nThis one is it:\n\n${rule}\n`)).toBe(1);
});

test('a rule between two equal ones stays between them, and a block that repeats a known rule puts its others before it', () => {
  const [first, other, last] = ['-s 10.1.0.0/16 -j DROP', '-s 10.2.0.0/16 -j ACCEPT', '-j REJECT'].map(rule => `-A FORWARD ${rule}`);
  const rules = (...lines: readonly (string | undefined)[]) =>
    parseDumps(`${lines.join('\n')}\n`)[0]
      ?.chain('filter', 'FORWARD')
      ?.rules()
      .map(({text}) => text);
  expect(rules(first, other, first)).toEqual([first, other, first]);
  expect(rules(first, first, last, '', 'and above it:', '', other, last)).toEqual([first, first, other, last]);
});
