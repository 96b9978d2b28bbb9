import {expect, test} from 'vitest';
import {trafficOf, webPort} from './traffic.ts';

test('reports open TCP connections to an address that is no longer an endpoint, with their number', () => {
  const found = trafficOf(webPort(['10.244.1.4']), {'10.244.1.4': {openConnections: 9}, '10.244.1.9': {openConnections: 3}});
  expect(found).toEqual([
    {
      ...{code: 'ST513', endpoint: '10.244.1.9:8080'},
      message: 'shop/web:http: 3 TCP connections are still open to 10.244.1.9:8080, which is no endpoint of the Service',
    },
  ]);
});

test('names the clients, and how long ago the oldest connection began', () => {
  const saidOf = (clients: readonly string[], oldest: number | null) =>
    trafficOf(
      webPort(['10.244.1.4']),
      {'10.244.1.9': {openConnections: 3}},
      {tracked: new Map([['10.244.1.9:8080', {clients, oldest}]])},
    )[0]?.message;
  expect(saidOf(['10.244.2.1', '10.244.2.2'], 320)).toMatch(
    /no endpoint of the Service; from 10\.244\.2\.1, 10\.244\.2\.2, the oldest for 320 s$/,
  );
  expect(saidOf(['10.1.1.1', '10.1.1.2', '10.1.1.3', '10.1.1.4'], null)).toMatch(
    /; from 10\.1\.1\.1, 10\.1\.1\.2, 10\.1\.1\.3 and others$/,
  );
});

test('reports an existing pod as not ready, or as no longer serving', () => {
  const entry = webPort([
    {address: '10.244.1.4', ready: false, serving: false},
    {address: '10.244.1.5', ready: false, serving: false, terminating: true},
  ]);
  const found = trafficOf(entry, {'10.244.1.4': {openConnections: 1}, '10.244.1.5': {openConnections: 2}});
  expect(found.map(({code, message}) => [code, message.split(', which ')[1]])).toEqual([
    ['ST513', 'is not ready'],
    ['ST513', 'terminates and no longer serves'],
  ]);
});

test('connections to a terminating pod that still serves, and UDP flows, stay silent', () => {
  const draining = webPort([{address: '10.244.1.4', ready: false, terminating: true}]);
  expect(trafficOf(draining, {'10.244.1.4': {openConnections: 4}})).toEqual([]);
  const udp = webPort(['10.244.1.4'], {ports: [{name: 'http', port: 80, protocol: 'UDP'}]});
  expect(trafficOf(udp, {'10.244.1.9': {openConnections: 4}})).toEqual([]);
});
