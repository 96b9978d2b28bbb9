import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import {causeBlocks, spreadBlocks} from '../../src/render/finding-blocks.ts';
import {causesOf} from '../../src/render/headline.ts';
import {effectsText} from '../../src/render/block-texts.ts';
import {snapshotOf} from '../fixtures.ts';
import {findingOf} from './report.ts';

async function frozen(): Promise<readonly Finding[]> {
  return diagnose(await snapshotOf('faults/frozen-node'), {toolVersion: ''}).findings.filter(({node}) => node !== undefined);
}

const of = (code: string, service: string, node = 'node-b'): Finding => findingOf(node, service, {code, name: code.toLowerCase()});
const counts = (findings: readonly Finding[]) => causeBlocks(findings).map(({finding, effects}) => `${finding.code} ${effects.length}`);

test('a node whose kube-proxy stopped is one block, even if only its rules show it', async () => {
  const findings = await frozen();
  const blocks = causeBlocks(findings);
  expect(blocks).toHaveLength(1);
  const [block] = blocks;
  expect(block?.effects).toHaveLength(findings.length - 1);
  expect(block === undefined ? '' : effectsText(block).head).toBe('21 more findings on 10 Services, likely from this cause');
});

test('spread blocks have one finding each', async () => {
  expect(spreadBlocks(await frozen())).toHaveLength(22);
});

test('a finding that no baseline knows stands for those that one knows', () => {
  const known = of('ST202', 'shop/a', 'node-b');
  const findings = [{...known, known: true as const}, of('ST203', 'shop/a'), of('ST201', 'shop/b')];
  expect(causeBlocks(findings).map(({finding, effects}) => [finding.code, effects.length])).toEqual([['ST203', 2]]);
});

test('another fault of a Service of the node excludes older rules as the cause', async () => {
  const findings = await frozen();
  expect(counts([...findings, of('ST208', 'shop/manual')]).every(text => text.endsWith(' 0'))).toBe(true);
});

test('rules that are only missing, or only unexpected, may have been deleted or added by hand', () => {
  expect(counts([of('ST201', 'shop/a'), of('ST202', 'shop/b'), of('ST206', 'shop/c')])).toEqual(['ST201 0', 'ST206 0', 'ST202 0']);
  expect(counts([of('ST203', 'shop/a'), of('ST205', 'shop/b'), of('ST212', 'shop/c')])).toEqual(['ST203 0', 'ST205 0', 'ST212 0']);
});

test('one Service does not show that the rules of the node are older', () => {
  expect(counts([of('ST202', 'shop/a'), of('ST203', 'shop/a'), of('ST206', 'shop/a')])).toEqual(['ST203 0', 'ST206 0', 'ST202 0']);
});

test('findings of two nodes that stopped at different times are one block, under a finding of both', () => {
  const both = ['node-b', 'node-c'].flatMap(node => [
    of('ST202', 'shop/a', node),
    of('ST203', 'shop/a', node),
    of('ST201', 'shop/b', node),
  ]);
  const later = ['shop/c', 'shop/d', 'shop/e'].map(service => of('ST205', service));
  const blocks = causeBlocks([...both, ...later].map(finding => ({...finding, message: finding.code})));
  expect(blocks.map(({nodes, effects, reason}) => [nodes.join(), effects.length, reason])).toEqual([['node-b,node-c', 5, 'older-rules']]);
});

test('the finding that kube-proxy does not sync stays the cause if it is present', () => {
  const cause = findingOf('node-b', null, {code: 'ST505', severity: 'warning'});
  const blocks = causeBlocks([of('ST202', 'shop/a'), of('ST203', 'shop/a'), of('ST201', 'shop/b'), cause]);
  expect(blocks.map(({finding, reason}) => [finding.code, reason])).toEqual([['ST505', 'cause']]);
});

test('blocks of more findings than the stack holds are put in order', () => {
  const finding = {code: 'ST202', severity: 'error', name: 'missing-endpoint', message: 'a', remedy: 'b', node: 'node-a'} as const;
  const other = {...finding, code: 'ST216', severity: 'warning', name: 'unexpected-rule'} as const;
  expect(causeBlocks([other, ...Array.from({length: 300_000}, () => finding)]).map(({finding: {code}}) => code)).toEqual([
    'ST202',
    'ST216',
  ]);
});

test('a node of which an agent says the same twice is counted once', () => {
  const finding = of('ST202', 'shop/a');
  expect(causesOf({findings: [finding, finding, of('ST202', 'shop/a', 'node-c'), finding]}, undefined).map(({nodes}) => nodes)).toEqual([
    ['node-b', 'node-c'],
  ]);
});
