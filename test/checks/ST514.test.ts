import {expect, test} from 'vitest';
import {trafficOf, webPort} from './traffic.ts';

const entry = webPort(['10.244.1.4', '10.244.1.5']);
const half = {expectedShare: 0.5};

test('reports an endpoint that gets none of 40 connections although the rules give it half, with the probability', () => {
  // 0.5 ** 40 is 9.1e-13.
  const found = trafficOf(entry, {'10.244.1.4': {newConnections: 40, ...half}, '10.244.1.5': {newConnections: 0, ...half}});
  expect(found).toEqual([
    {
      ...{code: 'ST514', endpoint: '10.244.1.5:8080'},
      message:
        'shop/web:http: 10.244.1.5:8080 gets none of 40 new connections, though the rules give it 50.0%; by chance that happens once in 1,100,000,000,000 times',
    },
  ]);
});

test('stays silent if the deviation may be random', () => {
  // 0.5 ** 19 is once in 524,288 times.
  const found = trafficOf(entry, {'10.244.1.4': {newConnections: 19, ...half}, '10.244.1.5': {newConnections: 0, ...half}});
  expect(found.map(({code}) => code)).not.toContain('ST514');
});

test('stays silent if something was not measured, and if affinity or a Local policy picks the endpoint', () => {
  const counts = {'10.244.1.4': {newConnections: 400, ...half}, '10.244.1.5': {newConnections: 0, ...half}};
  const affine = webPort(['10.244.1.4', '10.244.1.5'], {sessionAffinity: 'ClientIP'});
  const local = webPort(['10.244.1.4', '10.244.1.5'], {
    type: 'NodePort',
    externalTrafficPolicy: 'Local',
    ports: [{name: 'http', port: 80, nodePort: 30080}],
  });
  const codes = [
    ...trafficOf(affine, counts),
    ...trafficOf(local, counts),
    ...trafficOf(entry, {...counts, '10.244.1.6': {newConnections: null}}),
  ].map(({code}) => code);
  expect(codes.filter(code => code === 'ST514')).toEqual([]);
});
