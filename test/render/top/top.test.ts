import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {Ajv2020} from 'ajv/dist/2020.js';
import {describe, expect, test} from 'vitest';
import type {TrafficReport} from '../../../src/model/traffic/traffic-report.ts';
import {topJson, topTable} from '../../../src/render/top/top-table.ts';
import {trafficReport} from '../../../src/traffic/measure-traffic.ts';
import {webPort} from '../../checks/traffic.ts';
import {type GivenSample, natTable, sampleOf, surveyOf, tracked} from '../../traffic/reads.ts';

const entry = webPort(['10.244.1.4', '10.244.1.5']);
const survey = surveyOf(entry, {'10.244.1.4': 0.5, '10.244.1.5': 0.5});

function reportOf(before: GivenSample | null, after: GivenSample): TrafficReport {
  const read = {survey, before: before === null ? null : sampleOf(survey, before), after: sampleOf(survey, after)};
  return trafficReport([read], {toolVersion: '1.0.0', isRate: before !== null});
}

const busy = reportOf(
  {at: 10, nat: natTable({4: 100, 5: 200}), conntrack: ''},
  {at: 12, nat: natTable({4: 140, 5: 242}), conntrack: tracked(1, '4') + tracked(2, '9')},
);
const noCounters = {at: 10, missing: {counters: 'iptables-save is not there', conntrack: 'conntrack is not there'}};

const table = (report: TrafficReport, given: Partial<Parameters<typeof topTable>[1]> = {}) =>
  topTable(report, {color: false, width: 80, quiet: false, wide: false, ...given}).split('\n');

describe('as a table', () => {
  test('reports that nothing was measured if no node was read, and not that no node serves the Services', () => {
    const node = (name: string, status: 'measured' | 'unread') => ({...busy.nodes[0], name, status, reason: 'not allowed'});
    const linesOf = (...nodes: readonly ReturnType<typeof node>[]) => table({...busy, ports: [], nodes} as TrafficReport, {width: 120})[0];
    expect(linesOf(node('a', 'unread'), node('b', 'unread'))).toBe('Not measured: 2 of 2 nodes could not be read');
    expect(linesOf(node('a', 'unread'), node('b', 'measured'))).toBe(
      'Not measured: 1 of 2 nodes could not be read; no other node serves these Services',
    );
    expect(linesOf(node('a', 'measured'))).toBe('No node serves these Services');
  });

  test('the first line has the result, and the table has conspicuous rows first', () => {
    expect(table(busy).slice(0, 7)).toEqual([
      'shop/web:http: 41.0 new connections/s on 1 node, spread over 2 endpoints as',
      'expected; 1 open to 1 address no longer serving; 2 open',
      '',
      'ENDPOINT         POD    STATE  EXPECTED  RULES  SHARE  NEW/S  OPEN',
      '10.244.1.9:8080  none   stale      0.0%   0.0%   0.0%    0.0     1',
      '10.244.1.4:8080  web-4  ready     50.0%  50.0%  48.8%   20.0     1',
      '10.244.1.5:8080  web-5  ready     50.0%  50.0%  51.2%   21.0     0',
    ]);
  });

  test('a share that is not random is reported first', () => {
    const uneven = reportOf({at: 10, nat: natTable({4: 0, 5: 0}), conntrack: ''}, {at: 12, nat: natTable({4: 90, 5: 10}), conntrack: ''});
    expect(table(uneven, {width: 200})[0]).toBe(
      'shop/web:http: 50.0 new connections/s on 1 node, uneven: 10.244.1.4:8080 gets 90% where the rules give it 50%; 0 open',
    );
  });

  test('what was not measured is a dash, with the reason below', () => {
    expect(table(reportOf(noCounters, {...noCounters, at: 12}))).toEqual([
      'shop/web:http: new connections were not measured on the node',
      '',
      'ENDPOINT         POD    STATE  EXPECTED  RULES  SHARE  NEW/S  OPEN',
      '10.244.1.4:8080  web-4  ready     50.0%  50.0%      -      -     -',
      '10.244.1.5:8080  web-5  ready     50.0%  50.0%      -      -     -',
      '',
      'Not measured (-):',
      '- k1: iptables-save is not there; open connections: conntrack is not there',
    ]);
  });

  test('totals are shown for one read', () => {
    const once = reportOf(null, {at: 10, nat: natTable({4: 1200, 5: 0}), conntrack: ''});
    expect(table(once)[0]).toBe('shop/web:http: 1,200 connections since kube-proxy wrote the rules, on 1 node,');
    expect(table(once)[3]).toContain('TOTAL');
  });

  test('names of pods are shortened if the terminal is too narrow', () => {
    const endpoints = (busy.ports[0]?.endpoints ?? []).map(endpoint => ({...endpoint, pod: 'shop/web-7d4b9c6f5d-x8z2k'}));
    const lines = table({...busy, ports: busy.ports.map(port => ({...port, endpoints}))}, {width: 72});
    // A command is never broken, so that it can be copied.
    const text = lines.filter(line => !line.startsWith('  on node '));
    for (const line of text) expect(line.length).toBeLessThanOrEqual(72);
    expect(lines.join('\n')).toContain(' web-7d4b9c…  ready ');
  });

  test('with -o wide each node has a row', () => {
    const row = table(busy, {wide: true, width: 120}).find(line => line.includes('k1') && line.includes('20.0'));
    expect(row?.trim().split(/\s+/)).toEqual(['k1', '50.0%', '50.0%', '48.8%', '20.0', '1', '0']);
  });
});

describe('as JSON', () => {
  const schema: object = JSON.parse(readFileSync(join(import.meta.dirname, '../../../docs/top.schema.json'), 'utf8'));
  const validate = new Ajv2020({allowUnionTypes: true}).compile(schema);

  test.each([
    ['with rates', busy],
    ['with totals', reportOf(null, {at: 10, nat: natTable({4: 7, 5: 8}), conntrack: ''})],
    ['with nothing', reportOf(noCounters, {...noCounters, at: 12})],
  ])('%s it matches the schema', (_, report) => {
    validate(JSON.parse(topJson(report)));
    expect(validate.errors).toBeNull();
  });

  test('rates are per second, and what was not measured is null', () => {
    const {interval, services} = JSON.parse(topJson(busy)) as {
      interval: number;
      services: {endpoints: {endpoint: string; nodes: object[]}[]}[];
    };
    expect(interval).toBe(2);
    expect(services[0]?.endpoints.find(({endpoint}) => endpoint === '10.244.1.5:8080')?.nodes).toEqual([
      {node: 'k1', newConnections: 21, openConnections: 0, closingConnections: 0, totalConnections: 242, expectedShare: 0.5, dueShare: 0.5},
    ]);
    const nothing = JSON.parse(topJson(reportOf(noCounters, {...noCounters, at: 12}))) as {services: {endpoints: {nodes: object[]}[]}[]};
    expect(nothing.services[0]?.endpoints[0]?.nodes[0]).toMatchObject({
      newConnections: null,
      openConnections: null,
      totalConnections: null,
    });
  });
});
