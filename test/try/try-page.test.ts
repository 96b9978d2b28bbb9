import {beforeAll, expect, test} from 'vitest';
import {reportRulesAlone} from '../../src/diagnosis/report-rules-alone.ts';
import {snapshotOfText} from '../../src/parse/pasted/split-text.ts';
import {packetRenderers} from '../../src/render/table/packet-report.ts';
import {serviceList, tree} from '../../src/render/table/tree.ts';
import {askNodes, type PacketFlags} from '../../src/run/packet/packet-flags.ts';
import {selectInRules} from '../../src/run/scope/select-in-rules.ts';
import {tryPage} from '../../tools/try/build.ts';
import type {BrowserPage, PageOptions} from '../browser.ts';
import {readFixture} from '../fixtures.ts';
import {contrastFaults, drawingFaults} from '../page-geometry.ts';
import {useBrowser} from '../render/use-browser.ts';
import {describeWith} from '../require.ts';

const looks: readonly PageOptions[] = [
  {width: 1280, scheme: 'light'},
  {width: 1280, scheme: 'dark'},
  {width: 390, scheme: 'light'},
  {width: 390, scheme: 'dark'},
  {width: 360, scheme: 'light'},
];

/** Dumps of each rule system, whole and in part, with a Service in them and a packet to it. */
const dumps: readonly (readonly [file: string, service: string, packet: PacketFlags])[] = [
  ['captures/healthy/1.36-iptables/nodes/node-a/iptables-save', 'shop/web', {source: '10.244.11.4', destination: '10.96.1.1', port: '80'}],
  ['captures/faults/skewed-balance/nodes/node-a/iptables-save', 'shop/web', {source: '10.244.11.4', destination: '10.96.1.1', port: '80'}],
  ['captures/nftables/1.36/nodes/node-a/nft.json', 'shop/web', {source: '10.244.11.4', destination: '10.96.1.1', port: '80'}],
  ['captures/ipvs/1.36/nodes/node-a/ipvsadm-save', '10.96.1.1:80', {source: '10.244.11.4', destination: '10.96.1.1', port: '80'}],
  ['articles/hostnames-2017-node-port.txt', 'hostnames', {source: '203.0.113.9', destination: '10.79.255.4', port: '80'}],
  ['articles/whole/mysql-2016.txt', 'mysql-service', {source: '192.168.125.129', destination: '10.254.162.44', port: '3306'}],
];

