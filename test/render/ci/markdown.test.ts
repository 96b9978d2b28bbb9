import {XMLParser, XMLValidator} from 'fast-xml-parser';
import {micromark} from 'micromark';
import {gfm, gfmHtml} from 'micromark-extension-gfm';
import {describe, expect, test} from 'vitest';
import type {Report} from '../../../src/model/report.ts';
import {escapeText, type RenderOptions} from '../../../src/render/renderer.ts';
import {causeBlocks, groupFindings, spreadBlocks} from '../../../src/render/finding-blocks.ts';
import {markdown} from '../../../src/render/ci/markdown.ts';
import {loud, reports} from '../real-reports.ts';
import {findingOf, numbered, plain, reportOf, ruleOf} from '../report.ts';

/** What GitHub Flavored Markdown makes of it; it has to be well-formed, so that nothing is left open. */
function rendered(report: Report, options: RenderOptions = plain): string {
  const html = micromark(markdown(report, options), {allowDangerousHtml: true, extensions: [gfm()], htmlExtensions: [gfmHtml()]});
  expect(XMLValidator.validate(`<html>${html}</html>`)).toBe(true);
  return html;
}

/** The text of these elements, as it would be shown. */
function textsOf(html: string, element: string): readonly string[] {
  const parser = new XMLParser({preserveOrder: true, trimValues: false, processEntities: true, htmlEntities: true});
  const texts: string[] = [];
  const text = (nodes: readonly Node[]): string =>
    nodes
      .map(
        node =>
          node['#text'] ??
          childrenOf(node)
            .map(children => text(children))
            .join(''),
      )
      .join('');
  const visit = (nodes: readonly Node[]): void => {
    for (const node of nodes) {
      if (Array.isArray(node[element])) texts.push(text(node[element]));
      for (const children of childrenOf(node)) visit(children);
    }
  };
  visit(parser.parse(`<html>${html}</html>`) as readonly Node[]);
  return texts;
}

type Node = {readonly '#text'?: string} & {readonly [name: string]: readonly Node[] | string};

function childrenOf(node: Node): readonly (readonly Node[])[] {
  return Object.values(node).filter(value => Array.isArray(value)) as (readonly Node[])[];
}

/** Without the invisible signs that keep GitHub from reading more into a text than stands there. */
function shown(text: string): string {
  return text.replaceAll('\u2060', '');
}

describe.each(Object.entries(reports))('a report: %s', (_, make) => {
  test.each([plain, loud])('has a verdict, a table with a row for each finding, and folded details for each', async options => {
    const report = await make();
    const html = rendered(report, options);
    const wanted = report.findings.filter(({severity}) => severity !== 'info' || options.verbose);
    const found = options.verbose ? groupFindings(wanted) : causeBlocks(wanted);
    const rows = textsOf(html, 'tr').length - (html.match(/<thead>/g) ?? []).length;
    const waited = report.wait === undefined ? 0 : report.wait.nodes.filter(({look}) => look !== 1).length;
    expect(rows - waited).toBe(Math.min(found.length, 40));
    expect(textsOf(html, 'summary')).toHaveLength(Math.min(found.length, 40));
    expect([...html.matchAll(/<\/?([a-z]+\d?)/g)].map(([, tag = '']) => tag).filter(tag => !harmless.has(tag))).toEqual([]);
    for (const [, link] of html.matchAll(/href="([^"]*)"/g)) expect(link).toMatch(/^https:\/\/github\.com\/svc-trace\/.*\/ST\d{3}\.md$/);
  });

  test('shows names, messages and rules unchanged', async () => {
    const report = await make();
    const html = rendered(report, loud);
    const groups = spreadBlocks(report.findings).slice(0, 40);
    const summaries = textsOf(html, 'summary').map(shown);
    for (const [index, {finding}] of groups.entries()) expect(summaries[index]).toContain(escapeText(finding.message));
    const cells = textsOf(html, 'td').map(shown);
    for (const {finding} of groups)
      if (finding.service !== undefined) expect(cells).toContain(escapeText(`${finding.service.namespace}/${finding.service.name}`));
    const rules = textsOf(html, 'pre').join('\n');
    for (const {finding} of groups)
      for (const {text} of finding.actual?.slice(0, 4) ?? []) expect(rules).toContain(escapeText(text.slice(0, 300)));
  });
});

