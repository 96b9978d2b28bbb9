import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeEach, expect, test} from 'vitest';
import {writableFile, writeReport} from '../../src/cli/output-file.ts';

const top = mkdtempSync(join(tmpdir(), 'svc-trace-report-'));
afterAll(() => rmSync(top, {recursive: true}));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(top, 'one-'));
});

test('a report that is not finished leaves the one before, and nothing beside it', () => {
  const file = join(folder, 'report');
  writeFileSync(file, 'before');
  const pieces = function* () {
    yield 'after';
    throw new Error('the disk is full');
  };
  expect(() => writeReport(file, pieces())).toThrow('the disk is full');
  expect([readFileSync(file, 'utf8'), readdirSync(folder)]).toEqual(['before', ['report']]);
});

test('who has opened the file before reads the whole report before', () => {
  const [file, opened] = [join(folder, 'report.prom'), join(folder, 'opened')];
  writeFileSync(file, 'before');
  linkSync(file, opened);
  writeReport(file, ['af', 'ter']);
  expect([readFileSync(file, 'utf8'), readFileSync(opened, 'utf8')]).toEqual(['after', 'before']);
});

test('a report that is replaced keeps its mode', () => {
  const file = join(folder, 'report');
  writeFileSync(file, 'before');
  chmodSync(file, 0o640);
  writeReport(file, ['after']);
  expect(statSync(file).mode & 0o777).toBe(0o640);
});

test('a link to a report stays a link', () => {
  const [file, link] = [join(folder, 'report'), join(folder, 'latest')];
  writeFileSync(file, 'before');
  symlinkSync('report', link);
  writeReport(link, ['after']);
  expect([readFileSync(file, 'utf8'), readdirSync(folder)]).toEqual(['after', ['latest', 'report']]);
});

test('a device is written to, and stays one', () => {
  writeReport('/dev/null', ['after']);
  expect(statSync('/dev/null').isFile()).toBe(false);
});

test.each([
  ['an empty name', '', 'the report needs a file: its name is empty'],
  ['a directory', 'folder', 'it is a directory'],
  ['a folder that does not exist', 'nowhere/report', 'no such file or directory'],
  ['a folder that is a file', 'file/report', 'a part of the path is not a directory'],
])('%s is refused before anything is read', async (_, name, reason) => {
  mkdirSync(join(folder, 'folder'));
  writeFileSync(join(folder, 'file'), '');
  await expect(writableFile(name === '' ? '' : join(folder, name))).rejects.toThrow(reason);
});
