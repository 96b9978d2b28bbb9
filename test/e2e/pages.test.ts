import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, expect, test} from 'vitest';
import {capturePath} from '../fixtures.ts';
import {svcTrace} from '../svc-trace.ts';

const from = capturePath('faults/missing-endpoint');
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-trace-pages-'));
});

afterAll(() => rmSync(folder, {recursive: true}));

function run(...args: readonly string[]) {
  return svcTrace([...args, '--from', from]);
}

test('check writes a page with the packet path of the Service that has a finding, and of no other', async () => {
  const file = join(folder, 'report.html');
  const {stdout, stderr, exitCode} = await run('check', '-A', '-o', 'html', '--output-file', file);
  expect({stdout, exitCode}).toEqual({stdout: '', exitCode: 1});
  expect(stderr).toMatch(
    /^wrote \S+report\.html \(\d+ kB\): FAULTY: shop\/web on node-a: pod web-2 gets no traffic \(ST202\); 1 error on 1 of 3 nodes/,
  );
  const page = readFileSync(file, 'utf8');
  expect([...page.matchAll(/<figcaption>(.*?)<\/figcaption>/g)].map(([, title]) => title)).toEqual(['shop/web:http port 80/TCP on node-a']);
});

test.each([
  ['mermaid', /^flowchart LR\n {2}heading\["FAULTY: shop\/web on node-a: pod web-2 gets no traffic \(ST202\)#59; 1 error/],
  ['dot', /^digraph trace \{\n/],
  ['svg', /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" /],
  ['html', /^<!DOCTYPE html>\n/],
])('trace prints %s', async (format, start) => {
  const {stdout, stderr, exitCode} = await run('trace', 'shop/web', '-o', format);
  expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 1});
  expect(stdout).toMatch(start);
  expect(stdout).toContain('10.244.11.5:8080');
  expect(stdout).toMatch(/missing(: should get 33\.3%|["\\<])/);
});
