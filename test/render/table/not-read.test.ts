import {expect, test} from 'vitest';
import type {NodeReport} from '../../../src/model/report.ts';
import {table} from '../../../src/render/table/table.ts';
import {tree} from '../../../src/render/table/tree.ts';
import {checkedNode, hostile, plain, reportOf} from '../report.ts';

const refused = 'connection refused at port 10249 of the node (asked through the API server)';

function nodeWithout(name: string, ...notRead: NonNullable<NodeReport['notRead']>): NodeReport {
  return {...checkedNode(name), notRead};
}

const report = reportOf({
  nodes: [
    nodeWithout('node-a', {file: 'metrics', reason: refused}, {file: 'configz.json', reason: refused}),
    nodeWithout('node-b', {file: 'metrics', reason: refused}, {file: 'configz.json', reason: refused}),
    nodeWithout('node-c', {file: 'conntrack', reason: 'conntrack is not there'}),
  ],
  services: ['shop/web'],
});

test('-v lists what was not read, once for all nodes and files with the same reason', () => {
  const section = table(report, {...plain, verbose: true})
    .split('\n\n')
    .at(-1);
  expect(section?.split('\n')).toEqual([
    'Not read, and not required:',
    '  node-a, node-b: metrics, configz.json: connection refused at port 10249 of the node (asked through',
    '  the API server)',
    '  node-c: conntrack: conntrack is not there',
  ]);
  expect(tree(report, {...plain, verbose: true})).toContain('  node-c: conntrack: conntrack is not there');
});

test('without -v files that were not read are not shown', () => {
  expect(table(report, plain)).not.toContain('Not read');
  expect(tree(report, plain)).not.toContain('Not read');
});

test('a reason is escaped', () => {
  const evil = reportOf({nodes: [nodeWithout('node-a', {file: hostile.escape, reason: hostile.c1})], services: ['shop/web']});
  const text = table(evil, {...plain, verbose: true});
  expect(text).toContain('Not read');
  for (const part of [hostile.escape, hostile.c1]) expect(text).not.toContain(part);
});
