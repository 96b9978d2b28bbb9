import {expect, test} from 'vitest';
import {traceHtml} from '../../../src/render/html/pages.ts';
import type {BrowserPage} from '../../browser.ts';
import {describeWith} from '../../require.ts';
import {useBrowser} from '../use-browser.ts';
import {plain} from '../report.ts';
import {manyEndpoints, traced} from '../traces.ts';

/** As `getBoundingClientRect` has it. */
type Place = Readonly<Record<'left' | 'right' | 'top' | 'bottom', number>>;

describeWith(['chromium'], 'the picture of a Service in a browser', () => {
  const open = useBrowser();

  const shown = `[...document.querySelectorAll('figure')].map(figure => [...figure.querySelectorAll('svg')].filter(svg => svg.checkVisibility()))`;

  test('endpoints are beside their clients in a wide window, and below them in a narrow one', async () => {
    const places = (page: BrowserPage) =>
      page.evaluate<readonly {entry: Place; endpoint: Place}[]>(`${shown}.map(([svg]) => {
        const place = name => svg.querySelector(name).getBoundingClientRect().toJSON();
        return {entry: place('.entry rect'), endpoint: place('.endpoint rect')};
      })`);
    const text = traceHtml(manyEndpoints(5, 2), plain);
    for (const {entry, endpoint} of await places(await open(text, {width: 1280}))) expect(endpoint.left).toBeGreaterThan(entry.right);
    for (const {entry, endpoint} of await places(await open(text, {width: 390}))) expect(endpoint.top).toBeGreaterThan(entry.bottom);
  });

  test.each([
    {width: 1280, height: 900, counts: [1, 5, 60]},
    {width: 390, height: 844, counts: [1, 5]},
  ])('a client and its endpoints are visible together in a window of $width by $height pixels', async ({width, height, counts}) => {
    for (const count of counts) {
      const page = await open(traceHtml(manyEndpoints(count, Math.min(count - 1, 4)), plain), {width, height});
      const heights = await page.evaluate<readonly number[]>(`${shown}.map(([svg]) => svg.getBoundingClientRect().height)`);
      expect(Math.max(...heights)).toBeLessThan(height);
    }
  });

  test('one of the two drawings is visible, on paper the wide one', async () => {
    for (const options of [{width: 1280}, {width: 390}, {width: 718, media: 'print'}] as const) {
      const page = await open(traceHtml(manyEndpoints(5, 2), plain), options);
      const classes = await page.evaluate<readonly (readonly string[])[]>(`${shown}.map(all => all.map(svg => svg.getAttribute('class')))`);
      expect(classes.flat()).toEqual(Array(2).fill(options.width === 390 ? 'narrow' : 'wide'));
    }
  });

  test('a fault has a mark and words, and a bar has its number beside it', async () => {
    const page = await open(traceHtml(manyEndpoints(5, 2), plain), {width: 1280});
    const boxes = await page.evaluate<readonly string[]>(`${shown}[0][0] && [...${shown}[0][0].querySelectorAll('g.fault')].map(box =>
      [...box.querySelectorAll('text')].map(text => text.textContent).join(' '))`);
    expect(boxes).toHaveLength(2);
    for (const words of boxes) expect(words).toMatch(/^✗ .*missing: should get 20% .*0%$/);
    const bars = await page.evaluate<readonly [string, number][]>(`[...${shown}[1][0].querySelectorAll('.endpoint')].map(box =>
      [box.querySelector('.share').textContent, box.querySelector('.bar').getBoundingClientRect().width / box.querySelector('.track').getBoundingClientRect().width])`);
    expect(bars.map(([share]) => share)).toEqual(Array(5).fill('20%'));
    // A full bar is 50%, in all entries: the largest share of the picture.
    for (const [, filled] of bars) expect(filled).toBeCloseTo(0.4, 2);
  });

  test('a screen reader gets the title and the path, and reaches the rules by keyboard', async () => {
    const page = await open(traceHtml(await traced('faults/missing-endpoint', 'shop/web'), plain), {width: 390});
    const {nodes} = (await page.send('Accessibility.getFullAXTree')) as unknown as {
      nodes: readonly {role: {value: string}; name?: {value: string}; description?: {value: string}; ignored: boolean}[];
    };
    const images = nodes.filter(({role, ignored}) => !ignored && ['image', 'img'].includes(role.value));
    expect(images.map(({name}) => name?.value)).toEqual([
      'shop/web:http port 80/TCP on node-a',
      'shop/web:http port 80/TCP on node-b, node-c (line numbers of node-b)',
    ]);
    expect(images[0]?.description?.value).toContain(
      'cluster IP 10.96.1.1:80 from a pod of this node: shop/web-2 0% missing: should get 33.3%;',
    );
    await page.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Chains and rules');
    await page.press('Enter');
    expect(await page.evaluate("document.querySelector('.rules').innerText")).toContain('-j KUBE-SVC-67NZLRHBNDSAWJRO');
  });
});
