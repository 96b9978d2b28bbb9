import {cpSync, existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {describe, expect, onTestFinished, test} from 'vitest';

const root = join(import.meta.dirname, '../..');

describe('under a Node.js that is too old', () => {
  const old = "data:text/javascript,Object.defineProperty(process, 'versions', {value: {...process.versions, node: '20.20.2'}})";
  const underOldNode = (script: string, ...args: string[]) => execa(process.execPath, ['--import', old, script, ...args], {reject: false});

  /** Platforms for which npm has a build of Node.js (tools/node). */
  const hasNodeOfCheckout = existsSync(join(root, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin/node'));

  test.runIf(hasNodeOfCheckout)('a linked checkout runs with the Node.js that "npm ci" installed', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-link-'));
    onTestFinished(() => rmSync(folder, {recursive: true}));
    symlinkSync(join(root, 'bin/run.js'), join(folder, 'kubectl-svc_trace'));
    const {stdout, exitCode} = await underOldNode(join(folder, 'kubectl-svc_trace'), 'explain', 'ST202');
    expect(stdout).toMatch(/^# ST202/);
    expect(exitCode).toBe(0);
  });

  test.runIf(hasNodeOfCheckout)('the exit code is that of the run', async () => {
    const {stderr, exitCode} = await underOldNode(join(root, 'bin/run.js'), 'explain', 'ST999');
    expect(stderr).toContain('ST999');
    expect(exitCode).toBe(2);
  });

  test('the error names the required version if no newer Node.js is installed', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-old-'));
    onTestFinished(() => rmSync(folder, {recursive: true}));
    cpSync(join(root, 'bin'), join(folder, 'bin'), {recursive: true});
    writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
    const {stderr, exitCode} = await underOldNode(join(folder, 'bin/run.js'), '--version');
    expect(stderr).toMatch(
      /^svc-trace needs Node\.js 22\.19 or newer, and this is v[\d.]+\. In a checkout, "npm ci" installs a newer one\.$/,
    );
    expect(exitCode).toBe(2);
  });
});
