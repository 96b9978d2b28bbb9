import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, expect, test} from 'vitest';
import type {Report} from '../../../src/model/report.ts';
import {svg} from '../../../src/render/graph/svg.ts';
import {traceHtml} from '../../../src/render/html/trace-page.ts';
import {Browser, type BrowserPage, type PageOptions} from '../../browser.ts';
import {contrastFaults, drawingFaults} from '../../page-geometry.ts';
import {describeWith} from '../../require.ts';
import {plain} from '../report.ts';
import {manyEndpoints, traced} from '../traces.ts';

describeWith(['chromium'], 'how a browser draws the picture of a Service', () => {
  let folder: string;
  let browser: Browser;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'svc-trace-picture-'));
    browser = new Browser();
  });

  afterAll(async () => {
    await browser.close();
    rmSync(folder, {recursive: true});
  });

  async function open(text: string, options: PageOptions, extension = 'html'): Promise<BrowserPage> {
    const file = join(folder, `page.${extension}`);
    writeFileSync(file, text);
    return browser.open(file, options);
  }

  const reports: Readonly<Record<string, () => Report | Promise<Report>>> = {
    '1 endpoint': () => manyEndpoints(1, 0),
    '5 endpoints, 2 faulty': () => manyEndpoints(5, 2),
    '60 endpoints, 4 faulty': () => manyEndpoints(60, 4),
    '60 endpoints, all faulty': () => manyEndpoints(60, 60),
    'a third-party rule': () => traced('faults/hostport-hijack', 'shop/nodeport'),
    'a node without rules': () => traced('faults/nat-flushed', 'shop/lb-local'),
    'both families': () => traced('healthy/1.36-iptables', 'infra/dual'),
    'dropped by policy': () => traced('healthy/1.36-iptables', 'shop/lb-local'),
    refused: () => traced('healthy/1.36-iptables', 'shop/empty'),
    'an address without rules': () => {
      const {traces, ...report} = manyEndpoints(5, 2);
      const unserved = [
        {
          kind: 'loadBalancerIP',
          address: 'a1b2c3d4.elb.eu-central-1.amazonaws.com',
          port: 80,
          reason: 'the load balancer has a name and no address',
        },
        {kind: 'loadBalancerIP', address: '203.0.113.9', port: 80, reason: 'ipMode is Proxy: connections go to the load balancer'},
      ] as const;
      return {...report, traces: traces.map(each => ({...each, unserved}))};
    },
    nftables: () => traced('nftables/1.36', 'shop/nodeport'),
  };

  const windows = [
    {width: 1280, scheme: 'light'},
    {width: 1280, scheme: 'dark'},
    {width: 1000, scheme: 'light'},
    {width: 390, scheme: 'light'},
    {width: 390, scheme: 'dark'},
    {width: 320, scheme: 'light'},
  ] as const;

  /** What is wrong in each of the windows, as `390 dark: words overlap: …`. */
  async function faultsIn(page: BrowserPage): Promise<readonly string[]> {
    const faults: string[] = [];
    for (const window of windows) {
      await page.show(window);
      const found = [...(await drawingFaults(page)), ...(await contrastFaults(page))];
      faults.push(...found.map(fault => `${window.width} ${window.scheme}: ${fault}`));
    }
    return faults;
  }

  test.each(Object.entries(reports))('nothing is cut off, covered or hard to read: %s', async (_, make) => {
    const report = await make();
    const page = await open(traceHtml(report, plain), {});
    expect(await faultsIn(page)).toEqual([]);
    await page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })");
    expect(await faultsIn(page)).toEqual([]);
    expect(page.complaints).toEqual([]);
    expect(await faultsIn(await open(svg(report, plain), {}, 'svg'))).toEqual([]);
  });

  test('such faults are seen where there are some', async () => {
    const faultsAfter = async (change: string): Promise<string> => {
      const page = await open(traceHtml(manyEndpoints(5, 2), plain), {});
      await page.evaluate(change);
      return (await faultsIn(page)).join('\n');
    };
    const element = (selector: string): string => `document.querySelector('svg.wide ${selector}')`;
    expect(await faultsAfter(`${element('.endpoint text.title')}.textContent += 'x'.repeat(80)`)).toContain('1280 light: out of its box: ');
    expect(await faultsAfter(`${element('.endpoint')}.setAttribute('transform', 'translate(0 40)')`)).toContain(
      '1280 dark: boxes overlap: ',
    );
    expect(await faultsAfter(`${element('.endpoint')}.setAttribute('transform', 'translate(-200 0)')`)).toContain('a line crosses ');
    expect(await faultsAfter(`${element('.endpoint text.share')}.setAttribute('transform', 'translate(40 0)')`)).toContain('a bar covers ');
    expect(await faultsAfter("document.querySelector('figure').style.width = '900px'")).toContain('390 light: the page is ');
    expect(await faultsAfter(`${element('.endpoint text.title')}.style.fill = '#c88'`)).toMatch(/1280 light: text\.title \d\.\d\d: /);
    expect(await faultsAfter("document.querySelector('summary').style.color = '#555'")).toMatch(/^1280 dark: SUMMARY/m);
  });
});
