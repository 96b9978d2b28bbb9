import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {afterAll, beforeAll, expect, test} from 'vitest';
import type {Report} from '../../../src/model/report.ts';
import type {PortTrace} from '../../../src/model/service-trace.ts';
import {mermaid} from '../../../src/render/graph/graph-languages.ts';
import type {RenderOptions} from '../../../src/render/renderer.ts';
import {traceGraphs, type GraphOptions} from '../../../src/render/graph/trace-graph.ts';
import {Browser, type BrowserPage} from '../../browser.ts';
import {describeWith} from '../../require.ts';
import {hostile, numbered, plain, reportOf} from '../report.ts';
import {endpoint, entry, reportFullOf, trace, traced} from '../traces.ts';

/** What Mermaid made of a text. */
interface Drawn {
  /** The box without arrows. */
  readonly heading: string;
  /** The words of every other box, with a space between its lines. */
  readonly boxes: readonly string[];
  readonly faults: number;
  readonly arrows: number;
  readonly labels: readonly string[];
  readonly titles: readonly string[];
  /** Elements that do more than show something. */
  readonly active: readonly string[];
}

const script = pathToFileURL(join(createRequire(import.meta.url).resolve('@mermaid-js/tiny/package.json'), '../dist/mermaid.tiny.js')).href;

/** With the settings that GitHub has. */
const drawing = `async text => {
  mermaid.initialize({startOnLoad: false, securityLevel: 'strict'});
  const {svg} = await mermaid.render('picture', text);
  document.body.innerHTML = svg;
  const all = selector => [...document.querySelectorAll(selector)];
  const words = selector => all(selector).map(element => element.innerText.replaceAll('\u2060', '').replaceAll(/\\s+/g, ' ').trim());
  return {
    heading: words('.node[id*=heading] .nodeLabel').join('|'),
    boxes: words('.node:not([id*=heading]) .nodeLabel'),
    faults: all('.node.fault').length,
    arrows: all('.edgePaths path').length,
    labels: words('.edgeLabels .edgeLabel .edgeLabel').filter(label => label !== ''),
    titles: words('.cluster-label .nodeLabel'),
    active: all('body script, a, img, iframe, form, [onload], [onerror], [onclick]').map(element => element.outerHTML),
  };
}`;

/** A Service whose packets go to endpoints on each node otherwise. */
function bigService(endpoints: number, nodes: number, isFault = (_node: number) => false): readonly PortTrace[] {
  const all = numbered('10.244.1', endpoints).map((hostPort, index) => ({
    ...endpoint,
    ...{hostPort: `${hostPort}:8080`, pod: `shop/web-6c8f9d7b5-${index}`, share: 1 / endpoints, expectedShare: 1 / endpoints},
    rewrite: {...endpoint.rewrite, ...{table: 'nat', chain: `KUBE-SEP-${String(index).padStart(16, 'A')}`, line: index + 1, text: ''}},
  }));
  const step = {table: 'nat', chain: 'KUBE-SERVICES', line: 7, text: '', to: 'KUBE-SVC-67NZLRHBNDSAWJRO'};
  return numbered('node', nodes).map((node, index) => ({
    ...trace,
    node,
    entries: [
      {...entry, from: `${node} itself`, steps: [step], endpoints: all.map(one => ({...one, mark: isFault(index) ? 'stale' : 'ok'}))},
    ],
  }));
}

