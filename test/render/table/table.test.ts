import {stripVTControlCharacters} from 'node:util';
import {describe, expect, test} from 'vitest';
import type {Finding} from '../../../src/model/finding.ts';
import {table, wide} from '../../../src/render/table/table.ts';
import {checkedNode, findingOf, hostile, numbered, plain, reportOf, ruleOf, unreadNode} from '../report.ts';

const nodes = ['node-a', 'node-b', 'node-c'];
const services = numbered('shop/web', 30);

function lines(text: string): readonly string[] {
  return text.split('\n');
}

function widest(text: string): number {
  return Math.max(...lines(text).map(line => line.length));
}

describe('three nodes', () => {
  test('a Service that fails on one of them has a row, the others are counted', () => {
    const report = reportOf({nodes, services, findings: [findingOf('node-b', 'shop/web-007')]});
    expect(table(report, plain)).toBe(`FAULTY: 1 error on 1 of 3 nodes (30 Services)

SERVICE       node-a  node-b  node-c
shop/web-007  ok      ST202   ok
the other 29 Services: ok on every node

ST202 error  missing-endpoint  node-b
  shop/web-007 is not as it should be
  do        Restart kube-proxy.
  more      kubectl svc-trace explain ST202`);
  });

  test('few Services are all shown, and all of them in the wide table', () => {
    const few = reportOf({nodes, services: services.slice(0, 3)});
    expect(lines(table(few, plain)).filter(line => line.startsWith('shop/'))).toHaveLength(3);
    const many = reportOf({nodes, services});
    expect(lines(wide(many, plain)).filter(line => line.startsWith('shop/'))).toHaveLength(30);
  });

  test('when all is well, one line says so', () => {
    expect(table(reportOf({nodes, services}), plain)).toBe('OK: 30 Services on 3 nodes, all programmed as they should be');
  });

  test('a node that was not read is neither well nor ill', () => {
    const report = reportOf({
      nodes: ['node-a', unreadNode('node-b', 'it has no iptables-save')],
      services: ['shop/web'],
      findings: [findingOf('node-b', null, {code: 'ST901', name: 'node-not-read', severity: 'warning'})],
    });
    expect(lines(table(report, plain)).slice(0, 5)).toEqual([
      'INCOMPLETE: 1 node could not be checked (node-b); of what was read (1 Service on 1 node) nothing fails',
      '',
      'SERVICE            node-a  node-b',
      '(the node itself)  ok      ST901',
      'shop/web           ok      ?',
    ]);
  });

  test('where something befell all Services, none of them is called well', () => {
    const flushed = findingOf('node-b', null, {code: 'ST305', name: 'no-service-rules'});
    expect(table(reportOf({nodes, services: ['shop/web'], findings: [flushed]}), plain)).toContain(`(the node itself)  ok      ST305    ok
shop/web           ok      (ST305)  ok`);
    expect(table(reportOf({nodes, services, findings: [flushed]}), plain)).toContain('the other 30 Services: no finding of their own');
  });

  test('the worst finding stands in the cell', () => {
    const report = reportOf({
      nodes,
      services: ['shop/web'],
      findings: [
        findingOf('node-a', 'shop/web', {code: 'ST208', severity: 'warning'}),
        findingOf('node-a', 'shop/web', {code: 'ST203'}),
        findingOf('node-a', 'shop/web', {code: 'ST218', severity: 'info'}),
        findingOf('node-b', 'shop/web', {code: 'ST218', severity: 'info'}),
      ],
    });
    expect(table(report, plain)).toContain('shop/web  ST203   ok ST218  ok');
  });
});

describe('300 nodes', () => {
  const many = numbered('node', 300);

  test('those that fare alike share a column, and the ill come first', () => {
    const report = reportOf({nodes: many, services, findings: [findingOf('node-123', 'shop/web-007')]});
    expect(table(report, plain)).toContain(`SERVICE       node-123  299 nodes
shop/web-007  ST202     ok
`);
  });

  test('the same finding on many of them is one block that names some', () => {
    const report = reportOf({nodes: many, services, findings: many.slice(0, 40).map(node => findingOf(node, 'shop/web-007'))});
    const text = table(report, plain);
    expect(text).toContain('ST202 error  missing-endpoint  node-001, node-002, node-003, node-004, node-005 and 35 more nodes');
    expect(text).toContain('SERVICE       40 nodes  260 nodes');
    expect(text.match(/^ST202/gm)).toHaveLength(1);
  });

  test('when each is ill in its own way, as many columns are shown as fit', () => {
    const findings = many.map((node, index) => findingOf(node, services[index % 30] ?? '', {code: `ST2${10 + (index % 9)}`}));
    const text = table(reportOf({nodes: many, services, findings}), {...plain, quiet: false});
    expect(widest(text.split('\n\n')[1] ?? '')).toBeLessThanOrEqual(100);
    expect(text).toMatch(/^\d+ more groups of nodes: widen the terminal, or use -o wide$/m);
    expect(wide(reportOf({nodes: many, services, findings}), plain)).not.toContain('more groups of nodes');
  });
});

describe('many findings', () => {
  const ill = numbered('shop/web', 100);
  const report = reportOf({nodes, services: ill, findings: ill.map(service => findingOf('node-a', service))});

  test('of one code some are shown and the rest is counted; the wide table has them all', () => {
    const text = table(report, plain);
    expect(text.match(/^ST202/gm)).toHaveLength(20);
    expect(text).toContain('  and 80 more of ST202; -o wide shows them\n  do        Restart kube-proxy.');
    expect(text).toContain('60 more Services with findings; -o wide shows them');
    expect(wide(report, plain).match(/^ST202/gm)).toHaveLength(100);
  });

  test('what to do is said once for findings that have it in common', () => {
    expect(table(report, plain).match(/Restart kube-proxy/g)).toHaveLength(1);
    const findings = [findingOf('node-a', 'shop/a', {remedy: 'One.'}), findingOf('node-a', 'shop/b', {remedy: 'Two.'})];
    expect(table(reportOf({nodes, services: ['shop/a', 'shop/b'], findings}), plain)).toMatch(/One\.[\s\S]*Two\./);
  });
});

