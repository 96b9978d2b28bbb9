import {stripVTControlCharacters} from 'node:util';
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import type {DiagnoseOptions} from '../../../src/diagnosis/diagnose-node.ts';
import type {Family} from '../../../src/model/address.ts';
import type {Report} from '../../../src/model/report.ts';
import type {Finding} from '../../../src/model/finding.ts';
import {causeBlocks, membersOf} from '../../../src/render/finding-blocks.ts';
import {table, wide} from '../../../src/render/table/table.ts';
import {diagnosed} from '../../diagnosed.ts';
import {snapshotOf} from '../../fixtures.ts';
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
  test('a Service with an error on one of them has a row, and the others are counted', () => {
    const report = reportOf({nodes, services, findings: [findingOf('node-b', 'shop/web-007')]});
    expect(table(report, plain)).toBe(`FAULTY: shop/web-007 on node-b: an endpoint gets no traffic (ST202); 1 error on 1 of 3 nodes (30
Services: 29 in sync, 1 with findings)

SERVICE       node-a  node-b  node-c
shop/web-007  ok      ST202   ok
the other 29 Services: in sync on every node

ST202 error  missing-endpoint  node-b
  shop/web-007 is missing an endpoint
  do        Restart kube-proxy.
  more      kubectl svc-trace explain ST202`);
  });

  test('a few Services are all shown, and the wide table shows all Services', () => {
    const few = reportOf({nodes, services: services.slice(0, 3)});
    expect(lines(table(few, plain)).filter(line => line.startsWith('shop/'))).toHaveLength(3);
    const many = reportOf({nodes, services});
    expect(lines(wide(many, plain)).filter(line => line.startsWith('shop/'))).toHaveLength(30);
  });

  test('the columns of a thousand Services have the widths of the longest names among them', () => {
    const thousand = [...numbered('shop/web', 999), 'shop/a-name-that-is-longer-than-all-others'];
    const text = wide(reportOf({nodes, services: thousand, findings: [findingOf('node-b', 'shop/web-007')]}), plain);
    const rows = lines(text).filter(line => line.startsWith('shop/') || line.startsWith('SERVICE'));
    expect(rows).toHaveLength(1001);
    expect(rows.filter(row => row.search(/ (?:ok|node-a) /) !== 'shop/a-name-that-is-longer-than-all-others '.length)).toEqual([]);
    expect(rows.filter(row => row.includes('ST202'))).toHaveLength(1);
    expect(rows.filter(row => /^shop\/web-999 +ok +ok +ok$/.test(row))).toHaveLength(1);
  });

  test('without findings there is only one line', () => {
    expect(table(reportOf({nodes, services}), plain)).toBe('OK: 30 Services are in sync on all 3 nodes');
  });

  test('with -v each node says how far it is behind the API, where Services changed', () => {
    const behind = {...checkedNode('node-a'), lag: {seconds: 2.14, service: 'shop/web', changedServices: 3}};
    const hardly = {...checkedNode('node-d'), lag: {seconds: 0, service: 'shop/web', changedServices: 1}};
    const latest = {...checkedNode('node-b'), lag: {seconds: 0, changedServices: 1}};
    const text = table(reportOf({nodes: [behind, latest, 'node-c', hardly], services}), {...plain, verbose: true, width: Infinity});
    expect(lines(text).filter(line => line.startsWith('node-'))).toEqual([
      'node-a, node-b, node-c, node-d: iptables mode, kube-proxy v1.36.2, 1 rule; node-a 2.1 s behind the API (shop/web), node-b not behind the API (1 Service changed), node-d less than 0.1 s behind the API (shop/web)',
    ]);
    const alone = table(reportOf({nodes: [behind], services}), {...plain, verbose: true});
    expect(alone).toContain('\nnode-a: iptables mode, kube-proxy v1.36.2, 1 rule; 2.1 s behind the API (shop/web)\n');
  });

  test('with -v nodes with equal settings are listed once, whatever the number of their rules', () => {
    const many = numbered('node', 300).map((name, index) => ({...checkedNode(name), rules: 400 + (index % 7)}));
    const other = {...checkedNode('other'), settings: {mode: {value: 'iptables', source: 'flag'}}};
    const text = table(reportOf({nodes: [...many, other], services}), {...plain, verbose: true});
    expect(lines(text).slice(-4)).toEqual([
      'node-[001-300]: iptables mode, kube-proxy v1.36.2, 400 to 406 rules',
      '  mode=iptables (proxy-mode)',
      'other: iptables mode, kube-proxy v1.36.2, 1 rule',
      '  mode=iptables (flag)',
    ]);
  });

  test('a node that was not read is neither ok nor faulty', () => {
    const report = reportOf({
      nodes: ['node-a', unreadNode('node-b', 'it has no iptables-save')],
      services: ['shop/web'],
      findings: [findingOf('node-b', null, {code: 'ST901', name: 'node-not-read', severity: 'warning'})],
    });
    expect(lines(table(report, {...plain, width: Infinity})).slice(0, 5)).toEqual([
      'INCOMPLETE: 1 of 2 nodes was not checked (node-b): it has no iptables-save. No problems on the other node (shop/web in sync)',
      '',
      'SERVICE            node-a  node-b',
      '(the node itself)  ok      ST901',
      'shop/web           ok      ?',
    ]);
  });

  test('a warning of a node that was not read is none of the nodes that were', () => {
    const warning = (node: string, code: string) => findingOf(node, null, {code, severity: 'warning'});
    const first = (...findings: readonly Finding[]) =>
      lines(
        table(reportOf({nodes: ['node-a', unreadNode('node-b', 'its dump is truncated')], services: ['shop/web'], findings}), {
          ...plain,
          width: Infinity,
        }),
      )[0];
    expect(first(warning('node-b', 'ST506'))).toContain('(node-b): its dump is truncated. No problems on the other');
    expect(first(warning('node-b', 'ST506'), warning('node-a', 'ST208'))).toContain(
      '(node-b): its dump is truncated. node-a: endpoints get unequal shares of the traffic (ST208); 1 warning, no errors on',
    );
  });

  test('the first line says why nodes were not checked, and that others have another reason, in 240 characters', () => {
    const first = (...reasons: readonly string[]) =>
      table(reportOf({services: ['shop/web'], nodes: ['node-a', ...reasons.map((reason, index) => unreadNode(`node-${index}`, reason))]}), {
        ...plain,
        width: Infinity,
      }).split('\n')[0];
    expect(first('no answer', 'no answer')).toContain('(node-0, node-1): no answer. ');
    expect(first('no answer', 'no iptables')).toContain('(node-0, node-1): node-0: no answer, and 1 for another reason. ');
    expect(first('long '.repeat(90))).toContain(`: ${'long '.repeat(48)}[…]. `);
  });

  test('a Service that the API does not have affects none of the others', () => {
    const stale = findingOf('node-b', null, {code: 'ST205', name: 'stale-service'});
    const report = reportOf({nodes, services, findings: [stale]});
    expect(table(report, plain)).toContain('the other 30 Services: in sync on every node');
    expect(report.summary.servicesInSync).toBe(30);
  });

  test('if an error affects all Services of a node, none is ok there', () => {
    const flushed = findingOf('node-b', null, {code: 'ST305', name: 'no-service-rules'});
    expect(table(reportOf({nodes, services: ['shop/web'], findings: [flushed]}), plain)).toContain(`(the node itself)  ok      ST305    ok
shop/web           ok      (ST305)  ok`);
    expect(table(reportOf({nodes, services, findings: [flushed]}), plain)).toContain(
      'the other 30 Services: affected by ST305 on node-b, in sync on every other node',
    );
  });

  test('a node on which no Service works affects all of them: nothing jumps to the chain of Services', async () => {
    const report = diagnosed(await snapshotOf('faults/no-prerouting-hook'));
    expect(report.findings.map(({code, message}) => `${code} ${message}`)).toContainEqual(
      expect.stringMatching(/^ST301 .*: no Service works for pods/),
    );
    expect(table(report, plain).replaceAll('\n', ' ')).toContain(
      'the other 27 Services: affected by ST301 on node-b, in sync on every other node; 1 Service: in sync on every node',
    );
  });

  test('infos about the objects of a few Services are shown if nothing else is found', () => {
    const info = (code: string) => findingOf('', 'shop/web', {code, severity: 'info', message: `what ${code} says`});
    const found = (services: readonly string[], ...findings: readonly Finding[]) =>
      table(reportOf({nodes, services, findings}), plain).includes('what ST112 says');
    expect(found(['shop/web'], info('ST112'))).toBe(true);
    expect(found(['shop/web'], info('ST112'), findingOf('node-b', 'shop/web'))).toBe(false);
    expect(found(services, info('ST112'))).toBe(false);
    expect(table(reportOf({nodes, services: ['shop/web'], findings: [info('ST218')]}), plain)).toContain('1 info not shown');
  });

  test('an error of a node that may concern some Services only is not said to affect all of them', () => {
    const refusals = findingOf('node-b', null, {code: 'ST212', name: 'missing-reject'});
    const ofIPv6 = findingOf('node-b', null, {code: 'ST305', name: 'no-service-rules', family: 'IPv6'});
    for (const finding of [refusals, ofIPv6])
      expect(table(reportOf({nodes, services, findings: [finding]}), plain)).toContain(
        `the other 30 Services: may be affected by ${finding.code} on node-b, in sync on every other node`,
      );
  });

  test('a cell shows the codes of all errors and warnings, and no infos', () => {
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
    expect(table(report, plain)).toContain('shop/web  ST203,ST208  ok      ok');
  });
});

