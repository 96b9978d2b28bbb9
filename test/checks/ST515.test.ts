import {expect, test} from 'vitest';
import {trafficOf, webPort} from './traffic.ts';

const entry = webPort(['10.244.1.4', '10.244.1.5']);
const half = {expectedShare: 0.5};
const messages = (found: readonly {readonly code: string; readonly message: string}[]) =>
  found.map(({code, message}) => [code, message.split('go to ')[1]]);

test('reports that session affinity sends all new connections to one endpoint', () => {
  const affine = webPort(['10.244.1.4', '10.244.1.5'], {sessionAffinity: 'ClientIP'});
  const found = trafficOf(affine, {'10.244.1.4': {newConnections: 40, ...half}, '10.244.1.5': {newConnections: 0, ...half}}, {clients: 1});
  expect(messages(found)).toEqual([['ST515', '10.244.1.4:8080, one of 2 endpoints: session affinity keeps each client on its endpoint']]);
  expect(found[0]?.message).toContain('all 40 new connections of 1 client go');
});

test('reports that long connections all go to one endpoint', () => {
  const found = trafficOf(entry, {'10.244.1.4': {openConnections: 30, ...half}, '10.244.1.5': half}, {clients: 64});
  expect(messages(found)).toEqual([
    ['ST515', '10.244.1.4:8080, one of 2 endpoints: a connection keeps the endpoint that it was opened to'],
  ]);
  expect(found[0]?.message).toContain('all 30 open connections of 64 clients or more go');
});

test('reports few new connections with their probability', () => {
  const found = trafficOf(entry, {'10.244.1.4': {newConnections: 6, ...half}, '10.244.1.5': half});
  expect(messages(found)).toEqual([
    ['ST515', '10.244.1.4:8080, one of 2 endpoints: they are few; by chance that happens once in 32 times'],
  ]);
});

test('connections to several endpoints, and fewer than five, stay silent', () => {
  expect(trafficOf(entry, {'10.244.1.4': {newConnections: 5, ...half}, '10.244.1.5': {newConnections: 1, ...half}})).toEqual([]);
  expect(trafficOf(entry, {'10.244.1.4': {newConnections: 4, ...half}, '10.244.1.5': half})).toEqual([]);
  expect(trafficOf(webPort(['10.244.1.4']), {'10.244.1.4': {newConnections: 50, expectedShare: 1}})).toEqual([]);
});
