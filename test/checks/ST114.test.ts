import {expect, test} from 'vitest';
import {rangesOf} from '../source-range-service.ts';

const both = ['198.51.100.77', '2001:db8:77::7'];

test('a load-balancer IP of a family without source ranges is reported', async () => {
  const found = await rangesOf({ranges: ['203.0.113.0/24'], balancer: both});
  expect(found).toEqual([['ST114', 'warning', 'shop/external-ips']]);
});

test('ranges of both families stay silent', async () => {
  expect(await rangesOf({ranges: ['203.0.113.0/24', '2001:db8::/64'], balancer: both})).toEqual([]);
});

test('a range that holds every address of the family is one of it, and stays silent', async () => {
  expect(await rangesOf({ranges: ['203.0.113.0/24', '::/0'], balancer: both})).toEqual([]);
});

test('ranges of one family stay silent where all load-balancer IPs are of it', async () => {
  expect(await rangesOf({ranges: ['203.0.113.0/24'], balancer: ['198.51.100.77']})).toEqual([]);
});

test('a Service without source ranges stays silent', async () => {
  expect(await rangesOf({ranges: [], balancer: both})).toEqual([]);
});
