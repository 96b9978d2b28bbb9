import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll} from 'vitest';
import {Browser, type BrowserPage, type PageOptions} from '../browser.ts';

/** A browser for the tests of a `describe`, closed after them. What it returns opens a text as a file. */
export function useBrowser(): (text: string, options: PageOptions, extension?: string) => Promise<BrowserPage> {
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

  return (text, options, extension = 'html') => {
    const file = join(folder, `page.${extension}`);
    writeFileSync(file, text);
    return browser.open(file, options);
  };
}
