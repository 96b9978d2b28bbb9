import {expect, test} from 'vitest';
import {parseTimeout} from '../../../src/collect/kube/kubeconfig.ts';

test.each([
  ['0', 0],
  ['30', 30_000],
  ['1.5s', 1500],
  ['1m30s', 90_000],
  ['2h', 7_200_000],
  ['250ms', 250],
  ['99999999h', 2_147_483_647],
  ['9'.repeat(400), 2_147_483_647],
  ['s', null],
  ['5 s', null],
  ['-1s', null],
  ['', null],
])('--request-timeout %s is %s ms', (text, milliseconds) => {
  expect(parseTimeout(text)).toBe(milliseconds);
});
