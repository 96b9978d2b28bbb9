import {expect, test} from 'vitest';
import {containing} from '../scenario.ts';
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
