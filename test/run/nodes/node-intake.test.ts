import {expect, test} from 'vitest';
import type {CollectedNode} from '../../../src/collect/node/transport.ts';
import {asUnread} from '../../../src/run/nodes/node-intake.ts';

const unread = (...messages: readonly string[]): CollectedNode => ({
  ...{name: 'node-a', status: 'unread', via: null, files: [], missing: [], read: () => null},
  problems: messages.map(message => ({node: 'node-a', message})),
});

test('commands that fail in the same way are named together', () => {
  const why = 'ended with exit code 4: Permission denied (you must be root) (exec into x)';
  expect(asUnread(unread(`iptables-save ${why}`, `ip6tables-save ${why}`))?.reason).toBe(`iptables-save and ip6tables-save ${why}`);
});

test('other reasons are listed, each once', () => {
  expect(asUnread(unread('no answer', 'iptables-save ended with exit code 1', 'no answer'))?.reason).toBe(
    'iptables-save ended with exit code 1; no answer',
  );
});