describeWith(['chromium'], 'Mermaid in a browser', () => {
  let folder: string;
  let browser: Browser;
  let page: BrowserPage;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-trace-mermaid-'));
    browser = new Browser();
    const file = join(folder, 'page.html');
    writeFileSync(file, `<!DOCTYPE html><meta charset="utf-8"><script src="${script}"></script><body></body>`);
    page = await browser.open(file);
  });

  afterAll(async () => {
    await browser.close();
    rmSync(folder, {recursive: true});
  });

  function drawn(report: Report, options: RenderOptions = plain): Promise<Drawn> {
    return page.evaluate(`(${drawing})(${JSON.stringify(mermaid(report, options))})`);
  }

  /** What is to be drawn of a report in which everything fits. */
  function graphs({traces}: Report, options: GraphOptions = {all: false}) {
    return traceGraphs(traces, options);
  }

  test.each([
    ['faults/missing-endpoint', 'shop/web'],
    ['healthy/1.36-iptables', 'shop/lb-local'],
    ['nftables/1.36', 'shop/web'],
    ['ipvs/1.36', 'shop/web'],
  ])('draws every box and arrow of %s, with their words', async (capture, service) => {
    const report = await traced(capture, service);
    const {heading, boxes, faults, arrows, labels, titles, active} = await drawn(report);
    const all = graphs(report);
    expect(boxes.toSorted()).toEqual(all.flatMap(graph => graph.boxes.map(({lines}) => lines.join(' '))).toSorted());
    expect(heading).toMatch(/^(OK|FAULTY|INCOMPLETE)/);
    expect(faults).toBe(all.flatMap(graph => graph.boxes.filter(({isFault}) => isFault)).length);
    expect(arrows).toBe(all.flatMap(graph => graph.arrows).length);
    expect(labels.toSorted()).toEqual(all.flatMap(graph => graph.arrows.flatMap(({label}) => label || [])).toSorted());
    expect(titles.toSorted()).toEqual(all.map(({title}) => title).toSorted());
    expect(active).toEqual([]);
  });

  const texts: Readonly<Record<string, string>> = {
    ...hostile,
    statement: '"]; click g1b1 "javascript:alert(1)" %%{init: {"theme":"dark"}}%% end --> #quot;',
    markup: '<img src=x onerror="window.owned=1"><script>owned=1</script> &lt; `x` **b** _i_',
    math: '$$x^2$$ fa:fa-car',
    list: '1. one - two',
    end: 'end',
  };

  test.each(Object.entries(texts))('shows a name unchanged and as text only: %s', async (_, name) => {
    const report = reportFullOf(name);
    const {boxes, arrows, active} = await drawn(report);
    const [graph] = graphs(report);
    const shown = (text: string) => text.replaceAll(/\s+/g, ' ').trim();
    expect(boxes.toSorted()).toEqual(graph?.boxes.map(({lines}) => shown(lines.join(' '))).toSorted());
    expect(arrows).toBe(graph?.arrows.length);
    expect(active).toEqual([]);
    expect(await page.evaluate('window.owned ?? 0')).toBe(0);
  });

  function reportOn(traces: readonly PortTrace[]): Report {
    return reportOf({nodes: traces.map(({node}) => node), services: ['shop/web'], traces});
  }

  test('draws what fits of a Service with 300 endpoints and another path on each of 50 nodes, faults first', async () => {
    const report = reportOn(bigService(300, 50, node => node === 49));
    const {heading, titles, faults} = await drawn(report);
    expect(heading).toMatch(
      / (\d+) more pictures are not shown: Mermaid draws no more; -o svg draws all, or choose fewer Services or nodes$/,
    );
    expect(titles.length).toBeGreaterThan(5);
    expect(Number(/(\d+) more pictures/.exec(heading)?.[1])).toBe(50 - titles.length);
    expect(titles).toContainEqual(expect.stringContaining('on node-050'));
    expect(faults).toBe(41);
  });

  test('draws a few endpoints if a picture with all of them is too big', async () => {
    const report = reportOn(bigService(600, 1));
    const {heading, boxes, arrows} = await drawn(report, {...plain, verbose: true});
    expect(heading).toContain('in 1 of the pictures only a few of many endpoints are drawn');
    expect(boxes).toContain('✓ 595 more endpoints in sync');
    expect(arrows).toBe(graphs(report)[0]?.arrows.length);
  });

  test('draws all endpoints if there is room', async () => {
    const report = reportOn(bigService(100, 1));
    const {heading, arrows} = await drawn(report, {...plain, verbose: true});
    expect(heading).toMatch(/^OK: [^;]*$/);
    expect(arrows).toBe(graphs(report, {all: true})[0]?.arrows.length);
  });
});