describe('the width of the terminal', () => {
  const rule = `-A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.11.5:8080" -m statistic --mode random -j KUBE-SEP-633E3V2HVLGC6BYN`;
  const finding = findingOf('node-a', 'shop/web', {
    message: 'a sentence that is so long that it has to be broken somewhere, and is broken between two of its words, not inside of one',
    remedy: 'Advice that is long enough to be broken as well, in the same way, under its own beginning and not under the label.',
    expected: [ruleOf(rule)],
    actual: [ruleOf(rule, 461)],
  });
  const long = [
    'ip-10-0-1-2.eu-west-1.compute.internal',
    'ip-10-0-1-3.eu-west-1.compute.internal',
    'ip-10-0-1-4.eu-west-1.compute.internal',
  ];

  test.each([60, 80, 100, 132])('nothing is wider than a terminal of %i columns', width => {
    const report = reportOf({nodes: long, services: ['shop/web'], findings: [finding]});
    expect(widest(table(report, {...plain, width}))).toBeLessThanOrEqual(width);
  });

  test('names of nodes are cut in the middle, so that both ends can be told', () => {
    const text = table(reportOf({nodes: long, services: ['shop/web'], findings: [finding]}), {...plain, width: 90});
    expect(text).toContain('ip-10-0-1-2…e.internal  ip-10-0-1-3…e.internal');
  });

  test('away from a terminal a rule is one line, to be searched for', () => {
    const text = table(reportOf({nodes, services: ['shop/web'], findings: [finding]}), {...plain, width: Infinity});
    expect(text).toContain(`found     line 461: nat ${rule}\n`);
    expect(text).toContain(`expected  nat ${rule}\n`);
  });

  test('the parts of a broken rule hang under its beginning', () => {
    const text = table(reportOf({nodes, services: ['shop/web'], findings: [finding]}), {...plain, width: 80});
    expect(text).toContain(`  expected  nat -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http
            -> 10.244.11.5:8080" -m statistic --mode random -j
            KUBE-SEP-633E3V2HVLGC6BYN`);
  });
});

describe('how much is said', () => {
  const harmless = findingOf('node-a', 'shop/web', {code: 'ST215', name: 'orphan-chain', severity: 'info'});

  test('harmless findings are counted, and shown by -v and in the wide table', () => {
    const report = reportOf({nodes, services, findings: [harmless]});
    expect(table(report, plain)).toContain('1 harmless finding not shown; -o wide shows them');
    for (const text of [table(report, {...plain, verbose: true}), wide(report, plain)]) {
      expect(text).toContain('ST215 info  orphan-chain  node-a');
      expect(text).toContain('mode=iptables (proxy-mode)');
    }
  });

  test('-q leaves the verdict and the findings', () => {
    const report = reportOf({nodes, services, findings: [findingOf('node-a', 'shop/web-001'), harmless]});
    expect(lines(table(report, {...plain, quiet: true})).slice(0, 3)).toEqual([
      'FAULTY: 1 error on 1 of 3 nodes (30 Services)',
      '',
      'ST202 error  missing-endpoint  node-a',
    ]);
  });

  test('of Services that are not kube-proxy’s, the info is the answer', () => {
    const notServed: Finding = {...harmless, code: 'ST107', name: 'not-served-by-kube-proxy'};
    const report = {...reportOf({nodes, services: ['shop/headless'], findings: [notServed]}), services: []};
    expect(table(report, plain)).toMatch(/^OK: 1 Service, none of them for kube-proxy to serve\n[\s\S]*ST107 info/);
  });

  test('that nothing was asked for is not that all is well', () => {
    expect(table(reportOf({nodes, services: []}), plain)).toBe('NOTHING TO CHECK: no Service is in what was asked for');
    expect(table(reportOf({nodes: [], services}), plain)).toBe('OK as far as the API goes: 30 Services; no node was looked at');
  });
});

test('colour is there when it is wanted, and takes no room', () => {
  const report = reportOf({nodes, services, findings: [findingOf('node-b', 'shop/web-007')]});
  const coloured = table(report, {...plain, color: true});
  expect(coloured).toContain('\u001b[31mST202\u001b[39m');
  expect(stripVTControlCharacters(coloured)).toBe(table(report, plain));
});

test.each(Object.entries(hostile))('nothing hostile reaches the terminal: %s', (_, name) => {
  const rule = ruleOf(`-A ${name}`, 3);
  const findings = [
    findingOf(name, `shop/${name}`, {
      message: `${name} is ill`,
      remedy: `Look at ${name}.`,
      expected: [rule],
      actual: [{...rule, table: name}],
    }),
    findingOf(name, null, {code: 'ST901', severity: 'warning', message: name}),
  ];
  const settings = {[name]: {value: name, source: name}};
  for (const report of [
    reportOf({nodes: [{...checkedNode(name), settings}, unreadNode(`${name} 2`, name)], services: [`shop/${name}`], findings}),
    reportOf({nodes: [unreadNode(name, name)], services: [`shop/${name}`], findings: findings.slice(1)}),
  ]) {
    for (const text of [table(report, plain), wide(report, plain)]) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      expect(text.replaceAll('\n', '')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/);
      expect(lines(text)).not.toContain('OK: all is well');
    }
  }
});
