import {expect, test} from 'vitest';
import {connectionFlags} from '../../../src/cli/options/cluster-flags.ts';
import {KubeconfigError} from '../../../src/collect/kube/kubeconfig.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {valueFlags} from '../../../src/cli/command-line.ts';

const impersonating = (extra: readonly string[]) =>
  loadConnection({server: 'https://a', as: 'eve', 'as-user-extra': extra}, {environment: {HOME: '/nonexistent'}}).impersonation;

test('extra fields of a user to impersonate are merged by key, and a value may contain anything', () => {
  expect(impersonating(['a=1', 'b=x=y', 'a=', 'a=2'])).toEqual({
    'Impersonate-User': 'eve',
    'Impersonate-Extra-a': ['1', '', '2'],
    'Impersonate-Extra-b': ['x=y'],
  });
});

test.each(['a', '=1', ''])('an extra field that is not KEY=VALUE (%j) is wrong use', pair => {
  expect(() => impersonating([pair])).toThrow(KubeconfigError);
});

test('every connection flag with a value is known before the command is parsed', () => {
  const taking = Object.entries(connectionFlags).filter(([, flag]) => flag.type === 'option');
  expect(taking.map(([name]) => name).filter(name => !Object.hasOwn(valueFlags, name))).toEqual([]);
});
