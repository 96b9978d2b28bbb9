import {expect, test} from 'vitest';
import {endpoint, leaving} from '../cluster.ts';
import {containing} from '../scenario.ts';
import {here, promiseFindings} from './promise.ts';

const terminating = endpoint('10.244.1.6', 'node-a', leaving);

test('endpoints that serve while they terminate are unknown up to 1.25: an info', () => {
  expect(promiseFindings({version: '1.25.1', endpoints: [terminating]})).toEqual([
    {
      ...{code: 'ST705', severity: 'info', node: 'node-a', family: 'IPv4'},
      message: containing('kube-proxy v1.25.1 does not know what these Services use, and v1.26 does', 'are refused'),
    },
  ]);
});

test('the policy of a ClusterIP Service for its external IPs is unknown up to 1.28', () => {
  const spec = {type: 'ClusterIP', ports: [{port: 80}], externalIPs: ['203.0.113.7'], externalTrafficPolicy: 'Local'};
  const codes = (version: string): readonly string[] => promiseFindings({version, spec, ingress: []}).map(({code}) => code);
  expect(codes('1.28.3')).toEqual(['ST705']);
  expect(codes('1.29.1')).toEqual([]);
});

test('a ready endpoint, or a newer kube-proxy, leaves nothing to say', () => {
  expect(promiseFindings({version: '1.25.1', endpoints: [terminating, here]})).toEqual([]);
  expect(promiseFindings({version: '1.26.0', endpoints: [terminating]})).toEqual([]);
});
