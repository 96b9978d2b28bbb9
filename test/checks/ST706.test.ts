import {expect, test} from 'vitest';
import {containing} from '../scenario.ts';
import {promiseFindings} from './promise.ts';

const config = {clusterCIDR: '10.244.0.0/16', iptables: {masqueradeAll: true}};

test('masqueradeAll hides the addresses of pods: an info', () => {
  expect(promiseFindings({config})).toEqual([
    {
      ...{code: 'ST706', severity: 'info', node: 'node-a', family: 'IPv4'},
      message: containing('masqueradeAll is set', "to cluster IPs arrive with the node's address", 'shop/web'),
    },
  ]);
});

test('where a NetworkPolicy selects the endpoints, it is a warning', () => {
  const policy = {metadata: {namespace: 'shop', name: 'only-pods'}, spec: {podSelector: {matchLabels: {app: 'web'}}}};
  expect(promiseFindings({config, networkPolicies: [policy]}).map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST706 warning']);
});

test('without masqueradeAll nothing is said', () => {
  expect(promiseFindings({})).toEqual([]);
});
