import {expect, test} from 'vitest';
import {svg} from '../../../src/render/graph/svg.ts';
import type {BrowserPage} from '../../browser.ts';
import {describeWith} from '../../require.ts';
import {plain} from '../report.ts';
import {manyEndpoints} from '../traces.ts';
import {useBrowser} from '../use-browser.ts';

describeWith(['chromium'], 'an SVG file in a browser', () => {
  const open = useBrowser();

  /** The drawing that is shown, whether it fits the window, and how large its words are on the screen. */
  const look = (page: BrowserPage): Promise<object> =>
    page.evaluate(`(() => {
      const [shown, ...others] = [...document.querySelectorAll('svg.wide, svg.narrow')].filter(each => getComputedStyle(each).display !== 'none');
      const {width} = shown.querySelector('.endpoint text.title').getBoundingClientRect();
      const {right} = document.documentElement.getBoundingClientRect();
      const inWindow = width / innerWidth;
      return {drawing: shown.getAttribute('class'), others: others.length, fits: right <= innerWidth, isReadable: inWindow * screen.width > 150};
    })()`);

  test.each([1, 5, 60])('shows the wide drawing in a wide window and the narrow one in a narrow window (endpoints: %i)', async count => {
    const page = await open(svg(manyEndpoints(count, 0), plain), {width: 1280}, 'svg');
    expect(await look(page)).toEqual({drawing: 'wide', others: 0, fits: true, isReadable: true});
    await page.show({width: 390, height: 844});
    expect(await look(page)).toEqual({drawing: 'narrow', others: 0, fits: true, isReadable: true});
  });

  test('shows the narrow drawing on a phone, whose window is wider than its screen', async () => {
    const page = await open(svg(manyEndpoints(5, 2), plain), {}, 'svg');
    await page.send('Emulation.setDeviceMetricsOverride', {width: 390, height: 844, deviceScaleFactor: 2, mobile: true});
    expect(await page.evaluate('innerWidth')).toBeGreaterThan(390);
    expect(await look(page)).toEqual({drawing: 'narrow', others: 0, fits: true, isReadable: true});
  });

  test.each([1, 5, 60])('keeps the proportions of the wide drawing as an image (endpoints: %i)', async count => {
    const source = Buffer.from(svg(manyEndpoints(count, 0), plain)).toString('base64');
    const image = `<!DOCTYPE html><img src="data:image/svg+xml;base64,${source}" style="max-width: 100%; height: auto">`;
    const page = await open(image, {width: 390, height: 844});
    // The narrow drawing leaves both sides of a wide image empty.
    const hasInk = `(() => {
      const image = document.querySelector('img');
      const canvas = Object.assign(document.createElement('canvas'), {width: image.clientWidth, height: image.clientHeight});
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      const {data} = context.getImageData(canvas.width * 0.9, 0, canvas.width * 0.1, canvas.height);
      return data.some((value, index) => index % 4 !== 3 && value < 128 && data[index - index % 4 + 3] > 0);
    })()`;
    expect(await page.evaluate(hasInk)).toBe(true);
  });
});
