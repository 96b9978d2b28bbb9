import {expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import type {Finding} from '../../../src/model/finding.ts';
import type {Report} from '../../../src/model/report.ts';
import {svg} from '../../../src/render/graph/svg.ts';
import {checkPage, traceHtml} from '../../../src/render/html/pages.ts';
import {previewRenderers} from '../../../src/render/preview/preview-report.ts';
import type {BrowserPage} from '../../browser.ts';
import {contrastFaults, drawingFaults} from '../../page-geometry.ts';
import {someOf} from '../../cases.ts';
import {snapshotOf} from '../../fixtures.ts';
import {toNftables} from '../../preview/previews.ts';
import {describeWith} from '../../require.ts';
import {useBrowser} from '../use-browser.ts';
import {checkedNode, findingOf, numbered, plain, reportOf, ruleOf, unreadNode} from '../report.ts';
import {manyEndpoints, traced} from '../traces.ts';

/** Many nodes with long names: some cannot be read, on some endpoints are missing, and kube-proxy stopped on some. */
function manyNodes(count: number): Report {
  const nameOf = (index: number): string => `ip-10-0-${index}-17.eu-central-1.compute.internal`;
  const nodes = Array.from({length: count}, (_, index) =>
    index % 17 === 3 ? unreadNode(nameOf(index), 'nothing answers at 10.0.0.1:10250 (timed out after 10 s)') : checkedNode(nameOf(index)),
  );
  const services = numbered('payments-production/checkout-frontend-with-a-long-name', 40);
  const rule = ruleOf(
    `-A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "${services[0]}:http" -m statistic --mode random -j KUBE-SEP-A`,
    7,
  );
  const port = {name: 'http', protocol: 'TCP', port: 80};
  const findings = nodes.flatMap(({name, status}, index): readonly Finding[] => {
    if (status !== 'checked') return [findingOf(name, null, {code: 'ST901', name: 'node-not-read', severity: 'warning'})];
    const stopped =
      index % 11 === 5 ? [findingOf(name, null, {code: 'ST505', name: 'kube-proxy-not-syncing', message: 'no sync for 3 h'})] : [];
    const missing = services.slice(0, index % 5 === 0 ? 8 : 0).map(service => {
      const message = `${service}:http: endpoint 10.244.11.4:8080 gets no traffic`;
      return findingOf(name, service, {port, message, endpoint: '10.244.11.4:8080', actual: [rule], expected: [rule]});
    });
    return [...stopped, ...missing];
  });
  return {...reportOf({nodes, services, findings}), scope: 'all namespaces'};
}

const provenance = {
  command: 'kubectl svc-trace check -A -o html --context arn:aws:eks:eu-central-1:123456789012:cluster/production-payments',
  source: 'context "arn:aws:eks:eu-central-1:123456789012:cluster/production-payments" at https://ABCDEF0123456789.eks.amazonaws.com/',
  serverVersion: 'v1.33.5-eks-ba24e9c',
};

describeWith(['chromium'], 'how a browser draws a page', () => {
  const open = useBrowser();

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

  test.each(someOf(Object.entries(reports)))('nothing is cut off, covered or hard to read: %s', async (_, make) => {
    const report = await make();
    const page = await open(traceHtml(report, plain), {});
    expect(await faultsIn(page)).toEqual([]);
    await page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })");
    expect(await faultsIn(page)).toEqual([]);
    expect(page.complaints).toEqual([]);
    expect(await faultsIn(await open(svg(report, plain), {}, 'svg'))).toEqual([]);
  });

  const made = {...plain, unixTime: 1_800_000_000, provenance};

  const pages: Readonly<Record<string, () => string | Promise<string>>> = {
    'check of 1 node': () => checkPage(manyNodes(1), made),
    'check of 50 nodes': () => checkPage(manyNodes(50), made),
    'check of 300 nodes': () => checkPage(manyNodes(300), made),
    'check of a node that stopped': async () => {
      const report = diagnose(await snapshotOf('faults/frozen-node'), {toolVersion: '0.0.0', trace: 'faulty'});
      const nodes = [{name: 'node-a', look: 1, seconds: 0}, {name: 'node-b'}];
      return checkPage({...report, wait: {limitSeconds: 60, seconds: 24, looks: 3, clean: false, nodes}}, made);
    },
    'check that finds nothing': () => checkPage(reportOf({nodes: ['node-a'], services: ['shop/web']}), made),
    preview: async () => previewRenderers.html(await toNftables(), made),
  };

  test.each(Object.entries(pages))('nothing is cut off, covered or hard to read: %s', async (_, make) => {
    const page = await open(await make(), {});
    expect(await faultsIn(page)).toEqual([]);
    await page.evaluate("[...document.querySelectorAll('details')].slice(0, 60).forEach(details => { details.open = true; })");
    expect(await faultsIn(page)).toEqual([]);
    expect(page.complaints).toEqual([]);
  });

  test('such faults are detected in a page that has them', async () => {
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
