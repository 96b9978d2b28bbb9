import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';
import {promiseFindings} from './promise.ts';

test('nodePortAddresses without an address of the node is an error: no client reaches its node ports', () => {
  const config = {clusterCIDR: '10.244.0.0/16', nodePortAddresses: ['192.168.0.0/16']};
  expect(promiseFindings({config})).toEqual([
    {
      ...{code: 'ST701', severity: 'error', node: 'node-a', family: 'IPv4'},
      message: containing('nodePortAddresses 192.168.0.0/16', 'external clients', 'to node ports are refused', 'shop/web'),
    },
  ]);
});

test('it is an error on each node: addresses of another one are none of its own', async () => {
  const given = await scenario('healthy/1.36-iptables');
  const config = {clusterCIDR: '10.244.0.0/16', nodePortAddresses: ['192.168.0.0/16']};
  const text = JSON.stringify({
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'iptables',
    ...config,
  });
  for (const {name} of given.snapshot().nodes) {
    given.file(name, 'kube-proxy-config.yaml', text);
    given.file(name, 'configz.json', null);
  }
  // With endpoints on two of the nodes.
  given.api(({services}) => ({services: (services ?? []).filter(({metadata}) => metadata.name === 'nodeport')}));
  const found = given.findings({only: new Set(['ST701'])});
  expect(found.map(({node, severity}) => `${node} ${severity}`).sort()).toEqual(['node-a error', 'node-b error', 'node-c error']);
});

test('where one of its addresses is left, it is a warning', () => {
  const config = {clusterCIDR: '10.244.0.0/16', nodePortAddresses: ['172.18.0.0/16']};
  expect(promiseFindings({config}).map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST701 warning']);
});

test('in nftables and IPVS mode the same settings break the same promise', () => {
  const config = {clusterCIDR: '10.244.0.0/16', nodePortAddresses: ['192.168.0.0/16']};
  for (const mode of ['nftables', 'ipvs'] as const)
    expect(promiseFindings({mode, config}).map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST701 error']);
});

test('nodePortAddresses with all addresses of the node, or without a node port, stay silent', () => {
  const config = {clusterCIDR: '10.244.0.0/16', nodePortAddresses: ['172.18.0.0/16', '198.51.100.0/24']};
  expect(promiseFindings({config})).toEqual([]);
  const elsewhere = {clusterCIDR: '10.244.0.0/16', nodePortAddresses: ['192.168.0.0/16']};
  expect(promiseFindings({config: elsewhere, spec: {type: 'ClusterIP', ports: [{port: 80}]}})).toEqual([]);
});

test('the default of nftables mode, one address of the node, is no setting', () => {
  expect(promiseFindings({mode: 'nftables'})).toEqual([]);
});

test('a gate that is switched off is an info', () => {
  const config = {clusterCIDR: '10.244.0.0/16', featureGates: {ServiceInternalTrafficPolicy: false}};
  const found = promiseFindings({version: '1.25.1', config, spec: {internalTrafficPolicy: 'Local'}});
  expect(found.map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST701 info']);
});

test('what kube-proxy refuses is a warning: a mask that is none, a word that is too new, another family', () => {
  const inShort = (config: Readonly<Record<string, unknown>>, version: string): readonly string[] =>
    promiseFindings({config, version}).flatMap(({code, severity, message}) =>
      code === 'ST701' ? [`${severity}: ${message.replace(/ \(kube-proxy-config\.yaml\)/, '')}`] : [],
    );
  expect(inShort({clusterCIDR: '10.244.0.0/33'}, '1.36.2')).toEqual([
    'warning: clusterCIDR 10.244.0.0/33 is no network that kube-proxy v1.36.2 accepts: it does not start with this setting',
  ]);
  expect(inShort({clusterCIDR: 'fc00::/112'}, '1.36.2')).toEqual([
    'warning: clusterCIDR fc00::/112 holds no IPv4 network, and node-a is an IPv4 node: kube-proxy recognizes none of its pods',
  ]);
  expect(inShort({clusterCIDR: '10.244.0.0/16,10.245.0.0/16'}, '1.36.2')).toEqual([
    'warning: clusterCIDR 10.244.0.0/16,10.245.0.0/16 has two networks of one family: kube-proxy accepts one of each, and does not start with this setting',
  ]);
  expect(inShort({clusterCIDR: '10.244.0.0/16', nodePortAddresses: ['172.18.0.11']}, '1.36.2')).toEqual([
    'warning: nodePortAddresses 172.18.0.11 is no network that kube-proxy v1.36.2 accepts: it does not start with this setting',
  ]);
  const primary = {clusterCIDR: '10.244.0.0/16', nodePortAddresses: ['primary']};
  expect(inShort(primary, '1.28.3')).toEqual([
    'warning: nodePortAddresses primary is no network that kube-proxy v1.28.3 accepts: it does not start with this setting',
  ]);
  expect(inShort({clusterCIDR: '10.244.0.0/16'}, '1.28.3')).toEqual([]);
});

test.each([
  ['bridgeInterface', 'BridgeInterface', 'nope0', 'cni0'],
  ['interfaceNamePrefix', 'InterfaceNamePrefix', 'cali', 'cn'],
])('%s that no interface has is a warning where pods run on the node', async (field, mode, wrong, right) => {
  const given = await scenario();
  given.file('node-a', 'configz.json', null);
  const found = (name: string) => {
    given.file('node-a', 'addresses.json', JSON.stringify([{ifname: 'eth0', addr_info: [{local: '172.18.0.11'}]}, {ifname: 'cni0'}]));
    given.file('node-a', 'kube-proxy-config.yaml', `mode: iptables\ndetectLocalMode: ${mode}\ndetectLocal:\n  ${field}: ${name}\n`);
    return given.newFindings().filter(({code}) => code === 'ST701');
  };
  expect(found(wrong)).toMatchObject([{severity: 'warning', message: containing(`${mode} ${wrong}`, 'recognizes none of them')}]);
  expect(found(right)).toEqual([]);
});
