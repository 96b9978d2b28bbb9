import {expect, test} from 'vitest';
import type {ServiceObject} from '../../src/model/api-objects.ts';
import {type FindingSummary, containing, scenario} from '../scenario.ts';

test.each([
  ['headless', 'it is headless (clusterIP: None)'],
  ['alias', 'it is of type ExternalName'],
  ['other-proxy', 'it is given to another proxy (label service.kubernetes.io/service-proxy-name=other)'],
])('shop/%s, requested by name, is reported as not served, with the reason', async (name, reason) => {
  expect(await asked(name)).toEqual([
    {code: 'ST107', severity: 'info', subject: `shop/${name}`, message: containing(`shop/${name} is not served by kube-proxy: ${reason}`)},
  ]);
});

test('a Service that is served stays silent when it is requested by name', async () => {
  expect(await asked('web')).toEqual([]);
});

test('in a check of all Services they stay silent', async () => {
  const given = await scenario();
  expect(given.summaries().map(({code}) => code)).not.toContain('ST107');
});

async function asked(name: string): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  return given.summaries({byName: true, selects: ({metadata}: ServiceObject) => metadata.namespace === 'shop' && metadata.name === name});
}
