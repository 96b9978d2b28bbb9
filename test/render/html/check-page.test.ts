import {describe, expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import type {Finding} from '../../../src/model/finding.ts';
import {isUnsafe} from '../../../src/render/renderer.ts';
import {checkPage, traceHtml} from '../../../src/render/html/pages.ts';
import {snapshotOf} from '../../fixtures.ts';
import {findingOf, hostile, numbered, plain, reportOf, ruleOf, unreadNode} from '../report.ts';
import {endpoint, entry, reportFullOf, trace} from '../traces.ts';

/** The text of all elements of a class, tags taken out. */
function texts(page: string, pattern: RegExp): readonly string[] {
  return [...page.matchAll(pattern)].map(([, text = '']) => text.replaceAll(/<[^>]*>/g, '').trim());
}

test('the verdict is the title and the heading, and the table has each Service and each node', () => {
  const findings = [findingOf('node-a', 'shop/web')];
  const page = checkPage(
    reportOf({nodes: ['node-a', unreadNode('node-b', 'no answer')], services: ['shop/api', 'shop/web'], findings}),
    plain,
  );
  expect(texts(page, /<h1>(.*)<\/h1>/g)).toEqual([
    'FAULTY: shop/web on node-a: an endpoint gets no traffic (ST202); 1 error on 1 of 1 checked node (2 Services: 1 in sync, 1 with findings); 1 of 2 nodes was not checked (node-b)',
  ]);
  expect(texts(page, /<tr data-service="shop[^>]*>(.*)/g)).toEqual(['shop/webST202', 'shop/apiok']);
  expect(page).toContain('<td class="error"><a href="#finding-1">ST202</a></td>');
  expect(page).toContain('<td class="unknown">?</td>');
  expect(page).toContain('<td class="remark">no answer</td>');
});

test('a healthy report has neither findings nor filters', () => {
  const page = checkPage(reportOf({nodes: ['node-a'], services: ['shop/web']}), plain);
  expect(page).toContain('<h1>OK: shop/web is in sync on 1 node</h1>');
  expect(page).not.toContain('<form');
  expect(page).not.toContain('class="finding');
});

test('each code of a cell links to its own finding', () => {
  const findings = [
    findingOf('node-a', 'shop/web'),
    findingOf('node-a', 'shop/web', {code: 'ST203', name: 'stale-endpoint', message: 'one too many'}),
    findingOf('node-b', null, {code: 'ST301', name: 'missing-base-rule'}),
    findingOf('node-b', null, {code: 'ST402', name: 'third-party-drop'}),
  ];
  const page = checkPage(reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web'], findings}), plain);
  const cells = [...page.matchAll(/<td class="[^"]*">(\(?<a href.*?)<\/td>/g)].map(([, cell = '']) => cell);
  expect(cells.map(cell => cell.replaceAll(/<[^>]*>/g, ''))).toEqual(['ST301,ST402', 'ST202,ST203', '(ST301,ST402)']);
  for (const cell of cells)
    for (const [, id = '', code = ''] of cell.matchAll(/<a href="#([^"]*)">([^<]*)<\/a>/g))
      expect(page).toMatch(new RegExp(`id="${id}"[\\s\\S]{0,400}?${code}`));
  expect(cells.map(cell => new Set(cell.match(/href="[^"]*"/g)).size)).toEqual([2, 2, 2]);
});

test('the nodes of a page from rules alone are neither in sync nor unread', () => {
  const {nodes, ...report} = reportOf({nodes: [unreadNode('dump.txt', 'from rules alone: nothing to compare with')], services: []});
  const page = traceHtml({...report, nodes, basis: 'rules'}, plain);
  expect(page).toContain('<th scope="row">dump.txt</th><td>rules alone</td>');
  expect(page).not.toMatch(/not checked|unread/);
});

test('a page contains its time, its source, and the command that made it', () => {
  const provenance = {
    command: 'kubectl svc-trace check -A',
    source: 'context kind',
    serverVersion: 'v1.36.2',
    takenAt: '2027-01-15T08:00:00Z',
  };
  const report = {...reportOf({nodes: ['node-a'], services: ['shop/web']}), scope: 'all namespaces'};
  const page = checkPage(report, {...plain, unixTime: 1_800_000_000.7, provenance});
  expect(texts(page, /<dt>(.*?<\/dd>)/g)).toEqual([
    'Made2027-01-15 08:00:00 UTC',
    'Read at2027-01-15 08:00:00 UTC',
    'Fromcontext kind',
    'Kubernetesv1.36.2',
    'Scopeall namespaces',
    'Commandkubectl svc-trace check -A',
  ]);
});

test.each(Object.entries({...hostile, markup: `</dd><script>"'&`}))('the source of a page is only text: %s', (_, text) => {
  const page = checkPage(reportOf({nodes: ['node-a'], services: ['shop/web']}), {
    ...plain,
    provenance: {command: text, source: text, serverVersion: text, takenAt: text},
  });
  expect(isUnsafe(page.replaceAll('\n', ''))).toBe(false);
  expect(page.match(/<script>/g)).toHaveLength(1);
});

test('a page has no external links except those to the pages of codes', () => {
  const page = checkPage(reportFullOf('web'), plain);
  const links = [...page.matchAll(/\b(?:href|src|action|srcset)="([^"]*)"/g)].map(([, link]) => link);
  expect(links.filter(link => !link?.startsWith('#'))).toEqual(['https://github.com/svc-trace/svc-trace/blob/main/docs/checks/ST202.md']);
  expect(page).not.toMatch(/url\(|@import/);
});

test.each(Object.entries({...hostile, markup: `</script><b>"'&`}))('text from the cluster is only text: %s', (_, name) => {
  for (const render of [checkPage, traceHtml]) {
    const page = render(reportFullOf(name), plain);
    expect(isUnsafe(page.replaceAll('\n', ''))).toBe(false);
    expect(page.match(/<\/script>/g)).toHaveLength(1);
    expect(page).not.toMatch(/<b>"/);
  }
});

test('a finding has its commands below the remedy; one of several in a block has its own if it differs', () => {
  const finding = (endpoint: string, command: string): Finding =>
    findingOf('node-a', 'shop/web', {endpoint, port: {name: 'http', protocol: 'TCP', port: 80}, message: `${endpoint} is lost`, command});
  const commandsOf = (findings: readonly Finding[]) =>
    texts(checkPage(reportOf({nodes: ['node-a'], services: ['shop/web'], findings}), plain), /<pre>(.*?)<\/pre>/gs);
  expect(commandsOf([finding('10.0.0.1:80', 'kubectl -n shop get <pods>')])).toEqual(['kubectl -n shop get &lt;pods&gt;']);
  const same = ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80'].map(endpoint => finding(endpoint, 'kubectl get pods'));
  expect(commandsOf(same)).toEqual(['kubectl get pods']);
  expect(commandsOf([...same.slice(1), finding('10.0.0.4:80', 'kubectl get nodes')])).toEqual(['kubectl get pods', 'kubectl get nodes']);
});

test('the same finding on many nodes is shown once, with ranges of nodes for the filters', () => {
  const nodes = numbered('node', 300);
  const findings = nodes
    .filter((_, index) => index !== 4)
    .map(node => findingOf(node, 'shop/web', {message: `shop/web is lost on ${node}`}));
  const page = checkPage(reportOf({nodes, services: ['shop/web'], findings}), plain);
  expect(page.match(/class="finding/g)).toHaveLength(1);
  expect(page).toMatch(/class="finding error"[^>]*data-nodes="0-3 5-299"/);
  expect(texts(page, /<th scope="col" title[^>]*>(.*?)<\/th>/g)).toEqual(['node-[001-004,006-300]', 'node-005']);
});

describe('findings of one cause', () => {
  const port = (name: string) => ({name, protocol: 'TCP', port: 80});
  const missing = (service: string, rest: Partial<Finding> = {}): Finding => findingOf('node-a', service, {port: port('http'), ...rest});
  const summaries = (page: string): readonly string[] => texts(page, /<summary>(.*?)<\/summary>/g);

  test('are one block with the remedy once, in which each finding is distinguishable', () => {
    const findings = ['shop/a', 'shop/b', 'shop/c'].map(service => missing(service));
    const page = checkPage(reportOf({nodes: ['node-a'], services: ['shop/a', 'shop/b', 'shop/c'], findings}), plain);
    expect(summaries(page).slice(0, 4)).toEqual([
      'ST202 error missing-endpoint: 3 findings on 3 Service ports on node-a',
      ...['shop/a:http', 'shop/b:http', 'shop/c:http'].map(place => `ST202 error missing-endpoint: ${place}`),
    ]);
    expect(page.match(/What to do/g)).toHaveLength(1);
    expect(page).toContain('<output id="shown" aria-live="polite" data-total="3">');
  });

  test('that are endpoints of one Service port name it', () => {
    const findings = ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80'].map(endpoint => missing('shop/web', {endpoint}));
    const page = checkPage(reportOf({nodes: ['node-a'], services: ['shop/web'], findings}), plain);
    expect(summaries(page)[0]).toBe('ST202 error missing-endpoint: 3 endpoints of shop/web:http on node-a');
    expect(summaries(page)[1]).toBe('ST202 error missing-endpoint: shop/web:http, 10.0.0.1:80');
  });

  test('are under the finding that they likely follow from', () => {
    const stopped = findingOf('node-a', null, {code: 'ST505', name: 'kube-proxy-not-syncing', remedy: 'Read its log.'});
    const findings = [stopped, ...['shop/a', 'shop/b', 'shop/c'].map(service => missing(service))];
    const page = checkPage(reportOf({nodes: ['node-a'], services: ['shop/a', 'shop/b', 'shop/c'], findings}), plain);
    expect(summaries(page)[0]).toBe('ST505 error kube-proxy-not-syncing on node-a, and 3 findings on 3 Services, likely from this cause');
    expect(page).toContain('<summary>3 findings on 3 Services, likely from this cause: 3 × ST202 missing-endpoint</summary>');
    expect(page.match(/class="block error" open/g)).toHaveLength(1);
    expect(page.indexOf('id="findings"')).toBeLessThan(page.indexOf('id="matrix"'));
  });

  test('are open and before the table if the cause is a warning, and its effects are errors', () => {
    const stopped = findingOf('node-a', null, {code: 'ST505', severity: 'warning', name: 'kube-proxy-not-syncing'});
    const services = ['shop/a', 'shop/b', 'shop/c'];
    const page = checkPage(
      reportOf({nodes: ['node-a'], services, findings: [stopped, ...services.map(service => missing(service))]}),
      plain,
    );
    expect(page.match(/class="block warning" open/g)).toHaveLength(1);
    expect(page.indexOf('id="findings"')).toBeLessThan(page.indexOf('id="matrix"'));
    const single = checkPage(reportOf({nodes: ['node-a'], services, findings: [missing('shop/a')]}), plain);
    expect(single.indexOf('id="findings"')).toBeGreaterThan(single.indexOf('id="matrix"'));
  });

  test('on many nodes are counted as in the heading', () => {
    const findings = ['node-a', 'node-b'].map(node => findingOf(node, 'shop/web', {message: `shop/web is lost on ${node}`}));
    const page = checkPage(reportOf({nodes: ['node-a', 'node-b'], services: ['shop/web'], findings}), plain);
    expect(page).toContain('<b>2</b> errors');
    expect(page.match(/data-count="(\d+)"/)?.[1]).toBe('2');
    expect(page).toContain('data-total="2"');
  });
});

describe('a big report', () => {
  const nodes = numbered('node', 300);
  const services = numbered('shop/svc', 5000);
  const rule = ruleOf('x'.repeat(3000), 1);
  // Every Service has a different fault on some nodes.
  const findings = services.flatMap((service, index) =>
    [0, 1, 2, 3].map(
      step => findingOf(nodes[(index * 7 + step * 31) % 300] ?? '', service, {actual: [rule], expected: Array(50).fill(rule)}) as Finding,
    ),
  );
  const traces = services.slice(0, 400).map(service => ({
    ...trace,
    service: {namespace: 'shop', name: service.slice(5)},
    entries: [
      {
        ...entry,
        endpoints: Array.from({length: 200}, (_, index) => ({...endpoint, hostPort: `10.0.0.${index}:80`, mark: 'stale' as const})),
      },
    ],
  }));
  const page = checkPage(reportOf({nodes, services, findings, traces}), plain);

  test('makes a page that a browser can open', () => expect(page.length).toBeLessThan(12_000_000));

  test('with -v leaves out neither findings nor Services and nodes', () => {
    const few = services.slice(0, 310);
    const all = checkPage(reportOf({nodes, services: few, findings: findings.slice(0, 4 * few.length)}), {...plain, verbose: true});
    // The same finding on four nodes is one.
    expect(all.match(/ id="finding-\d+"/g)).toHaveLength(few.length);
    expect(all.match(/<tbody>.*?<\/tbody>/s)?.[0].match(/<tr/g)?.length).toBeGreaterThanOrEqual(few.length);
    expect(all).not.toMatch(/not shown/i);
  });

  test('names what is left out', () => {
    expect(texts(page, /<p class="note">(.*?)<\/p>/gs)).toEqual([
      // 300 Services differ in their nodes; each of these is three rows, and one for the others like them: 75 have room.
      '3725 more Services with findings not shown; -v shows them',
      '80 more groups of nodes not shown; -v shows them',
      'Not shown: 4800 more of ST202. -v lists all, and so does -o json.',
      'Of Services with errors or warnings, on the nodes with these findings; svc-trace trace draws those of 4976 more Services.',
    ]);
    expect(page.match(/class="path"/g)).toHaveLength(24);
    expect(page).toContain('188 more endpoints');
  });
});

test('a page of a trace draws 60 pictures, counts the others, and draws all with -v', () => {
  const services = numbered('shop/svc', 70);
  const traces = services.map(service => ({...trace, service: {namespace: 'shop', name: service.slice(5)}}));
  const report = reportOf({nodes: ['node-a'], services, traces});
  expect(traceHtml(report, plain).match(/<figure/g)).toHaveLength(60);
  expect(traceHtml(report, plain)).toContain('10 more pictures not shown: svc-trace trace -v shows all.');
  expect(traceHtml(report, {...plain, verbose: true}).match(/<figure/g)).toHaveLength(70);
});

test('a page traces the Services that have findings, on the nodes with these findings', async () => {
  const {traces} = diagnose(await snapshotOf('faults/missing-endpoint'), {toolVersion: '0.0.0', trace: 'faulty'});
  expect(traces.map(({node, service}) => `${node} ${service.namespace}/${service.name}`)).toEqual(['node-a shop/web']);
  const healthy = diagnose(await snapshotOf('healthy/1.36-iptables'), {toolVersion: '0.0.0', trace: 'faulty'});
  expect(healthy.traces).toEqual([]);
});

test('all bars of a report have one scale', async () => {
  const report = diagnose(await snapshotOf('faults/frozen-node'), {toolVersion: '0', trace: 'faulty'});
  const ofService = (name: string) => ({...report, traces: report.traces.filter(({service}) => service.name === name)});
  const scales = (page: string) => [...new Set(texts(page, /(A full bar is \d+%)/g))];
  expect(scales(checkPage(ofService('web'), plain))).toEqual(['A full bar is 50%']);
  expect(new Set(report.traces.map(({service}) => service.name)).size).toBeGreaterThan(5);
  expect(scales(checkPage(report, plain))).toEqual(['A full bar is 100%']);
});