describe('the counts add up', () => {
  const withoutRules = {externalName: 1, headless: 1, otherProxy: 1};

  test('Services without kube-proxy rules are counted with the reason', () => {
    expect(table(reportOf({nodes, services, withoutRules}), {...plain, width: Infinity})).toBe(
      'OK: 30 Services are in sync on all 3 nodes (3 Services have no kube-proxy rules: 1 ExternalName, 1 headless, 1 other proxy)',
    );
    const text = table(reportOf({nodes, services, withoutRules, findings: [findingOf('node-b', 'shop/web-007')]}), plain);
    expect(lines(text).slice(0, 2).join(' ')).toBe(
      'FAULTY: shop/web-007 on node-b: an endpoint gets no traffic (ST202); 1 error on 1 of 3 nodes (33 Services: 29 in sync, 1 with findings, 3 without rules)',
    );
    expect(text).toContain(
      'the other 29 Services: in sync on every node\n3 Services have no kube-proxy rules: 1 ExternalName, 1 headless, 1 other proxy\n',
    );
  });

  test('a Service whose connections are rejected everywhere shows it in a column of the API, and is ok nowhere', () => {
    const {node: _node, ...empty} = findingOf('', 'shop/web-007', {code: 'ST101', name: 'no-ready-endpoint', severity: 'warning'});
    const text = table(reportOf({nodes, services, findings: [empty]}), plain);
    expect(text).toContain(
      'SERVICE       API    node-a   node-b   node-c\nshop/web-007  ST101  refused  refused  refused\nthe other 29 Services',
    );
    expect(lines(text).slice(0, 2).join(' ')).toBe(
      'OK with 1 warning: shop/web-007: no ready endpoint (ST101); 30 Services on all 3 nodes: 29 in sync, 1 with findings',
    );
  });

  test('findings of all Services are not placed on all nodes', () => {
    const {node: _node, ...empty} = findingOf('', 'shop/web-007', {code: 'ST101', name: 'no-ready-endpoint', severity: 'warning'});
    const only = services.filter(name => name === 'shop/web-007');
    const text = table(reportOf({nodes, services: only, findings: [empty]}), plain);
    expect(lines(text).slice(0, 2).join(' ')).toBe(
      'OK with 1 warning: shop/web-007: no ready endpoint (ST101); 1 Service on all 3 nodes: 1 with findings',
    );
  });

  test('if one port of several has no endpoint, the others are served', () => {
    const port = {name: 'admin', protocol: 'TCP', port: 81};
    const {node: _node, ...empty} = findingOf('', 'shop/web-007', {code: 'ST101', severity: 'warning', port});
    expect(table(reportOf({nodes, services, findings: [empty]}), plain)).toContain('shop/web-007  ST101  ok      ok      ok');
  });

  test('nodes without kube-proxy are counted separately', () => {
    const unsupported = {...checkedNode('node-d'), status: 'unsupported' as const, reason: 'Cilium serves it'};
    expect(table(reportOf({nodes: [...nodes, unsupported], services}), plain)).toBe(
      'OK: 30 Services are in sync on 3 of 4 nodes (1 without kube-proxy)',
    );
  });

  test('groups of nodes without a short range have their names below the table', () => {
    const faulty = ['ams-1', 'ber-7', 'cph-3', 'dub-2', 'edi-9', 'fra-4', 'gva-5'];
    const text = table(reportOf({nodes: faulty, services: ['shop/web'], findings: [findingOf('fra-4', 'shop/web')]}), plain);
    expect(text).toContain('SERVICE   fra-4  6 nodes (A)\nshop/web  ST202  ok\n(A) ams-1, ber-7, cph-3, dub-2, edi-9, gva-5\n');
  });
});