const harmless = new Set('p strong em a table thead tbody tr th td details summary pre'.split(' '));

test('a run that waited names the nodes that have not converged, and the slow ones', () => {
  const wait = {
    ...{limitSeconds: 60, seconds: 60, looks: 9, clean: false},
    nodes: [{name: 'node-a', look: 1, seconds: 0.1}, {name: 'node-b', look: 2, seconds: 3.25}, {name: 'node|c'}],
  };
  const html = rendered(reportOf({nodes: ['node-a'], services: ['shop/web'], wait}));
  expect(textsOf(html, 'p')[1]).toBe('Not converged after 60 s.');
  expect(textsOf(html, 'td')).toEqual(['node|c', 'not yet', 'node-b', 'in 3.3 s']);
});

test('a port is not rendered as an image, nor a name as a link', () => {
  const finding = findingOf('www.example.com', 'shop/web', {message: 'shop/web:heart: see https://example.com, @team and a@example.com'});
  const html = rendered(reportOf({nodes: ['www.example.com'], services: [], findings: [finding]}));
  expect(html.match(/<a /g)).toHaveLength(1);
  expect(html).not.toContain(':heart:');
});

test('a comment stays within the size limit, however long the rules are', () => {
  const rules = Array.from({length: 4}, (_, line) => ruleOf('<'.repeat(500), line + 1));
  const findings = numbered('svc', 60).map(name => findingOf('node-a', `shop/${name}`, {actual: rules, expected: rules}));
  const text = markdown(reportOf({nodes: ['node-a'], services: [], findings}), loud);
  expect(text.length).toBeLessThan(65_536);
  const rows = text.split('\n').filter(line => line.startsWith('| error')).length;
  expect(rows).toBeGreaterThan(2);
  expect(text).toContain(`_${60 - rows} more are in the other output formats_`);
});

test('the verdict comes first, then a table, and the evidence is folded', () => {
  const finding = findingOf('node-a', 'shop/web', {message: 'it is lost', expected: [ruleOf('-A KUBE-SVC-X -j <none>')]});
  const parts = markdown(reportOf({nodes: ['node-a'], services: ['shop/web'], findings: [finding]}), plain).split('\n\n');
  expect(parts[0]).toBe(
    '**FAULTY: shop/web on node-a: an endpoint gets no traffic \\(ST202\\); 1 error on 1 of 1 node \\(1 Service with findings\\)**',
  );
  expect(parts[1]?.split('\n')[2]).toMatch(/^\| error \| \[ST202\]\(https:.*ST202\.md\) missing-endpoint \| shop\/web \| node-a \|$/);
  expect(parts.slice(2)).toEqual([
    '<details><summary>ST202 on node-a: it is lost</summary>',
    '<pre>\nexpected nat -A KUBE-SVC-X -j &lt;none&gt;\n</pre>',
    'Restart kube-proxy.',
    '</details>',
  ]);
});

test('the commands of a remedy are below it, those for kubectl apart from those for the node', () => {
  const command = (node: string) => `conntrack -L --dst '<none>'\nkubectl -n kube-system delete pod/kube-proxy-${node}`;
  const findings = ['a', 'b'].map(node => findingOf(node, 'shop/web', {message: 'it is lost', command: command(node)}));
  const parts = markdown(reportOf({nodes: ['a', 'b'], services: ['shop/web'], findings}), plain).split('\n\n');
  expect(parts.slice(3)).toEqual([
    'Restart kube-proxy.',
    'Run on the node:',
    "<pre>\nconntrack -L --dst '&lt;none&gt;'\n</pre>",
    'Run:',
    '<pre>\nkubectl -n kube-system delete pod/kube-proxy-a pod/kube-proxy-b\n</pre>',
    '</details>',
  ]);
});

