import {expect, test} from 'vitest';
import {connectionFlags} from '../../../src/cli/options/cluster-flags.ts';
import {asConnectionFlags} from '../../../src/run/open-cluster.ts';
import {valueFlags} from '../../../src/cli/command-line.ts';

test('extra fields of a user to impersonate are merged by key, and a value may contain anything', () => {
  expect(asConnectionFlags({'as-user-extra': ['a=1', 'b=x=y', 'a=', 'a=2']}).asUserExtra).toEqual({a: ['1', '', '2'], b: ['x=y']});
  expect(asConnectionFlags({}).asUserExtra).toBeUndefined();
});

test.each(['a', '=1', ''])('an extra field that is not KEY=VALUE (%j) is wrong use', pair => {
  expect(() => asConnectionFlags({'as-user-extra': [pair]})).toThrow(expect.objectContaining({oclif: {exit: 2}}));
});

test('every connection flag with a value is known before the command is parsed', () => {
  const taking = Object.entries(connectionFlags).filter(([, flag]) => flag.type === 'option');
  expect(taking.map(([name]) => `--${name}`).filter(name => !valueFlags.includes(name))).toEqual([]);
});
