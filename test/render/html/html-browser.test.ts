import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {afterAll, beforeAll, expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import type {Report} from '../../../src/model/report.ts';
import {checkPage, traceHtml} from '../../../src/render/html/pages.ts';
import {svg} from '../../../src/render/graph/svg.ts';
import {Browser, type BrowserPage, type PageOptions} from '../../browser.ts';
import {snapshotOf} from '../../fixtures.ts';
import {describeWith} from '../../require.ts';
import {findingOf, hostile, numbered, plain, reportOf} from '../report.ts';
import {reportFullOf, traced} from '../traces.ts';

/** If this is set, the pictures of the docs are updated. */
const pictures = process.env['SVC_TRACE_PICTURES'] === '1';

async function checked(capture: string): Promise<Report> {
  return diagnose(await snapshotOf(capture), {toolVersion: '0.0.0', trace: 'faulty'});
}

describeWith(['chromium'], 'in a browser', () => {
  let folder: string;
  let browser: Browser;
  let report: Report;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-trace-page-'));
    browser = new Browser();
    report = await checked('faults/missing-endpoint');
  });

  afterAll(async () => {
    await browser.close();
    rmSync(folder, {recursive: true});
  });

  async function open(text: string, options: PageOptions = {}, extension = 'html'): Promise<BrowserPage> {
    const file = join(folder, `page.${extension}`);
    writeFileSync(file, text);
    return browser.open(file, options);
  }

  async function keep(page: BrowserPage, name: string): Promise<void> {
    if (!pictures) return;
    const images = join(import.meta.dirname, '../../../docs/images');
    mkdirSync(images, {recursive: true});
    writeFileSync(join(images, name), await page.screenshot());
  }

  /** The text of what is to be seen of these elements. */
  function seen(page: BrowserPage, selector: string): Promise<readonly string[]> {
    return page.evaluate(`[...document.querySelectorAll(${JSON.stringify(selector)})]
      .filter(element => element.checkVisibility({contentVisibilityAuto: true})).map(element => element.innerText)`);
  }

  function fill(page: BrowserPage, name: string, value: string): Promise<void> {
    return page.evaluate(`{
      const field = document.querySelector('[name=${name}]');
      field.value = ${JSON.stringify(value)};
      field.dispatchEvent(new Event('input', {bubbles: true}));
    }`);
  }

  test('a report opens from disk, requests nothing, and logs no error', async () => {
    const page = await open(checkPage(report, plain));
    expect(await page.evaluate('document.title')).toBe(
      'Services: FAULTY: shop/web on node-a: pod web-2 gets no traffic (ST202); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 27 in sync, 4 with findings, 3 without rules)',
    );
    expect(await seen(page, 'form')).toHaveLength(1);
    expect(page.requests).toEqual([]);
    expect(page.complaints).toEqual([]);
  });

  test('the page may not load or run anything else', async () => {
    const page = await open(checkPage(report, plain));
    await page.evaluate(`{
      document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = true'}));
      document.body.append(Object.assign(document.createElement('img'), {src: 'https://example.invalid/a.png'}));
    }`);
    expect(await page.evaluate('window.ran ?? false')).toBe(false);
    // The browser has worked off what came before when it answers this.
    await page.evaluate('new Promise(resolve => requestAnimationFrame(resolve))');
    expect(page.complaints.filter(text => text.includes('Content Security Policy'))).toHaveLength(2);
  });

  test('a fault is shown with its evidence, its remedy and a link to its page', async () => {
    const page = await open(checkPage(report, plain));
    const [finding = ''] = await seen(page, '.finding');
    for (const words of [
      'ST202 error',
      'endpoint 10.244.11.5:8080 (pod shop/web-2 on node-a) gets no traffic',
      'line 462: nat -A KUBE-SVC',
    ])
      expect(finding).toContain(words);
    expect(finding).toContain('Read the log of kube-proxy on this node');
    expect(await page.evaluate("document.querySelector('.finding a').href")).toMatch(/\/docs\/checks\/ST202\.md$/);
  });

  test('the packet path of the faulty Service is drawn, and a link opens it', async () => {
    const page = await open(checkPage(report, plain));
    expect(await seen(page, '.path svg')).toEqual([]);
    await page.evaluate(`document.querySelector('.finding a[href^="#path"]').click()`);
    expect(await seen(page, '.path svg')).toHaveLength(1);
    expect(await page.evaluate("document.querySelector('.path svg').textContent")).toContain('✗shop/web-2missing: should get 33.3%');
  });

  test('a cell of the table links to its finding, even inside a folded block', async () => {
    const page = await open(checkPage(await checked('faults/frozen-node'), plain));
    await page.evaluate("document.querySelectorAll('.block').forEach(block => { block.open = false; })");
    await page.evaluate(`document.querySelector('#matrix tr[data-service="shop/web"] td.error a').click()`);
    expect(await seen(page, '.finding[open] > summary')).toEqual(['ST202 error missing-endpoint: shop/web:http, 10.244.11.99:8080']);
  });

  test('filters hide findings, rows and columns, and a reset shows them again', async () => {
    const page = await open(checkPage(await checked('faults/frozen-node'), plain));
    const reset = () => page.evaluate("document.querySelector('[type=reset]').click()");
    expect(await seen(page, '#matrix tbody tr')).toHaveLength(14);
    expect(await seen(page, '#shown')).toEqual(['Showing 25 of 25 findings']);

    expect(await seen(page, '#findings > .block > summary')).toEqual([
      'ST201 error service-not-programmed: shop/newborn:http on node-b, and 21 more findings on 10 Services, likely from this cause',
      'ST101 warning no-ready-endpoint: 3 Services',
    ]);

    expect(await seen(page, '.finding details, .block .block .finding')).toEqual([]);
    await fill(page, 'service', 'SHOP/WEB');
    expect(await seen(page, '#matrix tbody th')).toEqual(['shop/web']);
    expect(await seen(page, '.finding summary')).toEqual([
      'ST202 error missing-endpoint: shop/web:http, 10.244.11.99:8080',
      'ST203 error stale-endpoint: shop/web:http, 10.244.11.4:8080',
    ]);
    expect(await seen(page, '.path summary')).toEqual(['shop/web']);
    expect(await seen(page, '#shown')).toEqual(['Showing 2 of 25 findings']);
    await reset();
    expect(await seen(page, '#matrix tbody tr')).toHaveLength(14);

    await fill(page, 'node', 'node-c');
    expect(await seen(page, '#matrix thead th')).toEqual(['Service', 'API', 'node-c']);
    expect(await seen(page, '#matrix tbody td:last-child')).toEqual([...Array(11).fill('ok'), ...Array(3).fill('refused')]);
    expect(await seen(page, '.finding')).toEqual([]);
    await reset();

    await fill(page, 'code', 'ST201');
    expect(await seen(page, '#matrix tbody th')).toEqual(['shop/newborn']);
    expect(await seen(page, '.finding')).toHaveLength(1);
    await reset();

    await page.evaluate("document.querySelector('[name=severity][value=error]').click()");
    expect(await seen(page, '#matrix tbody th')).toEqual(['shop/empty', 'shop/empty-lb', 'shop/sleepy']);
    expect(await seen(page, '.finding.error')).toEqual([]);
    expect(await seen(page, '.finding.warning')).toHaveLength(3);
  });

  test('like rows of many Services are one, which a filter by any of the names shows', async () => {
    const services = numbered('shop/web', 100);
    const findings = services.map(service => findingOf('node-a', service));
    const page = await open(checkPage(reportOf({nodes: ['node-a', 'node-b'], services, findings}), plain));
    expect(await seen(page, '#matrix tbody th')).toEqual(['shop/web-001', 'shop/web-002', 'shop/web-003', '(97 more like these)']);
    await fill(page, 'service', 'web-077');
    expect(await seen(page, '#matrix tbody th')).toEqual(['(97 more like these)']);
    await page.evaluate("document.querySelector('#matrix th details').open = true");
    expect(await page.evaluate("document.querySelector('#matrix th details').innerText")).toContain('shop/web-077');
  });

  test('everything can be reached and done by keyboard, and the focus is visible', async () => {
    const page = await open(checkPage(report, plain));
    const focus = () =>
      page.evaluate<string>(
        "document.activeElement.name || document.activeElement.getAttribute('aria-label') || document.activeElement.tagName",
      );
    const reached: string[] = [];
    for (let presses = 0; presses < 8; presses++) {
      await page.press('Tab');
      reached.push(await focus());
    }
    expect(reached).toEqual(['severity', 'severity', 'severity', 'code', 'service', 'node', 'BUTTON', 'Services and nodes']);
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineWidth')).toBe('3px');
    await page.evaluate("document.querySelector('.path summary').focus()");
    await page.press('Enter');
    expect(await seen(page, '.path svg')).toHaveLength(1);
    await page.evaluate("document.querySelector('[name=severity]').focus()");
    await page.press('Space');
    expect(await seen(page, '.finding.error')).toEqual([]);
    await page.evaluate("document.querySelector('[name=service]').focus()");
    await page.type('empty');
    expect(await seen(page, '#shown')).toEqual(['Showing 2 of 4 findings']);
  });

  test('a dark color scheme gives a dark page', async () => {
    const text = checkPage(report, plain);
    const colors = async (scheme: 'light' | 'dark'): Promise<readonly string[]> => {
      const page = await open(text, {scheme, width: 1100, height: 700});
      await page.evaluate("document.querySelector('.path').open = true");
      await keep(page, `check-${scheme}.png`);
      return page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.endpoint text')).fill]",
      );
    };
    const [light, dark] = [await colors('light'), await colors('dark')];
    expect(light[0]).toBe('rgb(255, 255, 255)');
    expect(dark[0]).toBe('rgb(13, 17, 23)');
    expect(dark[1]).not.toBe(light[1]);
  });

  test.each([true, false])('a printed page has all folded parts open and no filters (scripts: %s)', async scripts => {
    const page = await open(checkPage(report, plain), {media: 'print', scripts});
    expect(await seen(page, '.path svg')).toHaveLength(1);
    expect(await seen(page, 'form')).toEqual([]);
  });

  test('a page without scripts shows everything but the filters', async () => {
    const page = await open(checkPage(report, plain), {scripts: false});
    expect(await seen(page, 'form')).toEqual([]);
    expect(await seen(page, '.block > summary')).toEqual(['ST101 warning no-ready-endpoint: 3 Services']);
    expect(await seen(page, '.finding')).toHaveLength(1);
    expect(page.complaints).toEqual([]);
  });

  const texts = {...hostile, markup: `</script></style></title><script>window.owned=1</script><img src=x onerror="owned=1"> " ' onload=x`};
  test.each(Object.entries(texts))('a name is only text: %s', async (_, name) => {
    const made = reportFullOf(name);
    const page = await open(checkPage({...made, findings: [...made.findings, ...made.findings]}, plain));
    expect(await page.evaluate('window.owned ?? 0')).toBe(0);
    expect(await page.evaluate("document.querySelectorAll('img, main script').length")).toBe(0);
    expect(page.requests).toEqual([]);
    expect(page.complaints).toEqual([]);
  });

  test('the pictures of a trace open as a page and as files', async () => {
    const tracePage = await traced('faults/missing-endpoint', 'shop/web');
    const page = await open(traceHtml(tracePage, plain));
    expect(await seen(page, 'figure svg')).toHaveLength(2);
    expect(page.complaints).toEqual([]);
    const alone = await open(svg(tracePage, plain), {width: 1144, height: 580}, 'svg');
    expect(await alone.evaluate("[...document.querySelectorAll('text')].some(text => text.textContent === '66.7%')")).toBe(true);
    expect([...alone.requests, ...alone.complaints]).toEqual([]);
    await keep(alone, 'trace-svg.png');
  });
});
