import {expect, test} from 'vitest';
import {startUpTable} from './start-up.ts';

test('what it costs to start is told in units of node and of kubectl', () => {
  const table = startUpTable([
    {name: 'node -e 0', median: 20, least: 18},
    {name: 'kubectl version --client', median: 40, least: 39},
    {name: 'Node.js: --help', median: 60, least: 55},
  ]);
  expect(table.split('\n').map(line => line.trim().split(/ {2,}/))).toEqual([
    ['CPU ms', 'least', '/ node', '/ kubectl'],
    ['node -e 0', '20', '18', '1.00', '0.50'],
    ['kubectl version --client', '40', '39', '2.00', '1.00'],
    ['Node.js: --help', '60', '55', '3.00', '1.50'],
  ]);
});

test('where there is no kubectl, nothing is said of it', () => {
  expect(startUpTable([{name: 'node -e 0', median: 20, least: 18}])).toMatch(/20 {6}18 {8}1\.00 {11}-$/);
});
