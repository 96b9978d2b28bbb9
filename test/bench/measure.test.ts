import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {expect, onTestFinished, test} from 'vitest';
import {measure} from './measure.ts';

test('a measurement includes the program and its threads, with output and exit code', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-trace-measure-'));
  onTestFinished(() => rmSync(dir, {recursive: true}));
  const busy = 'const held = Buffer.alloc(1 << 27, 1); while (process.cpuUsage().user < 2e5); console.log(held.length); process.exit(3)';
  const {exitCode, stdout, cpuSeconds, wallSeconds, peakMebibytes} = await measure([process.execPath, '-e', busy], dir);
  expect({exitCode, stdout}).toEqual({exitCode: 3, stdout: '134217728\n'});
  expect(cpuSeconds).toBeGreaterThan(0.2);
  expect(wallSeconds).toBeGreaterThan(0.2 / 2);
  if (process.platform === 'linux') expect(peakMebibytes).toBeGreaterThan(128);
});
