import {EventEmitter} from 'node:events';
import {expect, test} from 'vitest';
import {topScreen} from '../../../src/run/top/top-screen.ts';
import {answerLine} from '../../../src/render/top/top-table.ts';
import {trafficReport} from '../../../src/traffic/measure-traffic.ts';
import {webPort} from '../../checks/traffic.ts';
import {natTable, sampleOf, surveyOf, tracked} from '../../traffic/reads.ts';

const survey = surveyOf(webPort(['10.244.1.4', '10.244.1.5']), {'10.244.1.4': 0.5, '10.244.1.5': 0.5});
const read = {
  survey,
  before: sampleOf(survey, {at: 10, nat: natTable({4: 100, 5: 200}), conntrack: ''}),
  after: sampleOf(survey, {at: 12, nat: natTable({4: 140, 5: 242}), conntrack: tracked(1, '4') + tracked(2, '9')}),
};
const report = trafficReport([read], {toolVersion: '1.0.0', isRate: true});

function open() {
  const parts: string[] = [];
  const stream = Object.assign(new EventEmitter(), {columns: 120, rows: 24, write: (text: string) => parts.push(text) > 0});
  const view = topScreen({color: false, wide: false, what: 'kind', stream: stream as unknown as NodeJS.WriteStream});
  const screen = () => (parts.join('').split('\u001b[H').at(-1) ?? '').replaceAll('\u001b[K', '').split('\n');
  const endpoints = () => screen().flatMap(line => /^(10\.244\.1\.\d):8080/.exec(line)?.[1]?.slice(-1) ?? []);
  view.show(report);
  return {view, screen, endpoints, written: () => parts.join('')};
}

test('s sorts the endpoints by share, new and open connections, and back to unusual ones first', () => {
  const {view, screen, endpoints} = open();
  const seen = [0, 1, 2, 3, 4].map(() => {
    const now = `${/s sorts: (.*) first/.exec(screen()[0] ?? '')?.[1]}: ${endpoints().join('')}`;
    expect(view.take('s')).toBe(true);
    return now;
  });
  expect(seen).toEqual(['unusual: 945', 'largest share: 549', 'most new: 549', 'most open: 945', 'unusual: 945']);
  view.close();
});

test('/ filters the endpoints by address, pod or node, s included, and keeps all of a Service port that matches', () => {
  const {view, screen, endpoints} = open();
  for (const key of ['/', 's', '\u007f', 'web-5']) expect(view.take(key)).toBe(true);
  expect(screen()[0]).toContain('/web-5_');
  expect(endpoints()).toEqual(['5']);
  // The answer is about all of them.
  expect(screen().slice(1, 3).join(' ').trimEnd()).toBe(answerLine(report));
  expect(answerLine(report)).not.toContain('only endpoint');
  for (const key of ['\u001b', '/', 'shop/web', '\r']) view.take(key);
  expect(endpoints()).toEqual(['9', '4', '5']);
  for (const key of ['\u001b', '/', 'nobody', '\r']) view.take(key);
  expect(endpoints()).toEqual([]);
  expect(screen()).toContain('No Service port, endpoint, pod or node contains the text of the filter.');
  expect(view.take('q')).toBe(false);
  view.close();
});

test('the last answer stays on the terminal', () => {
  const {view, written} = open();
  view.close();
  view.close();
  expect(written().split('\u001b[?1049l')[1]).toMatch(/^shop\/web:http: 41\.0 new connections\/s[^\n]*\n$/);
});
