import {describe, expect, test} from 'vitest';
import type {Preview, Requirement} from '../../src/model/preview-result.ts';
import {previewRenderers} from '../../src/render/preview/preview-report.ts';
import {snapshotOf} from '../fixtures.ts';
import {previewOf, toNftables} from '../preview/previews.ts';
import {hostile} from './report.ts';

const options = {color: false, width: 120, quiet: false, verbose: false, failOn: 'error'} as const;

/** A switch of nodes that differ in what they need and in what they lose. */
async function ofNodes(): Promise<Preview> {
  const found = await toNftables();
  const [change] = found.changes;
  if (change === undefined) throw new Error('nothing changes');
  const of = (node: string, service: string) => ({...change, node, service: {namespace: 'shop', name: service}, effect: 'lost'}) as const;
  const needs = (node: string, name: Requirement['name'], status: Requirement['status']): Requirement => ({
    node,
    name,
    status,
    detail: name,
  });
  return {
    ...found,
    nodes: [
      ...['old', 'many', 'few-2', 'few-1', 'unsure'].map(name => ({name, basis: 'actual'}) as const),
      {name: 'gone', basis: 'unread', reason: 'no answer'},
    ],
    changes: [of('many', 'a'), of('many', 'b'), of('many', 'b'), of('few-1', 'a'), of('few-2', 'b'), of('unsure', 'a'), of('old', 'a')],
    requirements: [
      needs('old', 'kernel', 'unmet'),
      needs('old', 'nft', 'unknown'),
      needs('unsure', 'nft', 'unknown'),
      needs('many', 'nft', 'met'),
    ],
  };
}

describe('nodes are in the order to go in', () => {
  test('those that are ready and lose least come first, and those on which kube-proxy would not start last', async () => {
    const text = previewRenderers.table(await ofNodes(), options);
    const [, section = ''] = text.split('NODES, IN THE ORDER TO GO IN\n');
    expect(section.split('\n\n')[0]?.split('\n')).toEqual([
      'STEP  NODES         LOST  REQUIREMENTS',
      '1     few-2, few-1  1     met',
      '2     many          2     met',
      '3     unsure        1     unknown: nft',
      '-     old           1     unmet: kernel; unknown: nft',
      '-     gone          ?     not checked: no answer',
      '- begin with few-2 alone, and go on when it went as planned there',
      '    before   kubectl svc-trace preview -o json --output-file plan.json with the same flags',
      '    after    kubectl svc-trace check -A --plan plan.json --node few-2',
    ]);
  });

  test('as a table in Markdown and HTML, in which hostile text is text', async () => {
    const found = await ofNodes();
    const reason = `${Object.values(hostile).join(' ')} | <script>x</script>`;
    const unread = {...found, nodes: [...found.nodes, {name: 'mean', basis: 'unread', reason} as const]};
    const markdown = previewRenderers.markdown(unread, options).split('\n');
    expect(markdown).toContain('| 1 | few-2, few-1 | 1 | met |');
    const row = markdown.find(line => line.startsWith('| - | mean'));
    // Cells end at bars that are not escaped.
    expect(row?.split(/(?<!\\)\|/)).toHaveLength(6);
    expect(row).not.toContain('<script>');
    const page = previewRenderers.html(unread, options).replaceAll(/>\s+</g, '><');
    expect(page).toContain('<tr><td>1</td><td>few-2, few-1</td><td>1</td><td>met</td></tr>');
    expect(page).not.toContain('<script>x');
  });

  test('and there is none where manifests alone change, or nothing does', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const {api} = snapshot;
    const fewer = {...api, services: (api.services ?? []).slice(1)};
    for (const found of [previewOf(snapshot, {}), previewOf(snapshot, {}, fewer)])
      expect(previewRenderers.table(found, options)).not.toContain('IN THE ORDER');
  });
});
