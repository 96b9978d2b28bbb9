import {cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, expect, test} from 'vitest';
import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import {diagnose} from '../../../src/diagnose.ts';
import type {Report} from '../../../src/model/report.ts';
import {capturePath} from '../../fixtures.ts';

interface Item {
  readonly metadata: {readonly name: string; readonly labels?: Readonly<Record<string, string>>};
}
interface List {
  metadata: {continue?: string};
  items: Item[];
}

const folder = mkdtempSync(join(tmpdir(), 'svc-trace-gaps-'));
afterAll(() => rmSync(folder, {recursive: true}));

/** What is found in a healthy capture of which one file was spoiled, beside what is found in the whole one. */
async function newsAfter(file: string, spoil: (list: List) => void): Promise<{readonly report: Report; readonly news: readonly string[]}> {
  const bundle = mkdtempSync(join(folder, 'bundle-'));
  cpSync(capturePath('healthy/1.36-iptables'), bundle, {recursive: true});
  const before = await readAndDiagnose(bundle);
  const path = join(bundle, 'api', file);
  const list: List = JSON.parse(readFileSync(path, 'utf8'));
  spoil(list);
  writeFileSync(path, JSON.stringify(list));
  const report = await readAndDiagnose(bundle);
  const known = new Set(before.findings.map(({message}) => message));
  return {report, news: report.findings.filter(({message}) => !known.has(message)).map(({code, message}) => `${code} ${message}`)};
}

async function readAndDiagnose(bundle: string): Promise<Report> {
  return diagnose(await readBundle(bundle), {toolVersion: '0.0.0'});
}

/** Gives the items that are chosen a field of the wrong kind. */
function spoilItems(list: List, chosen: (item: Item) => boolean, wrong: object): void {
  list.items = list.items.map(item => (chosen(item) ? {...item, ...wrong} : item));
}

test('rules of a Service that could not be read are not reported as leftovers', async () => {
  const {report, news} = await newsAfter('services.json', list => spoilItems(list, ({metadata}) => metadata.name === 'web', {spec: 5}));
  expect(news).toEqual([expect.stringMatching(/^ST901 api\/services\.json: item \d+ is left out: its spec is not an object$/)]);
  expect(report.summary).toMatchObject({verdict: 'incomplete', errors: 0});
});

test('rules of Services on a page that was not read are not reported as leftovers', async () => {
  const {report, news} = await newsAfter('services.json', list => {
    list.metadata.continue = 'eyJ2Ijoi';
    list.items = list.items.slice(0, 10);
  });
  expect(news).toEqual([expect.stringMatching(/^ST901 api\/services\.json is only the first page/)]);
  expect(report.summary).toMatchObject({verdict: 'incomplete', errors: 0});
});

test('a Service with an unreadable slice is only reported as incomplete', async () => {
  const ofWeb = ({metadata}: Item): boolean => metadata.labels?.['kubernetes.io/service-name'] === 'web';
  const {report, news} = await newsAfter('endpointslices.json', list => spoilItems(list, ofWeb, {endpoints: 'none'}));
  expect(news).toEqual([
    expect.stringMatching(/^ST901 api\/endpointslices\.json: item \d+ is left out/),
    'ST901 shop/web was not checked: not all of its endpoints could be read',
  ]);
  expect(report.services).not.toContainEqual({namespace: 'shop', name: 'web'});
  expect(report.summary).toMatchObject({verdict: 'incomplete', errors: 0});
});

test('no node is checked if only the first page of the slices was read', async () => {
  const {report} = await newsAfter('endpointslices.json', list => {
    list.metadata.continue = 'eyJ2Ijoi';
    list.items = list.items.slice(0, 5);
  });
  expect(report.nodes.map(({status}) => status)).toEqual(['unread', 'unread', 'unread']);
  expect(report.summary).toMatchObject({verdict: 'incomplete', errors: 0});
});
