import {EventEmitter} from 'node:events';
import process from 'node:process';
import {describe, expect, test} from 'vitest';
import {screenOf, watchScreen} from '../../../src/run/watch/watch-screen.ts';
import {watchLines, type TimedFindingChange} from '../../../src/run/watch/watch-lines.ts';
import type {Finding} from '../../../src/model/finding.ts';
import {type FindingBlock, spreadBlock} from '../../../src/render/finding-blocks.ts';
import {findingOf, hostile, numbered, reportOf, unreadNode} from '../../render/report.ts';

const at = Date.parse('2030-01-01T00:00:00Z');
const services = ['shop/web'];
const finding = findingOf('node-a', 'shop/web');
const well = reportOf({nodes: ['node-a', 'node-b'], services});
const blockOf = (of: Finding): FindingBlock => spreadBlock({finding: of, nodes: ['node-a'], commands: [], members: [of]});
const came: TimedFindingChange = {at, kind: 'came', block: blockOf(finding)};

/** A terminal that can be made smaller. */
function terminal() {
  const parts: string[] = [];
  const written = () => parts.join('');
  const stream = Object.assign(new EventEmitter(), {columns: 80, rows: 24, write: (text: string) => parts.push(text) > 0});
  const screen = () => (written().split('\u001b[H').at(-1) ?? '').replaceAll('\u001b[K', '').replaceAll('\u001b[J', '').split('\n');
  return {stream: stream as unknown as NodeJS.WriteStream, emitter: stream, screen, written};
}

describe('the screen', () => {
  test('is redrawn when the terminal is resized, and always fits it', () => {
    const {stream, emitter, screen} = terminal();
    const view = watchScreen({color: false, what: 'context kind: namespace shop', stream});
    view.show(reportOf({nodes: ['node-a', 'node-b'], services, findings: [finding]}), [came], at);
    expect(screen().some(line => line.endsWith('new ST202 node-a shop/web is missing an endpoint'))).toBe(true);
    Object.assign(emitter, {columns: 30, rows: 6});
    emitter.emit('resize');
    expect(screen().length).toBeLessThanOrEqual(6);
    expect(Math.max(...screen().map(line => line.length))).toBeLessThan(30);
    view.close();
  });

  test('breaks changes and the verdict between words', () => {
    const {stream, screen} = terminal();
    const view = watchScreen({color: false, what: '', stream});
    const message = Array.from({length: 25}, (_, index) => `word-${index}`).join(' ');
    view.show(
      reportOf({nodes: ['node-a', 'node-b'], services, findings: [finding]}),
      [{...came, block: blockOf({...finding, message})}],
      at,
    );
    expect(screen().join(' ').replaceAll(/ +/g, ' ')).toContain(message);
    view.close();
  });

  test('is left once, even when the process ends', () => {
    const {stream, emitter, written} = terminal();
    const listeners = process.listenerCount('exit');
    const view = watchScreen({color: false, what: '', stream});
    view.close();
    view.close();
    view.say('reading the API');
    expect(written()).toBe('\u001b[?1049h\u001b[?25l\u001b[?25h\u001b[?1049l');
    expect(process.listenerCount('exit')).toBe(listeners);
    expect(emitter.listenerCount('resize')).toBe(0);
  });

  test('shows the time of the last read of a node that is now unreadable', () => {
    const {stream, screen} = terminal();
    const view = watchScreen({color: false, what: '', stream});
    view.show(well, [], at);
    view.show(reportOf({nodes: ['node-a', unreadNode('node-b', 'gone'), unreadNode('node-c', 'gone')], services}), [], at + 60_000);
    const times = screen().filter(line => line.includes('read'));
    expect(times.slice(-3).map(line => line.replace(/\d\d:\d\d:\d\d/, 'TIME'))).toEqual([
      'read at TIME: node-a',
      'read at TIME: node-b',
      'never read: node-c',
    ]);
    view.close();
  });

  test('keeps the report when a check fails, and shows the reason', () => {
    const {stream, screen} = terminal();
    const view = watchScreen({color: false, what: '', stream});
    view.show(well, [], at);
    view.trouble('nothing listens at 127.0.0.1:1');
    expect(screen()).toEqual(expect.arrayContaining(['nothing listens at 127.0.0.1:1', expect.stringMatching(/^OK: /)]));
    view.close();
  });
});

