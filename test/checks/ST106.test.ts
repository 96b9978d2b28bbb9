import {expect, test} from 'vitest';
import {type FindingSummary, containing, scenario} from '../scenario.ts';

test('an external IP that is the address of a node is reported with the node', async () => {
  expect(await withExternalIPs(['198.51.100.10', '172.18.0.12'])).toEqual([
    {
      ...{code: 'ST106', severity: 'warning', subject: 'shop/external-ips'},
      message: containing('external IP 172.18.0.12 is the address of node node-b'),
    },
  ]);
});

test('the external address of a node counts as well as the internal one', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  const external = {type: 'ExternalIP', address: '198.51.100.10'};
  given.nodeObject('node-a', node => ({...node, status: {...node.status, addresses: [...(node.status?.addresses ?? []), external]}}));
  expect(given.newFindings().map(({code, message}) => [code, message])).toEqual([
    ['ST106', containing('198.51.100.10 is the address of node node-a')],
  ]);
});

test('an address next to those of the nodes belongs to no node, and stays silent', async () => {
  expect(await withExternalIPs(['172.18.0.120'])).toEqual([]);
});

test('a node whose host name equals the external IP does not have that address', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.nodeObject('node-a', node => ({...node, status: {addresses: [{type: 'Hostname', address: '198.51.100.10'}]}}));
  expect(given.newFindings()).toEqual([]);
});

test.each([
  ['takes the port of the API server', {port: 6443, labels: {'node-role.kubernetes.io/control-plane': ''}}, 'no longer reach it'],
  ['takes the port of the kubelet', {port: 10_250, labels: {}}, 'the port of the kubelet'],
  ['makes the node unreachable in IPVS mode', {port: 80, labels: {}, mode: 'ipvs'}, 'no longer reaches the node'],
])(
  'an external IP that %s is an error',
  async (_, {port, labels, mode = 'iptables'}: {port: number; labels: object; mode?: string}, text) => {
    const given = await scenario();
    given.leaveOutNodes();
    given.service('shop/external-ips', object => ({...object, spec: {...object.spec, externalIPs: ['172.18.0.12'], ports: [{port}]}}));
    given.nodeObject('node-b', node => ({...node, metadata: {...node.metadata, labels: {...labels}}}));
    given.api(() => ({
      configMaps: [{metadata: {namespace: 'kube-system', name: 'kube-proxy'}, data: {'config.conf': `mode: "${mode}"\n`}}],
    }));
    const found = given.findings().filter(({code}) => code === 'ST106');
    expect(found.map(({severity, message}) => [severity, message])).toEqual([['error', containing(text)]]);
  },
);

test('an external IP at which the API server answers, and that is no address of a Node, is reported', async () => {
  expect(await withExternalIPs(['172.18.0.1'])).toMatchObject([
    {code: 'ST106', message: containing('172.18.0.1', 'an endpoint of default/kubernetes')},
  ]);
});

async function withExternalIPs(externalIPs: readonly string[]): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  given.leaveOutNodes();
  given.service('shop/external-ips', object => ({...object, spec: {...object.spec, externalIPs}}));
  return given.newFindings();
}
