import {expect, test} from 'vitest';
import type {Preview} from '../../src/model/preview-result.ts';
import {previewText} from '../../src/render/preview/preview-text.ts';

const nodes = Array.from({length: 30}, (_, index) => `worker-${String(index).padStart(2, '0')}`);

const preview: Preview = {
  before: {proxyMode: 'iptables', kubeProxyVersion: 'v1.36.0'},
  after: {proxyMode: 'nftables', kubeProxyVersion: 'v1.36.0'},
  services: 3,
  scope: [],
  settings: [],
  nodes: nodes.map(name => ({name, basis: 'expected'})),
  requirements: nodes.map(node => ({node, name: 'kernel', status: 'unknown', detail: 'the Node does not show its kernel'})),
  ports: [],
  changes: [],
  advice: [{topic: 'change', id: 'invalid-packets', reason: 'packets in state INVALID', remedy: 'Set tcpBeLiberal.', nodes}],
  notes: [],
};

test('many nodes are named by ranges', () => {
  const text = JSON.stringify(previewText(preview, false));
  expect(text).toContain('["nodes","worker-[00-29]"]');
  expect(text).toContain('on worker-[00-29] both sides are computed');
  expect(text).not.toContain('more');
});

test('with -v each node is named', () => {
  expect(JSON.stringify(previewText(preview, true))).toContain(`on ${nodes.join(', ')} both sides are computed`);
});
