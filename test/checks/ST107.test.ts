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

test('a load balancer that no controller gave an address is said to be that, and where clients outside reach it', async () => {
  const pending = 'is a load balancer without an address (status.loadBalancer is empty): ';
  const said = containing(`shop/lb-pending ${pending}no controller has given it one. Clients outside reach it at node port 30086 alone`);
  expect(await asked('lb-pending')).toEqual([{code: 'ST107', severity: 'info', subject: 'shop/lb-pending', message: said}]);
  expect(await asked('lb-cluster')).toEqual([]);
  const given = await scenario();
  given.service('shop/lb-pending', service => ({...service, spec: {...service.spec, loadBalancerClass: 'example.com/internal'}}));
  const [of] = given.summaries({byName: true, selects: ({metadata}: ServiceObject) => metadata.name === 'lb-pending'});
  expect(of?.message).toContain('the controller of its class example.com/internal has not given it one');
});

test('in a check of all Services they stay silent', async () => {
  const given = await scenario();
  expect(given.summaries().map(({code}) => code)).not.toContain('ST107');
});

async function asked(name: string): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  return given.summaries({byName: true, selects: ({metadata}: ServiceObject) => metadata.namespace === 'shop' && metadata.name === name});
}

test('an address as externalName, and a port that is not translated, are said', async () => {
  const message = async (name: string, spec: ServiceObject['spec']): Promise<string | undefined> => {
    const given = await scenario();
    given.service(`shop/${name}`, service => ({...service, spec: {...service.spec, ...spec}}));
    const [first] = given.summaries({byName: true, selects: ({metadata}: ServiceObject) => metadata.name === name});
    return first?.message;
  };
  expect(await message('alias', {externalName: '203.0.113.7'})).toContain(
    'externalName 203.0.113.7 is an address, and DNS takes it for a name',
  );
  expect(await message('alias', {externalName: 'db.example.com'})).toMatch(/of its own$/);
  expect(await message('headless', {})).toMatch(/clients connect to 8080, not 80$/);
  expect(await message('headless', {ports: [{port: 8080, targetPort: 8080}]})).toMatch(/pods from DNS$/);
});
