import {describe, expect, test} from 'vitest';
import {beginsPastedLine, isPlainDump, mayBePlainDump} from '../../../src/parse/iptables/pasted-text.ts';
import {readFixture} from '../../fixtures.ts';

const lines = readFixture('captures/healthy/1.36-iptables/nodes/node-a/iptables-save').toString('utf8').trimEnd().split('\n');

function dumpWith(line: string, at: number): Buffer {
  return Buffer.from(`${lines.toSpliced(at, 0, line).join('\n')}\n`);
}

test('what iptables-save prints is a plain dump', () => {
  expect(isPlainDump(Buffer.from(lines.join('\n')))).toBe(true);
});

describe.each([1, lines.length - 1, lines.length])('a dump with another line at %i is no plain dump', at => {
  test.each(['</pre>', 'root@node-a:~# iptables -S', 'x $ ip6tables-save', '# sudo -i', '$ kubectl exec x'])('%s', line => {
    expect(mayBePlainDump(dumpWith(line, at))).toBe(false);
    expect(isPlainDump(dumpWith(line, at))).toBe(false);
  });

  test.each(['Chain INPUT (policy ACCEPT)', '```', '...', '…', '-P INPUT ACCEPT', '> quoted', '    -A INPUT -j DROP', '$ ls'])(
    '%s',
    line => {
      const bytes = dumpWith(line, at);
      expect(isPlainDump(bytes)).toBe(false);
      expect(beginsPastedLine(bytes, bytes.indexOf(`\n${line}\n`) + 1)).toBe(true);
    },
  );
});

test.each(['# a comment', '< nothing >', 'costs 5$', '#', '$', '<'])('a line with %s leaves it a plain dump', line => {
  expect(isPlainDump(dumpWith(`# ${line}`, lines.length))).toBe(true);
});

test('no line of a dump begins as pasted text does', () => {
  const bytes = Buffer.from(lines.join('\n'));
  let start = 0;
  for (const line of lines) {
    expect(beginsPastedLine(bytes, start), line).toBe(false);
    start += line.length + 1;
  }
});
