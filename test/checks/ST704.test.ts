import {expect, test} from 'vitest';
import {containing} from '../scenario.ts';
import {here, promiseFindings, there} from './promise.ts';

test('IPVS mode sends packets to other nodes although the internal policy is Local: a warning', () => {
  expect(promiseFindings({mode: 'ipvs', spec: {internalTrafficPolicy: 'Local'}, endpoints: [there]})).toEqual([
    {
      ...{code: 'ST704', severity: 'warning', node: 'node-a', family: 'IPv4'},
      message: containing('ipvs mode cannot', 'to cluster IPs reach endpoints that they should not reach'),
    },
  ]);
});

test('IPVS mode gives pods the local endpoints of a load balancer alone: an info', () => {
  const found = promiseFindings({mode: 'ipvs', spec: {externalTrafficPolicy: 'Local'}});
  expect(found.map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST704 info']);
});

test('IPVS mode without Local policies, and the same Services in other modes, stay silent', () => {
  expect(promiseFindings({mode: 'ipvs'})).toEqual([]);
  expect(promiseFindings({mode: 'ipvs', spec: {internalTrafficPolicy: 'Local'}, endpoints: [here]})).toEqual([]);
  for (const mode of ['iptables', 'nftables'] as const) {
    expect(promiseFindings({mode, spec: {externalTrafficPolicy: 'Local'}})).toEqual([]);
    expect(promiseFindings({mode, spec: {internalTrafficPolicy: 'Local'}, endpoints: [there]})).toEqual([]);
  }
});
