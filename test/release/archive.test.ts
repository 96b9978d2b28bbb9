import {chmodSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {pack} from '../../tools/release/archive.ts';
import {describeWith} from '../require.ts';

const time = new Date('2026-03-04T05:06:08Z');
const large = 'line of text\n'.repeat(100_000);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-trace-archive-'));
  writeFileSync(join(folder, 'a.txt'), 'a');
  writeFileSync(join(folder, 'large.txt'), large);
  writeFileSync(join(folder, 'program'), '#!/bin/sh\n');
  chmodSync(join(folder, 'program'), 0o755);
});
afterAll(() => rmSync(folder, {recursive: true}));

async function packed(name: string, files: readonly string[]): Promise<string> {
  const archive = join(folder, name);
  await pack({folder, files, archive, time});
  return archive;
}

describe.each(['tar.gz', 'zip'])('an archive, .%s', type => {
  test('is reproducible for the same files, whatever their order and times', async () => {
    const first = readFileSync(await packed(`first.${type}`, ['a.txt', 'large.txt', 'program']));
    utimesSync(join(folder, 'a.txt'), 0, 0);
    expect(readFileSync(await packed(`second.${type}`, ['program', 'a.txt', 'large.txt'])).equals(first)).toBe(true);
  });
});

test('tar unpacks it, with modes and times', async () => {
  const {stdout} = await execa('tar', ['--utc', '-tvzf', await packed('listed.tar.gz', ['a.txt', 'program'])]);
  expect(stdout.split('\n').map(line => line.split(/\s+/))).toEqual([
    ['-rw-r--r--', '0/0', '1', '2026-03-04', '05:06', 'a.txt'],
    ['-rwxr-xr-x', '0/0', '10', '2026-03-04', '05:06', 'program'],
  ]);
});

describeWith(['unzip'], 'unzip', () => {
  test('unzip finds no error in it, and unpacks its content', async () => {
    const archive = await packed('listed.zip', ['a.txt', 'large.txt']);
    expect((await execa('unzip', ['-t', archive])).stdout).toContain('No errors detected');
    expect((await execa('unzip', ['-p', archive, 'large.txt'], {stripFinalNewline: false})).stdout).toBe(large);
    expect((await execa('unzip', ['-l', archive])).stdout).toMatch(/ 1 {2}2026-03-04 05:06 {3}a\.txt/);
  });
});
