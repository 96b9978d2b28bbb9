import {expect, test} from 'vitest';
import {connectionFlags} from '../../../src/cli/options/connection-flags.ts';
import {asConnectionFlags} from '../../../src/run/options/connection.ts';
import {valueFlags} from '../../../src/cli/command-line.ts';

test('extra of a user to impersonate is taken by its keys, and a value may hold anything', () => {
  expect(asConnectionFlags({'as-user-extra': ['a=1', 'b=x=y', 'a=', 'a=2']}).asUserExtra).toEqual({a: ['1', '', '2'], b: ['x=y']});
  expect(asConnectionFlags({}).asUserExtra).toBeUndefined();
});

test.each(['a', '=1', ''])('extra that is no KEY=VALUE (%j) is wrong use', pair => {
  expect(() => asConnectionFlags({'as-user-extra': [pair]})).toThrow(expect.objectContaining({oclif: {exit: 2}}));
});

test('every flag of a connection that takes a value is known before the command is', () => {
  const taking = Object.entries(connectionFlags).filter(([, flag]) => flag.type === 'option');
  expect(taking.map(([name]) => `--${name}`).filter(name => !valueFlags.includes(name))).toEqual([]);
});
