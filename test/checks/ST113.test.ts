import {expect, test} from 'vitest';
import type {NetworkPolicyObject} from '../../src/model/api-objects.ts';
import {type Scenario, scenario} from '../scenario.ts';

const from = (...cidrs: readonly string[]) => [{from: cidrs.map(cidr => ({ipBlock: {cidr}}))}];

function policy(spec: NonNullable<NetworkPolicyObject['spec']>, namespace = 'shop', name = 'clients'): NetworkPolicyObject {
  return {metadata: {namespace, name}, spec: {podSelector: {matchLabels: {app: 'solo'}}, policyTypes: ['Ingress'], ...spec}};
}

async function found(
  policies: readonly NetworkPolicyObject[] | null,
  change: (given: Scenario) => void = () => {},
): Promise<readonly string[]> {
  const given = await scenario();
  given.leaveOutNodes();
  for (const name of ['nodeport-local', 'lb-local']) toCluster(given, `shop/${name}`);
  given.api(() => ({networkPolicies: policies}));
  change(given);
  return given.findings().flatMap(({code, message}) => (code === 'ST113' ? [message] : []));
}

function toCluster(given: Scenario, name: string): void {
  given.service(name, service => ({...service, spec: {...service.spec, externalTrafficPolicy: 'Cluster'}}));
}

test('reports each Service by which clients reach pods of such a policy, and not those with a Local policy or only a cluster IP', async () => {
  const messages = await found([policy({ingress: from('203.0.113.0/24')})]);
  expect(messages.map(message => message.split(':')[0])).toEqual(['shop/lb-local', 'shop/nodeport-local']);
  expect(messages[0]).toBe(
    'shop/lb-local: NetworkPolicy shop/clients selects its pods and allows clients by address (203.0.113.0/24), and externalTrafficPolicy is Cluster: connections from outside arrive with the address of a node, so clients in these networks are refused by node ports and load balancers as others are',
  );
});

test('says that all clients get in where the networks hold the addresses of nodes', async () => {
  const messages = await found([policy({ingress: from('203.0.113.0/24', '172.18.0.0/31', '172.18.0.12/32')})]);
  expect(messages[0]).toContain('so the address of 1 node (node-b) is in them, which lets all clients of this node in');
});

test.each<[string, readonly NetworkPolicyObject[] | null]>([
  ['policies were not read', null],
  ['there is none', []],
  ['it allows pods', [policy({ingress: [{from: [{}]}]})]],
  ['it allows everybody', [policy({ingress: from('203.0.113.0/24', '0.0.0.0/0')})]],
  ['another one allows everybody', [policy({ingress: from('203.0.113.0/24')}), policy({podSelector: {}, ingress: [{}]}, 'shop', 'open')]],
  [
    'another one allows everybody, for labels that are not known',
    [policy({ingress: from('203.0.113.0/24')}), policy({podSelector: {matchLabels: {tier: 'web'}}, ingress: [{}]}, 'shop', 'open')],
  ],
  ['it is for other pods', [policy({podSelector: {matchLabels: {app: 'web2'}}, ingress: from('203.0.113.0/24')})]],
  ['its labels are not those of the selector', [policy({podSelector: {matchLabels: {tier: 'web'}}, ingress: from('203.0.113.0/24')})]],
  ['it is in another namespace', [policy({ingress: from('203.0.113.0/24')}, 'infra')]],
  ['it is for what pods send', [policy({policyTypes: ['Egress'], ingress: from('203.0.113.0/24')})]],
  [
    'an expression leaves the pods out',
    [
      policy({
        podSelector: {matchExpressions: [{key: 'app', operator: 'NotIn', values: ['solo', 'web']}]},
        ingress: from('203.0.113.0/24'),
      }),
    ],
  ],
])('stays silent where %s', async (_, policies) => {
  expect(await found(policies)).toEqual([]);
});

test('evaluates expressions about labels of the selector', async () => {
  const expressions = [
    {key: 'app', operator: 'In', values: ['other', 'solo']},
    {key: 'app', operator: 'Exists'},
  ];
  expect(await found([policy({podSelector: {matchExpressions: expressions}, ingress: from('203.0.113.0/24')})])).toHaveLength(2);
});

test('says that no policy lets anybody in, of a cluster IP too', async () => {
  const [message, ...others] = await found([policy({podSelector: {}})], given =>
    given.api(({services}) => ({services: (services ?? []).filter(({metadata}) => metadata.name === 'web')})),
  );
  expect(others).toEqual([]);
  expect(message).toMatch(/^shop\/web: NetworkPolicy shop\/clients selects its pods, and no NetworkPolicy lets any connection in/);
});

test('a policy that closes pods is no finding where another one lets somebody in', async () => {
  expect(await found([policy({}), policy({podSelector: {}, ingress: [{from: [{}]}]}, 'shop', 'open')])).toEqual([]);
});

test('says that no policy lets anybody in to the ports of the pods', async () => {
  const ofPorts = (...ports: readonly object[]) =>
    found([policy({podSelector: {}, ingress: [{ports}]})], given =>
      given.api(({services}) => ({services: (services ?? []).filter(({metadata}) => metadata.name === 'web')})),
    );
  expect(await ofPorts({port: 80})).toEqual([expect.stringContaining('lets any connection in to their ports (TCP 8080): ')]);
  expect(await ofPorts({port: 8080, protocol: 'UDP'})).toHaveLength(1);
  for (const port of [{port: 8080}, {port: 8000, endPort: 8090}, {port: 'http'}, {protocol: 'TCP'}])
    expect(await ofPorts({port: 80}, port)).toEqual([]);
});
