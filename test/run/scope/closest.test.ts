import {expect, test} from 'vitest';
import {closest} from '../../../src/run/wrong-use.ts';

const names = ['web', 'web-canary', 'webhook', 'dns', 'kube-dns', 'payment-gateway', 'payment-gateways'];

test.each([
  ['wbe', ['web']],
  ['webb', ['web']],
  ['web-cannary', ['web-canary']],
  ['payment-gatway', ['payment-gateway', 'payment-gateways']],
  ['frontend', []],
  ['', []],
])('for %s: %j', (word, near) => {
  expect(closest(word, names)).toEqual(near);
});

test('a name that occurs in several namespaces is suggested once', () => {
  expect(closest('wbe', ['web', 'web'])).toEqual(['web']);
});