describe('keys', () => {
  const names = numbered('svc', 40).map(name => `shop/${name}`);
  const many = reportOf({
    nodes: ['node-a'],
    services: names,
    findings: names.map((name, index) => findingOf('node-a', name, {code: `ST${200 + index}`})),
  });

  test('scroll within the list, and the last line names them', () => {
    const {stream, screen} = terminal();
    const view = watchScreen({color: false, what: 'shop', stream, hasKeys: true});
    view.show(many, [], at);
    const first = screen();
    expect(first.at(-1)).toMatch(/^q quits {2}\/ filters {2}Enter traces shop\/svc-\d+ {2}↑ ↓ scroll {2}lines/);
    view.scroll('up');
    expect(screen()).toEqual(first);
    view.scroll('down');
    expect(screen().slice(3, -2)).toEqual(first.slice(4, -1));
    view.scroll('end');
    expect(screen().at(-2)).toMatch(/^read at /);
    view.scroll('pageDown');
    view.scroll('home');
    expect(screen()).toEqual(first);
    view.close();
  });

  test('that have no effect are not named', () => {
    const {stream, screen} = terminal();
    const view = watchScreen({color: false, what: 'shop', stream});
    view.show(well, [], at);
    expect(screen().at(-1)).toBe('Ctrl-C quits');
    view.close();
  });

  test('a new finding is shown first in a list that is longer than the screen', () => {
    const {stream, screen} = terminal();
    const view = watchScreen({color: false, what: 'shop', stream});
    view.show(many, [{...came, kind: 'stood'}], at);
    view.show(many, [came], at + 1000);
    const texts = screen().map(line => line.replace(/^\d\d:\d\d:\d\d /, ''));
    expect(texts.slice(3, 6)).toEqual([
      '',
      'new ST202 node-a shop/web is missing an endpoint',
      'present ST202 node-a shop/web is missing an endpoint',
    ]);
    view.close();
  });
});

describe('the keys of a live screen', () => {
  const faulty = reportOf({
    nodes: ['node-a', 'node-b'],
    services: ['shop/api', 'shop/web'],
    findings: [finding, findingOf('node-b', 'shop/api', {code: 'ST208', severity: 'warning'})],
  });

  test('the worst change of a check is the first of the list, and what is resolved the last', () => {
    const {stream, screen} = terminal();
    const view = watchScreen({color: false, what: '', stream});
    const of = (severity: 'error' | 'warning' | 'info', kind: 'came' | 'went', name: string) =>
      ({at, kind, block: blockOf(findingOf('node-a', name, {severity}))}) as const;
    view.show(
      well,
      [of('error', 'went', 'shop/d'), of('info', 'came', 'shop/c'), of('error', 'came', 'shop/a'), of('warning', 'came', 'shop/b')],
      at,
    );
    const names = screen().flatMap(line => /(?:new|resolved) .* (shop\/\w)/.exec(line)?.[1] ?? []);
    expect(names).toEqual(['shop/a', 'shop/b', 'shop/c', 'shop/d']);
    view.close();
  });

  test('the last verdict stays on the terminal', () => {
    const {stream, written} = terminal();
    const view = watchScreen({color: false, what: '', stream});
    view.show(faulty, [], at);
    view.close();
    view.close();
    expect(written().split('\u001b[?1049l')[1]).toMatch(/^FAULTY: shop\/web on node-a: [^\n]*; 1 error[^\n]*\n$/);
  });

  test('/ filters the list by what is typed, q included, until Esc', () => {
    const {stream, screen} = terminal();
    const view = watchScreen({color: false, what: '', stream, hasKeys: true});
    view.show(faulty, [came], at);
    expect(view.take('q')).toBe(false);
    for (const key of ['/', 'W', 'e', 'q', '\u007f']) expect(view.take(key)).toBe(true);
    expect(screen().at(-1)).toContain('/We_');
    expect(screen().join('\n')).toContain('shop/web');
    expect(screen().join('\n')).not.toContain('shop/api');
    expect(screen().some(line => line.startsWith('SERVICE'))).toBe(true);
    view.take('\r');
    expect(view.take('q')).toBe(false);
    expect(view.take('\u001b')).toBe(true);
    expect(screen().join('\n')).toContain('shop/api');
    view.close();
  });

  test('Enter traces the worst Service that the filter leaves, and Esc goes back to the list', async () => {
    const {stream, screen} = terminal();
    const traced: string[] = [];
    const trace = async (service: string, columns: number): Promise<string> => {
      traced.push(`${service} ${columns}`);
      return `the path to ${service}`;
    };
    const view = watchScreen({color: false, what: '', stream, hasKeys: true, trace});
    view.show(faulty, [], at);
    expect(screen().at(-1)).toContain('Enter traces shop/web');
    for (const key of ['/', 'api', '\r', '\r']) view.take(key);
    expect(screen().join('\n')).toContain('tracing shop/api…');
    await Promise.resolve();
    await Promise.resolve();
    expect(screen().join('\n')).toContain('the path to shop/api');
    expect(screen().at(-1)).toContain('Esc goes back');
    expect(traced).toEqual(['shop/api 79']);
    expect(view.take('q')).toBe(true);
    expect(screen().join('\n')).not.toContain('the path to');
    view.close();
  });

  test('a trace that fails says why', async () => {
    const {stream, screen} = terminal();
    const view = watchScreen({color: false, what: '', stream, hasKeys: true, trace: () => Promise.reject(new Error('no answer'))});
    view.show(faulty, [], at);
    view.take('\r');
    await new Promise(resolve => setTimeout(resolve));
    expect(screen().join('\n')).toContain('no answer');
    view.close();
  });
});

