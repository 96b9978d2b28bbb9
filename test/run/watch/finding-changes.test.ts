import {expect, test} from 'vitest';
import {styleOf} from '../../../src/render/renderer.ts';
import {changeLine, FindingChanges} from '../../../src/run/watch/watch-lines.ts';
import {findingOf, reportOf, unreadNode} from '../../render/report.ts';

const services = ['shop/web'];
const found = findingOf('node-a', 'shop/web');
const well = reportOf({nodes: ['node-a', 'node-b'], services});
const ill = reportOf({nodes: ['node-a', 'node-b'], services, findings: [found]});
const away = reportOf({nodes: [unreadNode('node-a', 'no answer'), 'node-b'], services});

function changesOf(...reports: readonly (typeof well)[]): readonly string[] {
  const changes = new FindingChanges(({severity}) => severity !== 'info');
  return reports.flatMap((report, at) =>
    changes
      .take(report, at)
      .map(
        change =>
          `${change.at} ${change.kind} ${'block' in change ? `${change.block.finding.code} ${change.block.nodes.join()}` : change.service}`,
      ),
  );
}

test('a finding is new once, resolved once, and may be new again', () => {
  expect(changesOf(well, ill, ill, well, ill)).toEqual(['1 came ST202 node-a', '3 went ST202 node-a', '4 came ST202 node-a']);
});

test('findings with one cause are one line, whether they are new or resolved', () => {
  const lost = (node: string) => [
    findingOf(node, null, {code: 'ST505', severity: 'warning', message: `kube-proxy on ${node} does not run`}),
    ...['shop/a', 'shop/b', 'shop/c'].map(service => findingOf(node, service)),
  ];
  const stopped = reportOf({nodes: ['node-a', 'node-b'], services, findings: ['node-a', 'node-b'].flatMap(lost)});
  const changes = new FindingChanges(() => true);
  const texts = [well, stopped, well].flatMap((report, at) => changes.take(report, at).map(change => changeLine(change, styleOf(false))));
  expect(texts).toEqual(
    ['new', 'resolved'].map(
      word => `${word} ST505 node-a, node-b kube-proxy on node-a does not run; 3 findings on 3 Services, likely from this cause`,
    ),
  );
});

test('a finding on an unread node is not resolved', () => {
  expect(changesOf(ill, away, ill, away, well)).toEqual(['0 stood ST202 node-a', '4 went ST202 node-a']);
});

test('the findings of a removed node are resolved', () => {
  expect(changesOf(ill, reportOf({nodes: ['node-b'], services}))).toEqual(['0 stood ST202 node-a', '1 went ST202 node-a']);
});

test('findings of the first check are not new, and Services that are added or deleted later are reported', () => {
  const other = reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web', 'shop/tmp']});
  expect(changesOf(ill, other, well)).toEqual(['0 stood ST202 node-a', '1 came shop/tmp', '1 went ST202 node-a', '2 went shop/tmp']);
});

test('a Service that existed only between two reports is reported with its time, and one in a report is not', () => {
  const other = reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web', 'shop/tmp']});
  const passed = ['shop/tmp', 'shop/brief'].map(service => ({service, createdAt: 2000, deletedAt: 12_000}));
  const told = (...reports: readonly (typeof well)[]): readonly string[] => {
    const changes = new FindingChanges(() => true);
    return reports.flatMap(report =>
      changes.take(report, 20_000, passed).map(change => `${change.at} ${changeLine(change, styleOf(false))}`),
    );
  };
  expect(told(other)).toEqual(['12000 new and deleted Service shop/brief (existed for 10 s)']);
  expect(told(other, well)).toEqual([
    '12000 new and deleted Service shop/brief (existed for 10 s)',
    '12000 new and deleted Service shop/brief (existed for 10 s)',
    '20000 deleted Service shop/tmp',
  ]);
});

test('a hidden finding is not reported', () => {
  expect(changesOf(reportOf({nodes: ['node-a'], services, findings: [{...found, severity: 'info'}]}))).toEqual([]);
});
