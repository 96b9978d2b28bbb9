import {expect, test} from 'vitest';
import {rangesOf} from '../source-range-service.ts';

const ranges = ['203.0.113.0/24'];
const balancer = ['198.51.100.77'];

test('an address that is external IP and load-balancer IP beside source ranges is reported', async () => {
  expect(await rangesOf({ranges, balancer, externalIPs: balancer})).toEqual([['ST115', 'warning', 'shop/external-ips']]);
});

test('another external IP stays silent', async () => {
  expect(await rangesOf({ranges, balancer, externalIPs: ['198.51.100.78']})).toEqual([]);
});

test('the same address without source ranges stays silent', async () => {
  expect(await rangesOf({ranges: [], balancer, externalIPs: balancer})).toEqual([]);
});

test('a range that holds every address limits nobody, and stays silent', async () => {
  expect(await rangesOf({ranges: ['0.0.0.0/0'], balancer, externalIPs: balancer})).toEqual([]);
});