describe('a screen', () => {
  const state = {
    ...{report: well, readAt: new Map([['node-a', at]]), changes: [], trouble: '', doing: '', what: ''},
    ...{filter: '', filterText: '', traced: null},
    offset: 0,
    hasKeys: true,
  };

  test('shows text from the cluster escaped', () => {
    const bad = findingOf(hostile.bidi, null, {message: hostile.escape});
    const {lines} = screenOf(
      {
        ...state,
        report: reportOf({nodes: [hostile.escape], services: [`shop/${hostile.c1}`]}),
        changes: [{at, kind: 'came', block: blockOf(bad)}],
        trouble: hostile.escape,
      },
      {columns: 100, rows: 24, color: false},
    );
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not reach the terminal
    expect(lines.join('')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
  });

  test('ends its colors where a line is cut', () => {
    const {lines} = screenOf({...state, trouble: 'x'.repeat(200)}, {columns: 40, rows: 24, color: true});
    expect(lines).toContain(`\u001b[31m${'x'.repeat(39)}\u001b[39m`);
  });

  test.each([3, 8, 24])('of %i lines has no more lines, with many Services, nodes and changes', rows => {
    const many = reportOf({nodes: numbered('node', 300), services: numbered('shop/web', 12)});
    const changes = Array.from({length: 50}, () => came);
    expect(screenOf({...state, report: many, changes}, {columns: 80, rows, color: false}).lines.length).toBeLessThanOrEqual(rows);
  });
});

test('without a terminal an error is printed once, and a verdict when it changes', () => {
  const out: string[] = [];
  const error: string[] = [];
  const view = watchLines(
    false,
    text => out.push(text),
    text => error.push(text),
  );
  view.show(well, [], at);
  view.trouble('no answer');
  view.trouble('no answer');
  view.show(well, [{...came, kind: 'went', at: at + 1000}], at + 1000);
  view.trouble('no answer');
  expect(out).toEqual([
    '2030-01-01T00:00:00Z OK: shop/web is in sync on all 2 nodes\n',
    '2030-01-01T00:00:01Z resolved ST202 node-a shop/web is missing an endpoint\n',
  ]);
  expect(error).toEqual(['no answer\n', 'no answer\n']);
});
