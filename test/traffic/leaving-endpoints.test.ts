import {expect, test} from 'vitest';
import type {EndpointSliceObject} from '../../src/model/api-objects.ts';
import {withLeavingEndpoints} from '../../src/traffic/node-survey.ts';
import {trafficReport} from '../../src/traffic/measure-traffic.ts';
import {webPort} from '../checks/traffic.ts';
import {endpoint, slice} from '../cluster.ts';
import {natTable, sampleOf, surveyOf, tracked} from './reads.ts';

const entry = webPort(['10.244.1.4']);
// The rules still give half of the connections to the endpoint that has gone.
const survey = surveyOf(entry, {'10.244.1.4': 0.5, '10.244.1.5': 0.5}, {kubeProxyMinor: 36});
const sliceOf = (addresses: readonly string[]): EndpointSliceObject =>
  slice(
    'shop/web',
    addresses.map(address => endpoint(address, 'k1')),
    {ports: [{name: entry.port.portName, port: 8080, protocol: 'TCP'}]},
  );
const [before, now] = [sliceOf(['10.244.1.4', '10.244.1.5']), sliceOf(['10.244.1.4'])];

function reportAt(seconds: number) {
  const changes = [{kind: 'EndpointSlice', at: 100_000, before, now}] as const;
  const of = withLeavingEndpoints(survey, {since: 0, changes}, seconds * 1000 - 15_000);
  const conntrack = [tracked(40_001, '5'), tracked(40_002, '4')].join('');
  const read = {
    survey: of,
    before: sampleOf(of, {at: seconds - 2, nat: natTable({4: 1, 5: 1}), conntrack}),
    after: sampleOf(of, {at: seconds, nat: natTable({4: 2, 5: 2}), conntrack}),
  };
  const {ports, findings} = trafficReport([read], {toolVersion: '1.0.0', isRate: true});
  return {
    states: Object.fromEntries((ports[0]?.endpoints ?? []).map(({hostPort, state}) => [hostPort, state])),
    found: findings.map(({code, endpoint: hostPort}) => `${code} ${hostPort}`),
  };
}

test('an endpoint that was removed a second ago is terminating, and its connections are no finding', () => {
  expect(reportAt(101)).toEqual({states: {'10.244.1.4:8080': 'ready', '10.244.1.5:8080': 'terminating'}, found: []});
});

test('it is stale when the grace period is over', () => {
  expect(reportAt(116)).toEqual({
    states: {'10.244.1.4:8080': 'ready', '10.244.1.5:8080': 'stale'},
    found: ['ST513 10.244.1.5:8080'],
  });
});
