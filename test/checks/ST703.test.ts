import {expect, test} from 'vitest';
import {promiseFindings, there} from './promise.ts';

function inShort(given: Parameters<typeof promiseFindings>[0]): readonly string[] {
  return promiseFindings(given).flatMap(({code, severity, message}) =>
    code === 'ST703' ? [`${code} ${severity}: ${/ has a bug in (?<mode>\S+) mode/.exec(message)?.groups?.['mode']}`] : [],
  );
}

const local = {externalTrafficPolicy: 'Local', externalIPs: ['203.0.113.7']};

test('IPVS refuses external IPs of the policy Local up to 1.29, and the version that mends it is named', () => {
  expect(inShort({mode: 'ipvs', version: '1.27.1', spec: local})).toEqual(['ST703 error: ipvs']);
  const [found] = promiseFindings({mode: 'ipvs', version: '1.27.1', spec: local}).filter(({code}) => code === 'ST703');
  expect(found?.message).toMatch(/to external IPs are refused/);
  expect(found?.message).toMatch(/that v1\.(?:28\.6|30) does not have/);
});

test('IPVS from 1.30 on, or without an external IP, has no such bug', () => {
  expect(inShort({mode: 'ipvs', version: '1.31.1', spec: local})).toEqual([]);
  expect(inShort({mode: 'ipvs', version: '1.27.1', spec: {externalTrafficPolicy: 'Local'}})).toEqual([]);
});

test('nftables drops packets of a node without local endpoints to the load balancer up to 1.32', () => {
  const spec = {externalTrafficPolicy: 'Local'};
  expect(inShort({mode: 'nftables', version: '1.31.1', spec, endpoints: [there]})).toEqual(['ST703 error: nftables']);
  expect(inShort({mode: 'nftables', version: '1.34.1', spec, endpoints: [there]})).toEqual([]);
  expect(inShort({mode: 'nftables', version: '1.31.1', spec})).toEqual([]);
});

test('nftables 1.29 admits clients that loadBalancerSourceRanges do not hold', () => {
  const spec = {loadBalancerSourceRanges: ['192.168.0.0/16']};
  expect(inShort({mode: 'nftables', version: '1.29.1', spec})).toEqual(['ST703 error: nftables']);
  expect(inShort({mode: 'nftables', version: '1.30.1', spec})).toEqual([]);
});

test('a version that was only guessed is not called faulty', () => {
  expect(inShort({mode: 'ipvs', version: '1.27.1', isGuessed: true, spec: local})).toEqual([]);
});
