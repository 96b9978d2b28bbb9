import {type ChildProcess, spawn} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import type {Readable, Writable} from 'node:stream';
import {pathToFileURL} from 'node:url';

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
  readonly error?: {readonly message: string};
  readonly sessionId?: string;
}

/** A Chromium without a window, spoken to over a pipe in the DevTools protocol. */
export class Browser {
  readonly #process: ChildProcess;
  readonly #profile: string;
  readonly #pending = new Map<number, {resolve(result: Record<string, unknown>): void; reject(error: Error): void}>();
  readonly #listeners = new Set<(message: Message) => void>();
  #lastId = 0;

  constructor() {
    this.#profile = mkdtempSync(join(tmpdir(), 'svc-trace-chromium-'));
    const args = ['--headless', '--disable-gpu', '--no-first-run', '--hide-scrollbars', '--remote-debugging-pipe'];
    // As root there is no sandbox; what is opened are pages of our own.
    const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
    this.#process = spawn('chromium', [...args, ...sandbox, `--user-data-dir=${this.#profile}`], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    });
    this.#process.once('exit', () => this.#fail(new Error('chromium has ended')));
    this.#process.once('error', error => this.#fail(error));
    this.#read(this.#process.stdio[4] as Readable);
  }

  async send(method: string, params: object = {}, sessionId?: string): Promise<Record<string, unknown>> {
    this.#lastId++;
    const id = this.#lastId;
    const answer = new Promise<Record<string, unknown>>((resolve, reject) => this.#pending.set(id, {resolve, reject}));
    const text = JSON.stringify({id, method, params, ...(sessionId === undefined ? {} : {sessionId})});
    (this.#process.stdio[3] as Writable).write(`${text}\0`);
    return answer;
  }

  /** A tab that has loaded a file. */
  async open(file: string, options: PageOptions = {}): Promise<BrowserPage> {
    const {targetId} = await this.send('Target.createTarget', {url: 'about:blank'});
    const {sessionId} = await this.send('Target.attachToTarget', {targetId, flatten: true});
    const page = new BrowserPage(this, String(sessionId));
    await page.load(file, options);
    return page;
  }

  listen(listener: (message: Message) => void): void {
    this.#listeners.add(listener);
  }

  async close(): Promise<void> {
    const ended = new Promise(resolve => this.#process.once('close', resolve));
    await this.send('Browser.close').catch(() => this.#process.kill());
    await ended;
    rmSync(this.#profile, {recursive: true, force: true, maxRetries: 5});
  }

  #read(stream: Readable): void {
    let rest = '';
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      const parts = (rest + chunk).split('\0');
      rest = parts.pop() ?? '';
      for (const part of parts) this.#take(JSON.parse(part) as Message);
    });
  }

  #take(message: Message): void {
    const pending = this.#pending.get(message.id ?? 0);
    if (pending === undefined) {
      for (const listener of this.#listeners) listener(message);
      return;
    }
    this.#pending.delete(message.id ?? 0);
    if (message.error === undefined) pending.resolve(message.result ?? {});
    else pending.reject(new Error(message.error.message));
  }

  #fail(error: Error): void {
    for (const {reject} of this.#pending.values()) reject(error);
    this.#pending.clear();
  }
}

export interface PageOptions {
  readonly scheme?: 'light' | 'dark';
  readonly media?: 'screen' | 'print';
  /** Without scripts when false. */
  readonly scripts?: boolean;
  readonly width?: number;
  readonly height?: number;
}

export class BrowserPage {
  /** URLs of all requests but that of the page itself. */
  readonly requests: string[] = [];
  /** What the console and the browser's log say, errors that scripts throw among it. */
  readonly complaints: string[] = [];
  readonly #browser: Browser;
  readonly #session: string;
  #onLoad: () => void = () => undefined;

  constructor(browser: Browser, session: string) {
    this.#browser = browser;
    this.#session = session;
    browser.listen(message => message.sessionId === session && this.#take(message));
  }

  async load(file: string, {scripts = true, ...look}: PageOptions): Promise<void> {
    for (const domain of ['Page', 'Network', 'Runtime', 'Log']) await this.send(`${domain}.enable`);
    await this.show(look);
    await this.send('Emulation.setScriptExecutionDisabled', {value: !scripts});
    const loaded = new Promise<void>(resolve => {
      this.#onLoad = resolve;
    });
    await this.send('Page.navigate', {url: pathToFileURL(file).href});
    await loaded;
  }

  /** Changes the window, the color scheme and the medium of the page. */
  async show({scheme = 'light', media = 'screen', width = 1280, height = 900}: Omit<PageOptions, 'scripts'>): Promise<void> {
    await this.send('Emulation.setEmulatedMedia', {media, features: [{name: 'prefers-color-scheme', value: scheme}]});
    await this.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: false});
  }

  async send(method: string, params: object = {}): Promise<Record<string, unknown>> {
    return this.#browser.send(method, params, this.#session);
  }

  /** The value of an expression on the page, or of its promise, also where the page's own scripts do not run. */
  async evaluate<T>(expression: string): Promise<T> {
    const {result, exceptionDetails} = await this.send('Runtime.evaluate', {expression, returnByValue: true, awaitPromise: true});
    if (exceptionDetails !== undefined) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`);
    return (result as {value: T}).value;
  }

  /** Presses a key such as `Tab`, or types a character. */
  async press(key: string): Promise<void> {
    const text = key === 'Enter' ? '\r' : key === 'Space' ? ' ' : key.length === 1 ? key : undefined;
    const [name, code] = key === 'Space' ? [' ', 'Space'] : [key, key];
    const event = {key: name, code, windowsVirtualKeyCode: keyCodes[key] ?? 0, ...(text === undefined ? {} : {text})};
    await this.send('Input.dispatchKeyEvent', {type: text === undefined ? 'rawKeyDown' : 'keyDown', ...event});
    await this.send('Input.dispatchKeyEvent', {type: 'keyUp', ...event});
  }

  async type(text: string): Promise<void> {
    await this.send('Input.insertText', {text});
  }

  async screenshot(): Promise<Buffer> {
    const {data} = await this.send('Page.captureScreenshot', {format: 'png'});
    return Buffer.from(String(data), 'base64');
  }

  #take({method, params = {}}: Message): void {
    if (method === 'Page.loadEventFired') this.#onLoad();
    if (method === 'Network.requestWillBeSent' && params['type'] !== 'Document') this.requests.push(JSON.stringify(params['request']));
    if (method === 'Runtime.consoleAPICalled' || method === 'Runtime.exceptionThrown' || method === 'Log.entryAdded')
      this.complaints.push(JSON.stringify(params));
  }
}

const keyCodes: Readonly<Record<string, number>> = {Tab: 9, Enter: 13, Space: 32};
