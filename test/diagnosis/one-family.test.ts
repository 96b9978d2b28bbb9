import {expect, test} from 'vitest';
import type {ServiceObject} from '../../src/model/api-objects.ts';
import {diagnose} from '../../src/diagnose.ts';
import {table} from '../../src/render/table/table.ts';
import {scenario} from '../scenario.ts';

const plain = {color: false, width: Infinity, quiet: false, verbose: false, failOn: 'error'} as const;

/** A node that has lost kube-proxy's rules of IPv6, checked for the Service of this name, or for all. */
async function checked(name?: string) {
  const given = await scenario();
  given.rules('node-b', 'ip6tables-save').deleteAll('-A KUBE-');
  const asked = name === undefined ? {} : {byName: true, selects: ({metadata}: ServiceObject) => metadata.name === name};
  return diagnose(given.snapshot(), {toolVersion: '0.0.0', nodes: one => one === 'node-b', ...asked});
}

test('a fault of IPv6 alone counts for the Services that have IPv6, and the others are in sync', async () => {
  const report = await checked();
  const dual = report.services.filter(({families}) => families?.includes('IPv6'));
  expect(dual.map(({name}) => name)).toEqual(['dual', 'six']);
  // Three Services have no ready endpoint.
  expect(report.summary).toMatchObject({servicesWithFindings: dual.length + 3, servicesInSync: report.services.length - dual.length - 3});
  expect(table(report, plain)).toContain('the other 2 Services: affected by ST305 on node-b; 26 Services: in sync on every node');
});

test('it is no fault of a Service that is asked for by name and has IPv4 alone', async () => {
  const report = await checked('web');
  expect(report.findings).toEqual([]);
  expect(report.summary).toMatchObject({verdict: 'ok', servicesInSync: 1});
});

test('it is one of a Service with both', async () => {
  const report = await checked('dual');
  expect(report.findings.map(({code, family}) => `${code} ${family}`)).toEqual(['ST305 IPv6']);
  expect(report.summary.servicesWithFindings).toBe(1);
});
