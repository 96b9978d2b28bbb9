import {execFileSync} from 'node:child_process';
import {XMLParser, XMLValidator} from 'fast-xml-parser';
import {describe, expect, test} from 'vitest';
import type {Report} from '../../../src/model/report.ts';
import {dot, mermaid} from '../../../src/render/graph/graph-languages.ts';
import {isUnsafe} from '../../../src/render/renderer.ts';
import {svg} from '../../../src/render/graph/svg.ts';
import {describeWith} from '../../require.ts';
import {hostile, plain, unreadNode} from '../report.ts';
import {reportFullOf, traced} from '../traces.ts';

const texts: Readonly<Record<string, string>> = {
  ...hostile,
  mermaid: '"]; click g1b1 "javascript:alert(1)" %%{init: {"theme":"dark"}}%% `x`; end --> #quot;',
  dot: '"]; evil [label="\\N \\l &quot; <b>',
  markup: `</text></title></style><script>alert('1')</script> ]]> & "x" onload="y"`,
};

test.each([mermaid, dot, svg])('a picture shows the faults of a whole node, and the nodes that were not checked', async render => {
  const report = await traced('faults/no-prerouting-hook', 'shop/web');
  const text = render({...report, nodes: [...report.nodes, unreadNode('node-x', 'no answer')]}, plain);
  expect(text).toContain('✗ ST301 error services-chain-not-hooked on node-b: ');
  expect(text).toContain('node-x: no answer');
});

describe('mermaid', () => {
  const statements = [
    /^flowchart LR$/,
    /^ {2}heading\["[^"]*"\]$/,
    /^ {2}subgraph g\d+\["[^"]*"\]$/,
    /^ {4}direction LR$/,
    /^ {4}g\d+b\d+(\(\[|\[|\(|\{\{)"[^"]*"(\]\)|\]|\)|\}\})(:::fault)?$/,
    /^ {4}g\d+b\d+ (-->|-\.->)(\|"[^"]*"\|)? g\d+b\d+$/,
    /^ {2}end$/,
    /^ {2}classDef fault fill:/,
  ];

  test('each line is a statement, and faults are dashed and have their own class', async () => {
    const text = mermaid(await traced('faults/missing-endpoint', 'shop/web'), plain);
    for (const line of text.split('\n')) expect(statements.filter(statement => statement.test(line))).toHaveLength(1);
    expect(text).toContain('g1b2 -->|"line 404"| g1b1');
    expect(text).toContain('("✗ 10.244.11.5:8080 missing<br/>shop/web-2 on node-a<br/>ready"):::fault');
    expect(text).toContain('-.->|"66.7%"|');
  });

  test.each(Object.entries(texts))('a name cannot become a statement, a tag, a directive or Markdown: %s', (_, name) => {
    const lines = mermaid(reportFullOf(name), plain).split('\n');
    for (const line of lines) expect(statements.filter(statement => statement.test(line))).toHaveLength(1);
    const labels = lines.flatMap(line => [...line.matchAll(/"([^"]*)"/g)].map(([, label = '']) => label.replaceAll('<br/>', '')));
    expect(labels.join('')).not.toMatch(/[`<>&"[\]{}]|%%/);
    expect(labels.join('')).not.toMatch(/#(?!quot;|\d+;)/);
  });
});

describeWith(['dot'], 'dot', () => {
  /** What Graphviz read, as it says itself. */
  function parsed(report: Report): {objects: {name: string; label?: string}[]; edges?: {label?: string; style?: string}[]} {
    return JSON.parse(execFileSync('dot', ['-Tdot_json'], {input: dot(report, plain), encoding: 'utf8', stdio: 'pipe'}));
  }

  test('Graphviz draws it', async () => {
    const report = await traced('faults/missing-endpoint', 'shop/web');
    const {objects, edges = []} = parsed(report);
    expect(objects.filter(({name}) => name.startsWith('cluster')).map(({label}) => label)).toEqual([
      'shop/web:http port 80/TCP on node-a',
      'shop/web:http port 80/TCP on node-b, node-c (line numbers of node-b)',
    ]);
    expect(
      edges
        .filter(({style}) => style === 'dashed')
        .map(({label}) => label)
        .toSorted(),
    ).toEqual(['0%', '66.7%', 'line 399']);
    expect(execFileSync('dot', ['-Tsvg'], {input: dot(report, plain), encoding: 'utf8'})).toContain('10.244.11.5:8080 missing');
  });

  test.each(Object.entries(texts))('a name cannot become a statement: %s', (_, name) => {
    const {objects, edges = []} = parsed(reportFullOf(name));
    expect(objects.map(({name: id}) => id)).toEqual(['cluster_1', 'g1b1', 'g1b2', 'g1b3', 'g1b4', 'g1b5', 'g1b6', 'g1b7']);
    expect(edges).toHaveLength(6);
  });

  test('names are shown unchanged', () => {
    const shown = execFileSync('dot', ['-Tsvg'], {input: dot(reportFullOf('a\\Nb &lt; "c"'), plain), encoding: 'utf8'});
    const text = shown.replaceAll('&#45;', '-').replaceAll('&#39;', "'").replaceAll('&quot;', '"').replaceAll('&amp;', '&');
    expect(text).toContain('a\\Nb &lt; "c"');
  });
});

describe('svg', () => {
  test('is XML with a title and the words of every box', async () => {
    const text = svg(await traced('faults/missing-endpoint', 'shop/web'), plain);
    expect(XMLValidator.validate(text)).toBe(true);
    const {svg: root} = new XMLParser({ignoreAttributes: false}).parse(text);
    expect(root.title['#text']).toBe('Packet path to shop/web');
    expect(root['@_role']).toBe('img');
    expect(root.desc['#text']).toContain('cluster IP 10.96.1.1:80 from a pod of this node: shop/web-2 0% missing: should get 33.3%');
    const [wide, narrow] = root.svg;
    expect(wide['@_viewBox']).toBe(`0 0 ${root['@_width']} ${root['@_height']}`);
    expect(narrow['@_viewBox']).toMatch(/^0 0 374 \d+$/);
    for (const words of [
      'FAULTY: shop/web on node-a: pod web-2 gets no traffic (ST202)',
      'missing: should get 33.3%',
      '10.244.11.5:8080',
      '66.7%',
      'KUBE-SEP-YE46JM77HMULEYF6',
      'on node-b, node-c',
    ])
      expect(text).toContain(words);
  });

  test.each(Object.entries(texts))('a name cannot become an element or an attribute: %s', (_, name) => {
    const text = svg(reportFullOf(name), plain);
    expect(XMLValidator.validate(text)).toBe(true);
    const tags = new Set([...text.matchAll(/<(\w+)/g)].map(([, tag]) => tag));
    expect([...tags].filter(tag => !['svg', 'title', 'desc', 'style', 'rect', 'text', 'g', 'path'].includes(tag ?? ''))).toEqual([]);
    const attributes = [...text.matchAll(/<[^>]*>/g)].map(([tag]) => tag.replaceAll(/"[^"]*"/g, '')).join('');
    expect(attributes).not.toContain('onload');
  });

  test.each(Object.entries(hostile))('control characters are escaped: %s', (_, name) => {
    for (const render of [svg, dot, mermaid]) expect(isUnsafe(render(reportFullOf(name), plain).replaceAll('\n', ''))).toBe(false);
  });
});
