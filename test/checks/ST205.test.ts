import {expect, test} from 'vitest';
import type {ServiceSpec} from '../../src/model/api-objects.ts';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, needsAction, summaryOf, containing, type Scenario, scenario} from '../scenario.ts';

const place = {severity: 'error', node: 'node-b', family: 'IPv4'};

test('a Service that was deleted and that a node still answers for is reported by its name, once for the node', async () => {
  const given = await scenario();
  given.deleteService('shop/web');
  given.deleteSlices('shop/web');
  expect(onB(given)).toEqual([
    {
      ...{code: 'ST205', ...place, subject: 'shop/web'},
      message: containing('still answers for shop/web:http', 'the API has no such Service (any more)'),
      actual: [given.rules('node-b').evidence('-A KUBE-SERVICES', '"shop/web:http cluster IP"')],
    },
  ]);
});

test('all entries to a deleted Service port are one finding', async () => {
  const given = await scenario();
  given.deleteService('shop/lb-local');
  given.deleteSlices('shop/lb-local');
  expect(onB(given).map(({code, subject}) => ({code, subject}))).toEqual([{code: 'ST205', subject: 'shop/lb-local'}]);
});

test.each<[what: string, change: Partial<ServiceSpec>, why: string]>([
  ['headless', {clusterIP: 'None', clusterIPs: ['None']}, 'it is headless'],
  ['of type ExternalName', {type: 'ExternalName', externalName: 'db.example.com'}, 'it is of type ExternalName'],
])('a Service that was made %s is in the API, and kube-proxy should not serve it', async (_, change, why) => {
  const given = await scenario();
  given.service('shop/web', object => ({...object, spec: {...object.spec, ...change}}));
  expect(onB(given)).toEqual([
    {
      ...{code: 'ST205', ...place, subject: 'shop/web'},
      message: containing(`still answers for shop/web:http, which it should not (any more): ${why}`),
      actual: expect.anything(),
    },
  ]);
});

const renamed = <P extends object>(ports: readonly P[] | null | undefined) => (ports ?? []).map(port => ({...port, name: 'www'}));

test('rules with the former name of a port take no packet from it, and are an info', async () => {
  const given = await scenario();
  given.service('shop/web', object => ({...object, spec: {...object.spec, ports: renamed(object.spec?.ports)}}));
  given.slices('shop/web', slice => ({...slice, ports: renamed(slice.ports)}));
  expect(onB(given).map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST205 info', 'ST216 info', 'ST217 info']);
  expect(onB(given)[0]?.message).toContain('still has rules for shop/web:http, whose packets are those of another port of the Service now');
});

test('a removed port of a Service is distinguished from a deleted Service', async () => {
  const given = await scenario();
  given.service('infra/dns', object => ({
    ...object,
    spec: {...object.spec, ports: (object.spec?.ports ?? []).filter(({name}) => name !== 'metrics')},
  }));
  expect(onB(given)).toEqual([
    {
      ...{code: 'ST205', ...place, subject: 'infra/dns'},
      message: containing('still answers for infra/dns:metrics: no such port of the Service is in the API'),
      actual: expect.anything(),
    },
  ]);
});

test('a rule that leads to the chain of a deleted Service is not about a deleted port of the Service that it names', async () => {
  const given = await scenario();
  const target = / -j (KUBE-SVC-\S+)/.exec(given.rules('node-b').line('-A KUBE-SERVICES', '"infra/dns:dns cluster IP"'))?.[1] ?? '';
  given.rules('node-b').replace(['-A KUBE-SERVICES', '"shop/web:http cluster IP"'], / -j KUBE-SVC-\S+/, ` -j ${target}`);
  given.deleteService('infra/dns');
  given.deleteSlices('infra/dns');
  const found = onB(given).filter(({subject}) => subject?.startsWith('shop/web') === true);
  expect(found.map(({code}) => code).sort()).toEqual(['ST201', 'ST205']);
  expect(found.map(({message}) => message)).toContain('a rule for shop/web:http leads to a chain that is none of its own');
});

test('the old number of a node port that was changed still answers', async () => {
  const given = await scenario();
  given.service('shop/nodeport', object => ({
    ...object,
    spec: {...object.spec, ports: (object.spec?.ports ?? []).map(port => ({...port, nodePort: 30999}))},
  }));
  const found = onB(given);
  expect(found.filter(({code}) => code === 'ST205')).toEqual([
    {
      ...{code: 'ST205', ...place, subject: 'shop/nodeport:http'},
      message: containing('still answers at node port 30080, which is none of its entries in the API'),
      actual: [expect.stringContaining('--dport 30080')],
    },
  ]);
  expect(found.filter(needsAction).map(({code, entry}) => ({code, entry}))).toEqual([
    {code: 'ST205', entry: undefined},
    {code: 'ST206', entry: 'node port 30999'},
  ]);
});

test('an external IP that was removed still answers', async () => {
  const given = await scenario();
  given.service('shop/external-ips', object => ({...object, spec: {...object.spec, externalIPs: ['198.51.100.10']}}));
  expect(onB(given)).toEqual([
    {
      ...{code: 'ST205', ...place, subject: 'shop/external-ips:http'},
      message: containing('still answers at 198.51.100.11:80'),
      actual: [given.rules('node-b').evidence('-A KUBE-SERVICES', '198.51.100.11/32')],
    },
  ]);
});

test('it is also found with the older rules, in which masquerade rules are beside the jumps', async () => {
  const given = await scenario('eras/1.21-endpoints');
  given.deleteService('shop/nodeport');
  given.api(({endpoints}) => ({endpoints: (endpoints ?? []).filter(({metadata}) => metadata.name !== 'nodeport')}));
  expect(onB(given).map(({code, subject}) => ({code, subject}))).toEqual([{code: 'ST205', subject: 'shop/nodeport'}]);
});

test('a node that stopped following the API answers for a Service that was deleted', async () => {
  const found = findingsOf(await snapshotOf('faults/frozen-node')).filter(({code}) => code === 'ST205');
  expect(found.map(summaryOf).map(({node, subject}) => ({node, subject}))).toEqual([{node: 'node-b', subject: 'shop/sticky'}]);
});

test('a refusal left behind by a deleted Service without endpoints is harmless: it is an info', async () => {
  const given = await scenario();
  given.deleteService('shop/empty');
  expect(onB(given)).toEqual([
    {
      ...{code: 'ST205', ...place, severity: 'info', subject: 'shop/empty'},
      message: containing('still refuses packets for shop/empty:http'),
      actual: [given.rules('node-b').evidence('-A KUBE-SERVICES', '"shop/empty:http has no endpoints"')],
    },
  ]);
});

test('chains of a deleted Service that no rule jumps to are ST215 and no stale Service', async () => {
  const given = await scenario();
  given.deleteService('shop/web');
  given.deleteSlices('shop/web');
  given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/web:http cluster IP"');
  expect(onB(given).map(({code, severity}) => [code, severity])).toEqual([['ST215', 'info']]);
});

test('if some Services were requested, a stale one of another name stays silent', async () => {
  const given = await scenario();
  given.deleteService('shop/web');
  given.deleteSlices('shop/web');
  const asked = {selects: () => false, concerns: ({name}: {readonly name: string}) => name === 'other'};
  expect(given.summaries(asked).filter(({code}) => code === 'ST205')).toEqual([]);
});

function onB(given: Scenario) {
  return given.newFindings({nodes: name => name === 'node-b'});
}
