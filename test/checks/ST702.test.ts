import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';
import {promiseFindings, there} from './promise.ts';

const local = {externalTrafficPolicy: 'Local'};

test('a clusterCIDR that is the network of Services is an error in IPVS mode: nodes get no answer', () => {
  expect(promiseFindings({mode: 'ipvs', config: {clusterCIDR: '10.96.0.0/12'}})).toEqual([
    {
      ...{code: 'ST702', severity: 'error', node: 'node-a', family: 'IPv4'},
      message: containing('clients in 10.96.0.0/12', 'the node itself to cluster IPs get no answer'),
    },
  ]);
});

test('pods that kube-proxy does not recognize are dropped at a load balancer that is Local, and ST504 does not say it again', () => {
  const found = promiseFindings({config: {clusterCIDR: '10.99.0.0/16'}, spec: local, endpoints: [there]});
  expect(found.map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST702 error']);
  expect(found[0]?.message).toContain('pods of the node to load-balancer IPs are dropped');
});

test('where pods are only masqueraded, ST504 says it alone', () => {
  const found = promiseFindings({config: {clusterCIDR: '10.99.0.0/16'}});
  expect(found.map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST504 warning']);
});

test('a detector that knows the pods of the node stays silent', () => {
  for (const config of [{clusterCIDR: '10.244.0.0/16'}, {detectLocalMode: 'NodeCIDR'}])
    for (const mode of ['iptables', 'nftables'] as const)
      expect(promiseFindings({mode, config, spec: local, endpoints: [there]})).toEqual([]);
});

test('without a detector, Services with the policy Cluster lose nothing', () => {
  expect(promiseFindings({config: {}})).toEqual([]);
});

test('where a clusterCIDR that is the network of Services only masquerades, ST504 says that it is', () => {
  for (const mode of ['iptables', 'nftables'] as const)
    expect(promiseFindings({mode, config: {clusterCIDR: '10.96.0.0/12'}})).toMatchObject([
      {code: 'ST504', severity: 'warning', message: containing('10.96.0.0/12 holds the cluster IPs of Services (10.96.0.10)')},
    ]);
});

test('a node without rules, whose settings no file says, has no detector that is known', async () => {
  const given = await scenario();
  for (const file of ['configz.json', 'kube-proxy-config.yaml', 'proxy-mode', 'kube-proxy-version', 'metrics', 'healthz.json'])
    given.file('node-a', file, null);
  const policies = (...chains: readonly string[]) => chains.map(chain => `:${chain} ACCEPT [0:0]\n`).join('');
  const nat = policies('PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING');
  const dump = `*nat\n${nat}COMMIT\n*filter\n${policies('INPUT', 'FORWARD', 'OUTPUT')}COMMIT\n`;
  for (const file of ['iptables-save', 'ip6tables-save']) given.file('node-a', file, dump);
  const codes = given.newFindings().map(({code}) => code);
  expect(codes).toContain('ST305');
  expect(codes).not.toContain('ST702');
});
