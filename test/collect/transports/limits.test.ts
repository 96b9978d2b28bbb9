import {expect, test} from 'vitest';
import {outputLimit, TooMuchOutput} from '../../../src/collect/node/transport.ts';
import {runProgram} from '../../../src/collect/transports/root-command.ts';
import {isBroken} from '../../../src/collect/node/node-reader.ts';

const {signal} = new AbortController();

test('a program that prints more than 64 KiB of error messages is ended', async () => {
  await expect(runProgram('sh', ['-c', 'while :; do echo mine >&2; done'], {signal})).rejects.toThrow(
    /^sh printed more than 64 KiB of error messages$/,
  );
});

test('what a program may print is counted in parts', () => {
  const count = outputLimit(['iptables-save'], 2 << 20);
  const part = Buffer.alloc(1 << 20);
  count(part);
  count(part);
  expect(() => count(Buffer.alloc(1))).toThrow(/^iptables-save printed more than 2 MiB$/);
});

test('another connection to the node is not tried for it', () => {
  expect(isBroken(new TooMuchOutput(['ip'], 1 << 20))).toBe(false);
});
