import {expect, test} from 'vitest';
import type {RenderOptions} from '../../../src/render/renderer.ts';
import {traceRenderers} from '../../../src/render/trace-index.ts';
import {counted} from '../../counted.ts';
import {snapshotOf} from '../../fixtures.ts';
import {plain} from '../report.ts';
import {traced, tracedIn} from '../traces.ts';

const verbose: RenderOptions = {...plain, width: Infinity, verbose: true};

async function bothOf(service: string, node?: string) {
  const capture = 'faults/missing-endpoint';
  return {with: tracedIn(counted(await snapshotOf(capture)), service, node), without: await traced(capture, service, node)};
}

test('the tree has counters with -v, and is otherwise unchanged', async () => {
  const report = await bothOf('shop/web');
  const text = traceRenderers.tree(report.with, verbose);
  expect(text).toContain('→ KUBE-SVC-67NZLRHBNDSAWJRO:404 (404 packets)');
  expect(text).toContain('KUBE-SEP-YE46JM77HMULEYF6:399 (399 packets)');
  expect(text).toContain('node-b, node-c (line numbers and counters of node-b)');
  expect(traceRenderers.tree(report.with, plain).replaceAll(' and counters', '')).toBe(traceRenderers.tree(report.without, plain));
});

test('a path that ends has the counters of the rule that ends it', async () => {
  const report = await bothOf('shop/empty', 'node-b');
  expect(traceRenderers.tree(report.with, verbose)).toMatch(/refused \(no endpoints\) {2}filter\/KUBE-SERVICES:(\d+) \(\1 packets\)/);
  expect(traceRenderers.dot(report.with, plain)).toMatch(/filter\/KUBE-SERVICES line (\d+), \1 packets/);
});

test.each(['svg', 'html'] as const)('%s has counters in the boxes, and beside their rules', async format => {
  const report = await bothOf('shop/web');
  const text = traceRenderers[format](report.with, plain);
  for (const words of [
    '>404 packets<',
    'line 404, 404 packets: nat -A KUBE-SERVICES',
    '>461 packets<',
    'line 345, 345 packets',
    'counters of node-b',
  ])
    expect(text).toContain(words);
  expect(traceRenderers[format](report.without, plain)).not.toMatch(/\d packets/);
});

test.each(['mermaid', 'dot'] as const)('%s has counters on the arrows', async format => {
  const report = await bothOf('shop/web');
  const text = traceRenderers[format](report.with, plain);
  for (const words of ['line 404, 404 packets', '33.3%, 461 packets', 'line 345, 345 packets', 'counters of node-b'])
    expect(text).toContain(words);
  expect(traceRenderers[format](report.without, plain)).not.toMatch(/\d packets/);
});

test('JSON has packets and bytes with each rule, and leaves them out if the dump has none', async () => {
  const report = await bothOf('shop/web', 'node-a');
  const [port] = JSON.parse(traceRenderers.json(report.with, plain)).traces;
  expect(port.entries[0].steps[0]).toMatchObject({line: 404, packets: 404, bytes: 404 * 60});
  expect(port.entries[0].endpoints[0].rewrite).toMatchObject({line: 345, packets: 345, bytes: 345 * 60});
  expect(traceRenderers.json(report.without, plain)).not.toContain('"packets"');
  expect(traceRenderers.yaml(report.with, plain)).toContain('packets: 404');
});
