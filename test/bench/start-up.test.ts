import {expect, test} from 'vitest';
import {type StartUp, startUpTable} from './start-up.ts';

const cost = (name: string, milliseconds: number, asked?: StartUp['asked']): StartUp => {
  const one = {cpuSeconds: milliseconds / 1000, wallSeconds: (2 * milliseconds) / 1000, peakMebibytes: 50};
  return {name, median: one, least: {...one, cpuSeconds: one.cpuSeconds - 0.001}, asked};
};

const cells = (table: string) => table.split('\n').map(line => line.trim().split(/ {2,}/));

test('the start-up time is a multiple of that of node and of kubectl', () => {
  const results = [cost('node -e 0', 20), cost('kubectl version --client', 40), cost('Node.js: --help', 60)];
  expect(cells(startUpTable(results))).toEqual([
    ['CPU ms', 'least', 'wall ms', '/ node', '/ kubectl'],
    ['node -e 0', '20', '19', '40', '1.00', '0.50'],
    ['kubectl version --client', '40', '39', '80', '2.00', '1.00'],
    ['Node.js: --help', '60', '59', '120', '3.00', '1.50'],
  ]);
});

test('the cost of a live Service is a multiple of getting it, with the requests to the API server', () => {
  const asked = {requests: 1, sessions: 0, connections: 1, received: 900, sent: 4200};
  const results = [
    cost('node -e 0', 20),
    cost('kubectl get service web -o json', 50, asked),
    cost('Node.js: check shop/web', 150, {...asked, requests: 20, sessions: 7}),
  ];
  expect(cells(startUpTable(results)).slice(3)).toEqual([
    [
      'one Service of a live cluster',
      'CPU ms',
      'least',
      'wall ms',
      'CPU / get',
      'wall / get',
      'requests',
      'execs',
      'conns',
      'kB to',
      'kB from',
    ],
    ['kubectl get service web -o json', '50', '49', '100', '1.00', '1.00', '1', '0', '1', '0.9', '4.2'],
    ['Node.js: check shop/web', '150', '149', '300', '3.00', '3.00', '20', '7', '1', '0.9', '4.2'],
  ]);
});

test('without kubectl, the table does not mention it', () => {
  expect(cells(startUpTable([cost('node -e 0', 20)]))[1]).toEqual(['node -e 0', '20', '19', '40', '1.00', '-']);
});
