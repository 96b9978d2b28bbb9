import {describe, expect, test} from 'vitest';
import {table, wide} from '../../src/render/table.ts';
import type {WaitReport} from '../../src/model/report.ts';
import {hostile, numbered, plain, reportOf} from './report.ts';

const wait: WaitReport = {
  ...{limitSeconds: 60, seconds: 12.34, looks: 5, clean: true},
  nodes: [
    {name: 'node-a', look: 1, seconds: 0.2},
    {name: 'node-b', look: 2, seconds: 1.26},
    {name: 'node-c', look: 5, seconds: 12.1},
  ],
};

function shown(given: WaitReport, render = table): string {
  return render(reportOf({nodes: given.nodes.map(({name}) => name), services: ['shop/web'], wait: given}), plain);
}

describe('the table of a run that waited', () => {
  test('names the nodes that it waited for, the slowest first', () => {
    expect(shown(wait).split('\n\n').at(-1)).toBe(`AS IT SHOULD BE after 12.3 s (--wait 60 s, 5 looks)
NODE    CONVERGED
node-c  after 12.1 s
node-b  after 1.3 s
1 node from the first look on`);
  });

  test('says first which nodes are not there yet', () => {
    const late = {...wait, seconds: 60, clean: false, nodes: [...wait.nodes, {name: 'node-d'}]};
    expect(shown(late)).toContain('NOT AS IT SHOULD BE after 60 s (--wait 60 s, 5 looks)\nNODE    CONVERGED\nnode-d  not yet\nnode-c ');
  });

  test('is short with many nodes, and whole in the wide one', () => {
    const many = {...wait, nodes: numbered('node', 300).map(name => ({name, look: 2, seconds: 1}))};
    expect(shown(many)).toContain('280 more nodes; -o wide shows them');
    expect(
      shown(many)
        .split('\n')
        .filter(line => line.endsWith('after 1 s')),
    ).toHaveLength(20);
    expect(
      shown(many, wide)
        .split('\n')
        .filter(line => line.endsWith('after 1 s')),
    ).toHaveLength(300);
  });

  test('shows names as they may be shown', () => {
    expect(shown({...wait, nodes: [{name: hostile.escape, look: 2, seconds: 1}]})).not.toContain('\u001b');
  });

  test('is as it ever was without --wait', () => {
    expect(table(reportOf({nodes: ['node-a'], services: ['shop/web']}), plain)).not.toContain('--wait');
  });
});
