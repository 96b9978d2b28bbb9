import {expect, test} from 'vitest';
import {subjectTable} from './results-table.ts';

test('a cluster has a row for each command, as a multiple of the floor, and no growth exponent if the cluster is too small', () => {
  const cost = (value: number) => ({cpuSeconds: value, wallSeconds: value, peakMebibytes: 100 * value});
  const figures = (value: number) => ({median: cost(value), least: cost(value / 2), ratio: cost(value)});
  const table = subjectTable({
    ...{size: {services: 5000, endpoints: 50, nodes: 1, seed: 1}, bytes: 269_600_000, lines: 1_021_452},
    rows: [
      {program: 'floor', command: 'of one bundle', ...figures(1)},
      {program: 'Node.js', command: 'check -A', ...figures(3), growth: {cpu: 1.02, wall: 1}},
    ],
  });
  expect(table.split('\n').map(line => line.trim().split(/ {2,}/))).toEqual([
    ['5,000 Services x 50 endpoints, 1 node: 269.6 MB, 1,021,452 lines of dump'],
    ['CPU s', 'least', 'x floor', 'growth', 'wall s', 'x floor', 'MiB', 'x floor'],
    ['floor: of one bundle', '1.00', '0.50', '1.00', '-', '1.00', '1.00', '100', '100.00'],
    ['Node.js: check -A', '3.00', '1.50', '3.00', '^1.02', '3.00', '3.00', '300', '300.00'],
  ]);
});

test('beside a row stands what the page has of the same cluster, and what costs over 15 % more is marked', () => {
  const cost = {cpuSeconds: 3, wallSeconds: 3, peakMebibytes: 300};
  const row = {program: 'Node.js', median: cost, least: cost, ratio: cost} as const;
  const result = {size: {services: 5000, endpoints: 50, nodes: 1, seed: 1}, bytes: 0, lines: 0};
  const rows = [
    {...row, command: 'check -A'},
    {...row, command: 'diff'},
    {...row, command: 'packet'},
  ];
  const page = [
    ...['```', '5,000 Services x 5 endpoints, 1 node: 1.0 MB, 1 lines of dump', '  Node.js: diff   1.00  1.00  1.00', ''],
    ...['5,000 Services x 50 endpoints, 1 node: 1.0 MB, 1 lines of dump', '                 CPU s  least  x floor'],
    ...['  Node.js: check -A   2.64  2.61  2.43  ^0.68', '  Node.js: diff    8.78   8.56   3.88  ^0.90', '```', ''],
  ].join('\n');
  const floors = subjectTable({...result, rows}, page)
    .split('\n')
    .map(line => line.trim().split(/ {2,}/).at(-1));
  expect(floors.slice(1)).toEqual(['page', '2.43 worse', '3.88', '-']);
});