test('where the nodes have commands of their own, that of the first is shown, with how many more there are', () => {
  const findings = ['a', 'b', 'c'].map(node => findingOf(node, 'shop/web', {message: 'it is lost', command: `iptables -t nat -S ${node}`}));
  const parts = markdown(reportOf({nodes: ['a', 'b', 'c'], services: ['shop/web'], findings}), plain).split('\n\n');
  expect(parts.slice(4, 6)).toEqual(['Run on the node, and likewise on 2 more nodes:', '<pre>\niptables -t nat -S a\n</pre>']);
});

test('the folded end contains time, source, scope and command', () => {
  const report = {...reportOf({nodes: ['node-a'], services: ['shop/web']}), scope: 'namespace shop'};
  const provenance = {
    ...{command: 'kubectl svc-trace check -n shop', source: 'context "kind" (https://127.0.0.1:6443)', serverVersion: 'v1.36.2'},
    readAt: '2026-11-21T10:00:00Z',
  };
  const html = rendered(report, {...plain, provenance});
  expect(textsOf(html, 'summary')).toEqual(['Where this report comes from']);
  expect(textsOf(html, 'td').map(shown)).toEqual([
    ...['read at', '2026-11-21T10:00:00Z', 'from', 'context "kind" (https://127.0.0.1:6443)', 'Kubernetes', 'v1.36.2'],
    ...['scope', 'namespace shop', 'command', 'kubectl svc-trace check -n shop'],
  ]);
});

test('findings with one cause share a row and a block, which counts them', () => {
  const cause = findingOf('node-a', null, {
    code: 'ST505',
    name: 'kube-proxy-not-syncing',
    severity: 'warning',
    message: 'it does not keep up',
  });
  const effects = numbered('svc', 22).map(name => findingOf('node-a', `shop/${name}`));
  const report = reportOf({nodes: ['node-a'], services: [], findings: [...effects, cause]});
  const html = rendered(report);
  expect(textsOf(html, 'summary')).toEqual(['ST505 on node-a: it does not keep up']);
  expect(shown(textsOf(html, 'p').join('\n'))).toContain('22 findings on 22 Services, likely from this cause: 22 × ST202 missing-endpoint');
  expect(textsOf(rendered(report, loud), 'summary')).toHaveLength(23);
});

test('the same finding on many Services of a node is one row that counts them', () => {
  const findings = numbered('svc', 6).map(name => findingOf('node-a', `shop/${name}`));
  const html = rendered(reportOf({nodes: ['node-a'], services: [], findings}));
  expect(textsOf(html, 'td').map(shown)).toContainEqual(expect.stringMatching(/^shop\/svc-0*1 and 5 more$/));
  expect(shown(textsOf(html, 'p').join('\n'))).toMatch(/In all 6 findings on 6 Service ports: also shop\/svc-0*2/);
});

test('a healthy report is one line', () => {
  expect(markdown(reportOf({nodes: ['node-a'], services: ['shop/web']}), plain)).toBe('**OK: shop/web is in sync on 1 node**');
});

test('a comment stays within the size limit', () => {
  const findings = numbered('svc', 500).map(name => findingOf('node-a', `shop/${name}`, {actual: [ruleOf('x'.repeat(5000), 1)]}));
  const text = markdown(reportOf({nodes: ['node-a'], services: [], findings}), loud);
  expect(text.length).toBeLessThan(65_536);
  expect(text).toContain('_460 more are in the other output formats_');
});

test('names cannot break the table, create links or tags, or mention anybody', () => {
  const name = 'a|b](http://evil) <img src=x> @maintainer `x`\n# head';
  const text = markdown(reportOf({nodes: [name], services: [], findings: [findingOf(name, `shop/${name}`)]}), plain);
  expect(text).not.toMatch(/<img|^# head|@maintainer/m);
  // Inside the tag of a summary Markdown is not read.
  expect(text.split('<details>')[0]).not.toContain('](http://evil)');
  expect(text.split('\n').filter(line => line.startsWith('| error'))).toHaveLength(1);
});