describe('300 nodes', () => {
  const many = numbered('node', 300);

  test('nodes with the same cells share a column, the faulty first', () => {
    const report = reportOf({nodes: many, services, findings: [findingOf('node-123', 'shop/web-007')]});
    expect(table(report, plain)).toContain(`SERVICE       node-123  node-[001-122,124-300]
shop/web-007  ST202     ok
`);
  });

  test('the same finding on many of them is one block that names some', () => {
    const report = reportOf({nodes: many, services, findings: many.slice(0, 40).map(node => findingOf(node, 'shop/web-007'))});
    const text = table(report, plain);
    expect(text).toContain('ST202 error  missing-endpoint  node-[001-040]');
    expect(text).toContain('SERVICE       node-[001-040]  node-[041-300]');
    expect(text.match(/^ST202/gm)).toHaveLength(1);
  });

  const third = many.filter((_, index) => index % 3 === 0);
  const stoppedAt = (node: string, index: number): readonly Finding[] => [
    findingOf(node, null, {code: 'ST505', severity: 'warning', message: `kube-proxy on ${node} is ${index} s old`}),
    // Each node lacks what its time explains: no two sets of nodes are the same.
    ...services.slice(0, 4 + (index % 7)).map(service => findingOf(node, service)),
  ];
  const olderAt = (node: string, index: number): readonly Finding[] => [
    ...services.slice(0, 4 + (index % 7)).map(service => findingOf(node, service)),
    findingOf(node, 'shop/web-030', {code: 'ST203', message: 'stale'}),
  ];

  test.each([
    ['says so', stoppedAt, 'kube-proxy does not apply changes (ST505)', 'ST505 warning'],
    ['is shown by the rules only', olderAt, 'kube-proxy no longer applies changes', 'ST202 error'],
  ])('of which a third stopped at different times, which %s, are one cause, first in line, row and block', (_, findingsAt, line, block) => {
    const text = table(reportOf({nodes: many, services, findings: third.flatMap(findingsAt)}), {...plain, width: 80});
    expect(lines(text).slice(0, 2).join(' ')).toContain(`FAULTY: 100 of 300 nodes: ${line}; `);
    expect(text).toMatch(/\nSERVICE +100 nodes \(A\) {2}200 nodes \(B\)\n\(the node itself\) +(?:ST505|outdated) +ok\n\(A\) node-\[001,/);
    expect(text.match(/^ST\d+ /gm)).toEqual([block.replace(/\w+$/, '')]);
    expect(text.replace(/\s+/g, ' ')).toMatch(/ 1[01] Services with findings only from the cause on the node itself; -o wide shows them /);
    expect(widest(text)).toBeLessThanOrEqual(80);
    expect(lines(text).length).toBeLessThan(30);
  });

  test('the wide table has the cause before its effects, and equal settings once, whatever the names of the nodes', () => {
    const named = many.map(name => ({...checkedNode(name), settings: {nodeName: {value: name, source: 'kube-proxy-config.yaml'}}}));
    const findings = third.flatMap(stoppedAt);
    const text = wide(reportOf({nodes: named, services, findings: findings.toSorted((a, b) => (a.code < b.code ? -1 : 1))}), plain);
    expect(text.match(/^ST\d+/gm)?.slice(0, 2)).toEqual(['ST505', 'ST505']);
    expect(text.match(/^ST202/gm)).toHaveLength(10);
    expect(text.match(/nodeName=.*/g)).toEqual(['nodeName=the name of the Node (kube-proxy-config.yaml)']);
  });

  test('nodes with a cause come first where not all columns fit', () => {
    const five = ['ip-10-0-0-1', 'ip-10-0-0-2', 'ip-10-0-0-3', 'ip-10-0-0-4', 'ip-10-0-0-5'].map(
      name => `${name}.eu-central-1.compute.internal`,
    );
    const off = findingOf(five[4] ?? '', null, {code: 'ST601', message: 'forwarding is off'});
    const text = table(reportOf({nodes: five, services, findings: [off, findingOf(five[0] ?? '', 'shop/web-001')]}), {...plain, width: 50});
    expect(text).toMatch(/\nSERVICE +ip-10-0-0-5 .*\n\(the node itself\) +ST601 /);
    expect(text).toMatch(/\n\d more columns? of nodes: /);
  });

  test('of many nodes, those with errors come before those that were not read', () => {
    const nodes = many.map((name, index) => (index < 20 ? unreadNode(name, 'no files') : name));
    const unread = many.slice(0, 20).map(node => findingOf(node, null, {code: 'ST901', severity: 'warning'}));
    const text = table(reportOf({nodes, services, findings: [...unread, findingOf(many[40] ?? '', 'shop/web-001')]}), {
      ...plain,
      width: 30,
    });
    expect(text).toMatch(new RegExp(`\\nSERVICE +${many[40]}\\n`));
  });

  test('nodes with different faults have as many columns as fit', () => {
    const findings = many.map((node, index) => findingOf(node, services[index % 30] ?? '', {code: `ST2${10 + (index % 9)}`}));
    const text = table(reportOf({nodes: many, services, findings}), {...plain, quiet: false});
    expect(widest(text.split('\n\n')[1] ?? '')).toBeLessThanOrEqual(100);
    expect(text).toMatch(/^\d+ more columns of nodes: widen the terminal, or use -o wide$/m);
    expect(wide(reportOf({nodes: many, services, findings}), plain)).not.toContain('more columns of nodes');
  });
});

describe('many findings', () => {
  test('beside one of the node are counted once', () => {
    const ofNode = findingOf('node-a', null, {code: 'ST402', name: 'dropped-by-other-rule'});
    const ofServices = services.slice(0, 3).map(name => findingOf('node-a', name, {code: 'ST402', name: 'dropped-by-other-rule'}));
    const members = causeBlocks([ofNode, ...ofServices]).flatMap(membersOf);
    expect(new Set(members).size).toBe(4);
    expect(members).toHaveLength(4);
  });

  const ill = numbered('shop/web', 100);
  const report = reportOf({nodes, services: ill, findings: ill.map(service => findingOf('node-a', service))});

  test('of one code on the same nodes are one block; the wide table has them all', () => {
    const text = table(report, plain);
    expect(text.match(/^ST202/gm)).toHaveLength(1);
    expect(text).toContain('  in all    100 findings on 100 Service ports: also shop/web-002, shop/web-003,');
    expect(text.replace(/\s+/g, ' ')).toContain('shop/web-009 and 91 more; -o wide shows each do Restart kube-proxy.');
    expect(text).toContain('shop/web-003          ST202   ok      ok\n(97 more like these)  ST202   ok      ok\n\n');
    expect(wide(report, plain).match(/^ST202/gm)).toHaveLength(100);
    expect(wide(report, plain).match(/^shop.*ST202/gm)).toHaveLength(100);
  });

  test('of Services that differ in where they have endpoints of their own are folded, and the row says so', () => {
    const local = {
      ...report,
      services: report.services.map((service, at) => ({...service, onlyOn: new Set([at % 2 === 0 ? 'node-b' : 'node-c'])})),
    };
    const text = table(local, plain);
    expect(text).toContain('shop/web-003          ST202   ok             local-only\n');
    expect(text).toContain('(97 more like these)  ST202   ok/local-only  ok/local-only\n');
  });

  test('rows with other codes are not folded together', () => {
    const other = ill.slice(0, 5).map(service => findingOf('node-b', service, {code: 'ST203'}));
    const text = table(reportOf({nodes, services: ill, findings: [...report.findings, ...other]}), plain);
    expect(text).toContain('shop/web-003          ST202   ST203   ok\n(2 more like these)   ST202   ST203   ok\n');
    expect(text).toContain('(92 more like these)  ST202   ok      ok\n');
  });

  test('a common remedy is shown once', () => {
    expect(table(report, plain).match(/Restart kube-proxy/g)).toHaveLength(1);
    const findings = [findingOf('node-a', 'shop/a', {remedy: 'One.'}), findingOf('node-a', 'shop/b', {remedy: 'Two.'})];
    expect(table(reportOf({nodes, services: ['shop/a', 'shop/b'], findings}), plain)).toMatch(/One\.[\s\S]*Two\./);
  });
});

describe('one cause is one block', () => {
  const port = {name: 'http', protocol: 'TCP', port: 80};
  const endpoints = numbered('10.0.0', 5).map(endpoint =>
    findingOf('node-b', 'shop/web', {port, endpoint, message: `${endpoint} gets no traffic`}),
  );

  test('endpoints of one Service port', () => {
    const text = table(reportOf({nodes, services: ['shop/web'], findings: endpoints}), plain);
    expect(text.match(/^ST202/gm)).toHaveLength(1);
    expect(text).toContain('  in all    5 endpoints of shop/web:http: also 10.0.0-002, 10.0.0-003, 10.0.0-004, 10.0.0-005; -o\n');
    expect(wide(reportOf({nodes, services: ['shop/web'], findings: endpoints}), plain).match(/^ST202/gm)).toHaveLength(5);
  });

  test('a kube-proxy that stopped and the findings on its node', () => {
    const stopped = findingOf('node-b', null, {code: 'ST505', name: 'kube-proxy-not-syncing', severity: 'warning'});
    const text = table(reportOf({nodes, services: ['shop/web'], findings: [...endpoints, stopped]}), plain);
    expect(text).not.toMatch(/^ST202/m);
    expect(text).toMatch(
      /^ST505 warning {2}kube-proxy-not-syncing {2}node-b\n.*\n {2}effects {3}5 findings on 1 Service, likely from this cause: 5 ×\s+ST202 missing-endpoint/m,
    );
  });

  test('findings of another node, and those that missed updates do not cause, have blocks of their own', () => {
    const stopped = findingOf('node-b', null, {code: 'ST505', name: 'kube-proxy-not-syncing', severity: 'warning'});
    const others = [findingOf('node-c', 'shop/web'), findingOf('node-b', 'shop/web', {code: 'ST211', name: 'masquerade-mismatch'})];
    const text = table(reportOf({nodes, services: ['shop/web'], findings: [...endpoints, ...others, stopped]}), plain);
    expect(text).toMatch(/^ST202 error {2}missing-endpoint {2}node-c$/m);
    expect(text).toMatch(/^ST211 error/m);
    expect(text).toContain('5 findings on 1 Service');
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

  test('names of nodes are shortened in the middle, so that both ends are visible', () => {
    const names = ['a', 'b', 'c'].map(letter => `${letter}-rather-long-name-of-a-node-${letter}.${letter}.internal`);
    const text = table(reportOf({nodes: names, services: ['shop/web'], findings: [{...finding, node: 'node-a'}]}), {...plain, width: 90});
    expect(text).toContain('a-rather-lo…a.internal  b-rather-lo…b.internal');
  });

  test('nodes of one domain have their host names as titles, and the domain below the table', () => {
    const text = table(reportOf({nodes: long, services: ['shop/web'], findings: [{...finding, node: long[0] ?? ''}]}), {
      ...plain,
      width: 80,
    });
    expect(text).toContain('SERVICE   ip-10-0-1-2  ip-10-0-1-3  ip-10-0-1-4');
    expect(text).toContain('node names end in .eu-west-1.compute.internal');
  });

  test('without a terminal a rule is one line, for searching', () => {
    const text = table(reportOf({nodes, services: ['shop/web'], findings: [finding]}), {...plain, width: Infinity});
    expect(text).toContain(`found     line 461: nat ${rule}`);
    expect(text).toContain(`expected  nat ${rule}\n`);
  });

  test('the lines of a wrapped rule are indented', () => {
    const text = table(reportOf({nodes, services: ['shop/web'], findings: [finding]}), {...plain, width: 80});
    expect(text).toContain(`  expected  nat -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http
            -> 10.244.11.5:8080" -m statistic --mode random -j
            KUBE-SEP-633E3V2HVLGC6BYN`);
  });
});

describe('the verbosity', () => {
  const harmless = findingOf('node-a', 'shop/web', {code: 'ST215', name: 'orphan-chain', severity: 'info'});

  test('harmless findings are counted, and shown by -v and in the wide table', () => {
    const report = reportOf({nodes, services, findings: [harmless]});
    expect(table(report, plain)).toContain('1 info not shown; -o wide shows it');
    for (const text of [table(report, {...plain, verbose: true}), wide(report, plain)]) {
      expect(text).toContain('ST215 info  orphan-chain  node-a');
      expect(text).toContain('mode=iptables (proxy-mode)');
    }
  });

  test('-q prints only the verdict and the findings', () => {
    const report = reportOf({nodes, services, findings: [findingOf('node-a', 'shop/web-001'), harmless]});
    expect(lines(table(report, {...plain, width: Infinity, quiet: true})).slice(0, 3)).toEqual([
      'FAULTY: shop/web-001 on node-a: an endpoint gets no traffic (ST202); 1 error on 1 of 3 nodes (30 Services: 29 in sync, 1 with findings)',
      '',
      'ST202 error  missing-endpoint  node-a',
    ]);
  });

  test('for Services that kube-proxy does not serve, the infos are shown', () => {
    const notServed: Finding = {...harmless, code: 'ST107', name: 'not-served-by-kube-proxy'};
    const report = reportOf({nodes, services: [], withoutRules: {headless: 1}, findings: [notServed]});
    expect(table(report, plain)).toMatch(/^OK: 1 Service has no kube-proxy rules: 1 headless\n[\s\S]*ST107 info/);
  });

  test('an empty scope is reported', () => {
    expect(table(reportOf({nodes, services: []}), plain)).toBe('no Services in scope');
  });
});

describe('the cause', () => {
  const shown = async (fault: string, options = {}) =>
    table(diagnosed(await snapshotOf(`faults/${fault}`)), {...plain, width: 200, ...options});

  test('a kube-proxy that stopped leads the first line, has one row, and is the first block; its Services are a number', async () => {
    const text = await shown('frozen-node');
    expect(lines(text)[0]).toMatch(
      /^FAULTY: node-b: kube-proxy stopped applying changes between 2026-11-21 08:57:10 and 09:20:28 UTC; 22 errors on 1 of 3 nodes, /,
    );
    expect(lines(text).find(line => line.startsWith('(the node'))).toMatch(/^\(the node itself\) +ok +outdated +ok$/);
    expect(lines(text).filter(line => /^shop\//.test(line))).toHaveLength(3);
    expect(text).toContain('10 Services with findings only from the cause on the node itself; -o wide shows them');
    expect(lines(text).filter(line => /^ST\d/.test(line))).toEqual([
      'ST201 error  service-not-programmed  node-b',
      'ST101 warning  no-ready-endpoint',
    ]);
  });

  test('says when kube-proxy stopped, and how long before the check', async () => {
    const text = await shown('frozen-node', {provenance: {command: '', readAt: '2026-11-21T12:21:00+00:00'}});
    expect(lines(text)[0]).toContain('stopped applying changes between 08:57:10 and 09:20:28 UTC, 3 h before the check; 22 errors');
    expect(text).toContain('\n  since     kube-proxy stopped applying changes between 08:57:10 and 09:20:28 UTC, 3 h before the check\n');
  });

  test('says which pods of the node a finding hits, and how many other Service ports lose connections', async () => {
    expect(await shown('frozen-node')).toContain(
      '\n  hits      5 pods on node-b cannot connect to shop/newborn:http. 10 more Service ports lose connections there\n',
    );
    expect(await shown('nat-flushed')).toContain('\n  hits      4 pods on node-a cannot reach any Service, nor can clients from outside\n');
  });

  test('findings of one severity are sorted by the connections that pods lose', () => {
    const hit = (service: string, share: number, pods?: number) =>
      findingOf('node-a', service, {message: service, remedy: service, hits: {share, effect: 'x', ...(pods === undefined ? {} : {pods})}});
    const findings = [hit('shop/a', 0, 90), hit('shop/b', 0.5, 10), hit('shop/c', 1, 40), hit('shop/d', 1), findingOf('node-a', 'shop/e')];
    const text = table(reportOf({nodes, services, findings}), plain);
    expect([...text.matchAll(/^ {2}(shop\/\w)/gm)].map(([, name]) => name).slice(0, 5)).toEqual([
      ...['shop/c', 'shop/b', 'shop/d', 'shop/a', 'shop/e'],
    ]);
  });

  test('an error of a whole node leads the first line', async () => {
    expect(lines(await shown('nat-flushed'))[0]).toMatch(
      /^FAULTY: node-a: no Service works over IPv4, kube-proxy's rules are missing \(ST305\); 1 error on 1 of 3 nodes/,
    );
  });

  test('the fault of one Service is its own cause', async () => {
    expect(lines(await shown('missing-endpoint'))[0]).toMatch(
      /^FAULTY: shop\/web on node-a: pod web-2 gets no traffic \(ST202\); 1 error on 1 of 3 nodes/,
    );
  });

  test('a block says what is wrong, what to do, and then the rules', async () => {
    const text = await shown('missing-endpoint');
    expect([...text.matchAll(/^ {2}(do|run|more|expected|found)/gm)].slice(0, 6).map(([, label]) => label)).toEqual([
      ...['do', 'run', 'more', 'expected', 'found', 'found'],
    ]);
  });

  test('of two rules that differ, the differing token has carets below it, or is red', async () => {
    const text = await shown('wrong-dnat');
    for (const address of ['192.0.2.10:5432', '192.0.2.66:5432']) {
      const at = lines(text).findIndex(line => line.endsWith(`--to-destination ${address}`));
      const column = lines(text)[at]?.indexOf(address) ?? 0;
      expect(lines(text)[at + 1]).toBe(' '.repeat(column) + '^'.repeat(address.length));
    }
    const colored = await shown('wrong-dnat', {color: true});
    expect(colored).toContain('--to-destination \u001b[31m192.0.2.66:5432\u001b[39m');
    expect(colored).not.toContain('^^');
    // One rule expected, two others found: none of them is the other, changed.
    expect(await shown('missing-endpoint')).not.toContain('^');
  });

  test('an error that explains others comes before other errors, a warning after them', () => {
    const hooked = findingOf('node-b', null, {code: 'ST301', name: 'services-chain-not-hooked'});
    const health = findingOf('node-a', null, {code: 'ST505', name: 'kube-proxy-not-syncing', severity: 'warning'});
    const text = table(reportOf({nodes, services, findings: [findingOf('node-c', 'shop/web-001'), hooked, health]}), plain);
    expect(lines(text).flatMap(line => /^ST\d+/.exec(line)?.[0] ?? [])).toEqual(['ST301', 'ST202', 'ST505']);
  });
});

describe('cells', () => {
  const healthy = snapshotOf('healthy/1.36-iptables');
  const check = async (names: readonly string[], rest: Partial<DiagnoseOptions> = {}) =>
    diagnose(await healthy, {toolVersion: '0', selects: ({metadata}) => names.length === 0 || names.includes(metadata.name), ...rest});

  test('a Service of Local policies is local-only on nodes without its endpoints, and ok where other clients are served', async () => {
    const text = table(await check(['both-local', 'internal-local', 'lb-local']), plain);
    expect(text).toMatch(/^shop\/both-local +ok +local-only +local-only$/m);
    expect(text).toMatch(/^shop\/internal-local +ok +local-only +local-only$/m);
    expect(text).toMatch(/^shop\/lb-local +ok +ok +ok$/m);
  });

  test('--skip and --only change no cell and no count of Services, and say how many findings are not shown', async () => {
    const [all, skipped, only] = [
      await check([]),
      await check([], {skip: new Set(['ST101'])}),
      await check([], {only: new Set(['ST202'])}),
    ];
    expect(skipped.findings).toEqual([]);
    expect(skipped.summary).toMatchObject({warnings: 0, servicesInSync: all.summary.servicesInSync, servicesWithFindings: 3, notShown: 3});
    expect(only.summary).toEqual(skipped.summary);
    const rows = (report: Report) => lines(table(report, plain)).filter(line => /^(?:SERVICE|shop\/)/.test(line));
    expect(rows(skipped)).toEqual(rows(all));
    expect(lines(table(skipped, {...plain, width: 200}))[0]).toBe(
      'OK for the codes asked for: 34 Services on all 3 nodes: 28 in sync, 3 with findings, 3 without rules; 3 findings of other codes not shown',
    );
  });

  test('a code can be left out for one Service, by --skip or by its annotation, which the first line and JSON say', async () => {
    const api = (await healthy).api;
    const annotated = (api.services ?? []).map(service =>
      service.metadata.name === 'sleepy'
        ? {...service, metadata: {...service.metadata, annotations: {'svc-trace.dev/skip': 'no-ready-endpoint, st1O1'}}}
        : service,
    );
    const options = {toolVersion: '0', skip: new Set(['ST101=shop/empty', 'ST102=shop/empty-lb'])};
    const report = diagnose({...(await healthy), api: {...api, services: annotated}}, options);
    expect(report.findings.filter(({severity}) => severity !== 'info').map(({code, service}) => `${code} ${service?.name}`)).toEqual([
      'ST101 empty-lb',
    ]);
    expect(report.summary).toMatchObject({
      ...{warnings: 1, servicesWithFindings: 3, notShown: 2},
      skipped: [
        {code: 'ST101', namespace: 'shop', name: 'empty', by: 'flag'},
        {code: 'ST101', namespace: 'shop', name: 'sleepy', by: 'annotation'},
      ],
    });
    const [first, , ...rest] = lines(table(report, {...plain, width: 400}));
    expect(first).toMatch(/; 2 findings skipped: ST101 of shop\/empty, ST101 of shop\/sleepy by annotation$/);
    expect(rest.join('\n')).toMatch(/^shop\/sleepy +ST101 +refused/m);
  });

  test('codes are links where the terminal shows them', async () => {
    const report = await check([]);
    const text = table(report, {...plain, links: true});
    expect(text).toContain(
      '\u001b]8;;https://github.com/svc-trace/svc-trace/blob/main/docs/checks/ST101.md\u001b\\ST101\u001b]8;;\u001b\\ warning',
    );
    expect(table(report, plain)).not.toContain('\u001b]8');
  });

  test('a Service of two families that is refused in one of them says which', () => {
    const refused = (family: Family): Finding => {
      const {node: _node, ...finding} = findingOf('', 'shop/web-001', {code: 'ST101', severity: 'warning', family});
      return finding;
    };
    const cellsWith = (...found: readonly Finding[]) => {
      const report = reportOf({nodes: ['node-a'], services: ['shop/web-001'], findings: found});
      const dual = {...report, services: report.services.map(service => ({...service, families: ['IPv4', 'IPv6'] as const}))};
      return lines(table(dual, plain)).find(line => line.startsWith('shop/web-001'));
    };
    expect(cellsWith(refused('IPv6'))).toMatch(/ST101 +IPv6 refused$/);
    expect(cellsWith(refused('IPv4'), refused('IPv6'))).toMatch(/ST101 +refused$/);
  });
});

test('a kube-proxy newer than the known rules is named without -v', () => {
  const newer = {...checkedNode('node-b'), kubeProxyVersion: 'v1.99.0'};
  expect(table(reportOf({nodes: ['node-a', newer], services}), {...plain, width: 200})).toContain(
    'kube-proxy v1.99.0 on node-b is newer than the newest known rules: it was checked against those of v1.37.',
  );
  expect(table(reportOf({nodes, services}), plain)).not.toContain('newer');
});

test('color does not change the layout', () => {
  const report = reportOf({nodes, services, findings: [findingOf('node-b', 'shop/web-007')]});
  const colored = table(report, {...plain, color: true});
  expect(colored).toContain('\u001b[31mST202\u001b[39m');
  expect(stripVTControlCharacters(colored)).toBe(table(report, plain));
});

test.each(Object.entries(hostile))('no escape sequence reaches the terminal: %s', (_, name) => {
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

describe('on a terminal of 80 columns', () => {
  const nodes = ['ip-10-0-3-17.eu-central-1.compute.internal', 'ip-10-0-3-18.eu-central-1.compute.internal', 'node-c'];
  const withoutRules = {externalName: 1, headless: 1, otherProxy: 1};
  const findings = nodes.map(node => findingOf(node, 'shop/web'));
  const report = reportOf({nodes: [...nodes, unreadNode('node-d', 'no answer')], services: ['shop/web'], withoutRules, findings});
  const linesAt = (width: number): readonly string[] => table(report, {...plain, width, verbose: true}).split('\n');

  test('no line is wider, and the words are those of unwrapped lines', () => {
    const lines = linesAt(80).filter(line => !line.startsWith('  run'));
    expect(lines.filter(line => line.length > 80)).toEqual([]);
    const words = (all: readonly string[]): string => all.join(' ').replaceAll(/\s+/g, ' ');
    const [verdict = ''] = linesAt(Infinity);
    expect(verdict.length).toBeGreaterThan(80);
    expect(words(lines)).toContain(verdict);
  });

  test('a pipe gets each sentence on one line', () => {
    const message = `${'many words '.repeat(30)}end`;
    const long = reportOf({nodes, services: ['shop/web'], findings: [findingOf('node-c', 'shop/web', {message})]});
    expect(table(long, {...plain, width: Infinity}).split('\n')).toContain(`  ${message}`);
  });
});