describeWith(['chromium'], 'the page that traces pasted rules, in a browser', () => {
  const open = useBrowser();
  let html: string;

  beforeAll(async () => {
    html = await tryPage();
  });

  async function put(page: BrowserPage, values: Readonly<Record<string, string>>): Promise<void> {
    await page.evaluate(`for (const [id, value] of Object.entries(${JSON.stringify(values)})) {
      const field = document.getElementById(id);
      field.value = value;
      field.dispatchEvent(new Event('input', {bubbles: true}));
    }`);
  }

  async function shown(page: BrowserPage, id: string): Promise<string> {
    return page.evaluate(`document.getElementById('${id}').hidden ? '' : document.getElementById('${id}').textContent`);
  }

  function click(page: BrowserPage, selector: string): Promise<void> {
    return page.evaluate(`document.querySelector('${selector}').click()`);
  }

  /** Line breaks depend on the width of the window. */
  const words = (text: string) => text.replaceAll(/[\s│├└─]+/g, ' ').trim();
  const options = {color: false, width: Infinity, quiet: false, verbose: false, failOn: 'error'} as const;

  test.each(dumps)('shows of %s what trace and packet print', async (file, service, packet) => {
    const text = readFixture(file).toString('utf8');
    const snapshot = snapshotOfText('pasted text', Buffer.from(text));
    if (snapshot === null) throw new Error(`${file} has no rules`);
    const report = (...names: readonly string[]) =>
      reportRulesAlone(snapshot, {toolVersion: '0.0.0'}, traces =>
        selectInRules(traces, {names, namespace: undefined, allNamespaces: true}),
      );
    const page = await open(html, {});
    await put(page, {rules: text});
    await click(page, '#trace button');
    expect(words(await shown(page, 'output'))).toBe(words(serviceList(report(), options)));
    await put(page, {service});
    await click(page, '#trace button');
    expect(words(await shown(page, 'output'))).toBe(words(tree(report(service), options)));
    expect(await page.evaluate(`document.querySelectorAll('#pictures svg').length`)).toBeGreaterThan(0);
    const {source, destination, port = ''} = packet;
    await put(page, {source, destination, port});
    await click(page, '#packet button');
    const answers = askNodes({...packet, protocol: 'TCP'}, snapshot, () => true);
    expect(words(await shown(page, 'answer'))).toBe(words(packetRenderers.tree(answers, options)));
    expect(page.requests).toEqual([]);
    expect(page.complaints).toEqual([]);
  });

  test.each(looks)('is readable and fits into its window: %o', async look => {
    const page = await open(html, look);
    for (const selector of ['body', '#example', '#packet button']) {
      await put(page, {source: '10.244.11.4', destination: '10.96.1.1', port: '80'});
      await click(page, selector);
      expect(await drawingFaults(page), selector).toEqual([]);
      expect(await contrastFaults(page), selector).toEqual([]);
    }
    expect(await shown(page, 'answer')).toContain('accepted');
  });

  test('lists the Services of what is pasted, those with faults first, and draws the one that is clicked', async () => {
    const page = await open(html, {height: 500});
    await put(page, {rules: readFixture('captures/faults/skewed-balance/nodes/node-a/iptables-save').toString('utf8')});
    await page.evaluate(`{
      document.getElementById('rules').dispatchEvent(new ClipboardEvent('paste'));
      new Promise(resolve => setTimeout(resolve, 300));
    }`);
    const buttons: readonly string[] = await page.evaluate(
      `[...document.querySelectorAll('#services button')].map(each => each.textContent)`,
    );
    expect(buttons).toHaveLength(30);
    expect(await page.evaluate(`document.getElementById('services').getBoundingClientRect().top`)).toBeGreaterThan(-2);
    expect(buttons[0]).toBe('shop/web✗ ST208 uneven balance · 3 endpoints, cluster IP 10.96.1.1:80');
    expect(buttons.filter(each => each.includes('✗'))).toHaveLength(1);
    expect(buttons).toContain('shop/emptyno endpoint: refused, cluster IP 10.96.1.14:80');
    await click(page, '#services button');
    expect(await page.evaluate(`document.getElementById('service').value`)).toBe('shop/web');
    expect(await page.evaluate(`document.querySelector('[aria-current=true]').value`)).toBe('shop/web');
    // What is wrong is in the picture, which is above the text, and red.
    expect(await page.evaluate(`[...document.querySelectorAll('svg.wide .fault text.fault')].map(each => each.textContent)`)).toEqual([
      '✗',
      'should be 33.3%',
      '✗',
      'should be 33.3%',
      '✗',
      'should be 33.3%',
    ]);
    expect(await page.evaluate(`getComputedStyle(document.querySelector('svg.wide .fault rect.bar')).fill`)).toBe('rgb(179, 38, 30)');
    const places = `['#services', '#status', '#pictures svg.wide', '#findings', '#text', '#packet'].map(each => document.querySelector(each).getBoundingClientRect().top)`;
    const tops: readonly number[] = await page.evaluate(places);
    expect(tops).toEqual([...tops].sort((a, b) => a - b));
    expect(await shown(page, 'status')).toBe(
      'from rules alone: nothing to compare with; shop/web on pasted text: endpoints get unequal shares of the traffic (ST208); 1 warning in the rules themselves',
    );
  });

  test('works with the keyboard alone, and each field has a name', async () => {
    const page = await open(html, {});
    const focus = (id: string) => page.evaluate(`document.getElementById('${id}').focus()`);
    await focus('rules');
    await page.type(readFixture('articles/hostnames-2017-node-port.txt').toString('utf8'));
    await focus('service');
    await page.type('hostnames');
    await page.press('Enter');
    expect(await shown(page, 'output')).toContain('default/hostnames');
    const order: string[] = [];
    await focus('rules');
    for (let at = 0; at < 14; at++) {
      await page.press('Tab');
      order.push(await page.evaluate(`document.activeElement.id || document.activeElement.textContent`));
    }
    expect(order).toEqual([
      ...[
        'file',
        'service',
        'Trace',
        'example',
        'default/hostnamesendpoints are not in this text',
        'Chains and rules',
        'As the program prints it',
      ],
      ...['source', 'destination', 'port', 'protocol', 'local-address', 'Walk the packet', 'Licenses'],
    ]);
    expect(
      await page.evaluate(`[...document.querySelectorAll('input, select, textarea')].filter(field => field.labels.length === 0).length`),
    ).toBe(0);
  });

  test('names errors in the words of the program, and shows nothing of the run before', async () => {
    const page = await open(html, {});
    await click(page, '#example');
    await put(page, {service: 'shop/wep'});
    await click(page, '#trace button');
    expect(await shown(page, 'status')).toBe('Error: Service "shop/wep" is not in these rules; did you mean shop/web or shop/empty?');
    expect(await page.evaluate(`document.getElementById('text').hidden && document.querySelector('#pictures *') === null`)).toBe(true);
    await put(page, {rules: 'hello'});
    await click(page, '#trace button');
    expect(await shown(page, 'status')).toMatch(/^Error: pasted text is neither a bundle nor a dump of iptables-save or nft: /);
    await put(page, {rules: '*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n', source: '10.0.0.1', destination: '10.0.0.300', port: '80'});
    await click(page, '#packet button');
    expect(await shown(page, 'packet-status')).toBe('Error: --destination 10.0.0.300: is not an IP address, and no Service has this name');
    await put(page, {destination: '10.0.0.3', port: '99999'});
    await click(page, '#packet button');
    expect(await shown(page, 'packet-status')).toBe('Error: --port 99999 is no port number');
  });

  test('shows markup in names, comments and errors as text, and connects to nothing', async () => {
    const page = await open(html, {});
    const comment = '<img src=x onerror=alert(1)></pre><script>alert(1)</script>';
    const rules = [
      ...['*nat', ':KUBE-SERVICES - [0:0]', ':KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]', ':KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]'],
      `-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m comment --comment "shop/${comment}:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA`,
      `-A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "${comment}" -j KUBE-SEP-AAAAAAAAAAAAAAAA`,
      `-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m comment --comment "${comment}" -m tcp -j DNAT --to-destination 10.244.9.9:8080`,
      'COMMIT\n',
    ].join('\n');
    await put(page, {rules, service: '10.96.9.9', source: '10.244.9.8', destination: '10.96.9.9', port: '80'});
    await click(page, '#packet button');
    expect(await shown(page, 'answer')).toContain('onerror=alert(1)');
    expect(await page.evaluate(`document.querySelectorAll('img, #answer *').length`)).toBe(0);
    await click(page, '#trace button');
    expect(await shown(page, 'pictures')).toContain('onerror=alert(1)');
    expect(await page.evaluate(`document.querySelectorAll('img, #output *, #pictures script, #services script').length`)).toBe(0);
    await put(page, {service: comment});
    await click(page, '#trace button');
    expect(await shown(page, 'status')).toContain('onerror=alert(1)');
    expect(await page.evaluate(`document.querySelectorAll('img, #status *').length`)).toBe(0);
    expect(page.complaints).toEqual([]);
    expect(await page.evaluate(`fetch('data:text/plain,x').then(() => 'connected', () => 'refused')`)).toBe('refused');
    expect(page.requests.filter(request => !request.includes('data:text/plain'))).toEqual([]);
  });

  test('reads a file, also one that PowerShell wrote', async () => {
    const page = await open(html, {});
    const text = readFixture('articles/hostnames-2017-node-port.txt').toString('utf8');
    const bytes = Buffer.from(`\uFEFF${text}`, 'utf16le').toString('base64');
    await page.evaluate(`{
      const list = new DataTransfer();
      list.items.add(new File([Uint8Array.from(atob('${bytes}'), one => one.charCodeAt(0))], 'rules.txt'));
      document.getElementById('file').files = list.files;
      document.getElementById('file').dispatchEvent(new Event('change'));
      new Promise(resolve => setTimeout(resolve, 300));
    }`);
    expect(await shown(page, 'services')).toContain('default/hostnames');
    expect(await shown(page, 'output')).toContain('default/hostnames');
  });

  test('has less than a megabyte', () => {
    expect(Buffer.byteLength(html)).toBeLessThan(1_000_000);
    expect(html).not.toMatch(/MIT License.*\\x0a/);
  });
});
