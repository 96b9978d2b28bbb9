import {describe, expect, test} from 'vitest';
import {table, wide} from '../../../src/render/table/table.ts';
import type {WaitReport} from '../../../src/model/report.ts';
import {checkPage} from '../../../src/render/html/pages.ts';
import {findingOf, hostile, numbered, plain, reportOf, unreadNode} from '../report.ts';

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
    expect(shown(wait).split('\n\n').at(-1)).toBe(`CONVERGED in 12.3 s (--wait 60 s, 5 checks)
NODE    CONVERGED
node-c  in 12.1 s
node-b  in 1.3 s
1 node in sync from the first check`);
  });

  test('names first the nodes that have not converged', () => {
    const late = {...wait, seconds: 60, clean: false, nodes: [...wait.nodes, {name: 'node-d'}]};
    expect(shown(late)).toContain('NOT CONVERGED after 60 s (--wait 60 s, 5 checks)\nNODE    CONVERGED\nnode-d  not yet\nnode-c ');
  });

  test('names the nodes that were not waited for', () => {
    const unread = {...wait, clean: false, nodes: [{name: 'node-a', waitedFor: false as const}]};
    expect(shown(unread)).toContain('NODE    CONVERGED\nnode-a  not waited for: a permanent error keeps it from being read');
  });

  test('is short with many nodes, and complete in the wide table', () => {
    const many = {...wait, nodes: numbered('node', 300).map(name => ({name, look: 2, seconds: 1}))};
    expect(shown(many)).toContain('280 more nodes; -o wide shows them');
    expect(
      shown(many)
        .split('\n')
        .filter(line => line.endsWith('in 1 s')),
    ).toHaveLength(20);
    expect(
      shown(many, wide)
        .split('\n')
        .filter(line => line.endsWith('in 1 s')),
    ).toHaveLength(300);
  });

  test('escapes names', () => {
    expect(shown({...wait, nodes: [{name: hostile.escape, look: 2, seconds: 1}]})).not.toContain('\u001b');
  });

  test('is unchanged without --wait', () => {
    expect(table(reportOf({nodes: ['node-a'], services: ['shop/web']}), plain)).not.toContain('--wait');
  });
});

describe('the first line', () => {
  const first = (given: WaitReport, findings: Parameters<typeof reportOf>[0]['findings'] = []) =>
    table(reportOf({nodes: given.nodes.map(({name}) => name), services: ['shop/web'], wait: given, findings}), {
      ...plain,
      width: Infinity,
    }).split('\n', 1)[0];

  test('contains the time to converge', () => {
    expect(first(wait)).toBe('OK: shop/web is in sync on all 3 nodes; converged in 12.3 s');
    expect(first({...wait, looks: 1, seconds: 0.2})).toBe('OK: shop/web is in sync on all 3 nodes');
  });

  test('names the nodes that have not converged, and whose kube-proxy is the cause', () => {
    const late = {...wait, seconds: 60, clean: false, nodes: [...wait.nodes, {name: 'node-d'}, {name: 'node-e'}]};
    const lost = findingOf('node-d', 'shop/web');
    expect(first(late, [lost])).toBe(
      'FAULTY: shop/web on node-d: an endpoint gets no traffic (ST202); 1 error on 1 of 5 nodes (1 Service with findings); after 60 s not in sync: node-d, node-e',
    );
    const stuck = findingOf('node-d', null, {code: 'ST505', severity: 'warning'});
    expect(first(late, [lost, stuck])).toBe(
      'FAULTY: shop/web on node-d: an endpoint gets no traffic (ST202); 1 error on 1 of 5 nodes, 1 warning (1 Service with findings); after 60 s not in sync: node-d, node-e; kube-proxy does not keep up on node-d (ST505)',
    );
  });

  test('does not mention nodes that were not waited for', () => {
    const report = reportOf({
      ...{nodes: ['node-a', unreadNode('node-b', 'not for you')], services: ['shop/web']},
      wait: {
        ...wait,
        clean: false,
        nodes: [
          {name: 'node-a', look: 1, seconds: 0},
          {name: 'node-b', waitedFor: false},
        ],
      },
    });
    expect(table(report, {...plain, width: Infinity})).toMatch(
      /^INCOMPLETE: 1 of 2 nodes was not checked \(node-b\): not for you\. No problems on the other node \(shop\/web in sync\)$/m,
    );
  });
});

test('a page shows the wait beside the nodes', () => {
  const late = {...wait, clean: false, nodes: [...wait.nodes, {name: 'node-d'}]};
  const text = checkPage(reportOf({nodes: late.nodes.map(({name}) => name), services: ['shop/web'], wait: late}), plain);
  expect(text).toContain('<th scope="col">converged</th>');
  expect(text).toContain('<td class="ok">in 12.1 s</td>');
  expect(text).toContain('<td class="warning">not yet</td>');
});
