import {mkdtempSync, rmSync, symlinkSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {kubectl} from '../require.ts';
import type {Container} from './pods.ts';

const executable = join(import.meta.dirname, '../../bin/run.js');

/** What the container runs, here: `svc-trace` is this one, kubectl the real one, and `/reports` a folder. */
export async function runContainer(
  container: Container | undefined,
  env: Record<string, string>,
  folder = '',
  more: readonly string[] = [],
) {
  if (container === undefined) throw new Error('there is no such container');
  const tools = mkdtempSync(join(tmpdir(), 'svc-trace-tools-'));
  try {
    symlinkSync(executable, join(tools, 'svc-trace'));
    const {command = ['svc-trace'], args = []} = container;
    const [program = '', ...rest] = [...command, ...args, ...more].map(word => word.replaceAll(/(?<!\w)\/reports\b/g, folder));
    const path = `${tools}:${join(process.execPath, '..')}:${process.env['PATH']}`;
    const options = {env: {...env, PATH: path, NO_COLOR: '1', FORCE_COLOR: undefined}, stdin: 'ignore', reject: false} as const;
    return await execa(program === '/bin/kubectl' ? kubectl : program === 'svc-trace' ? join(tools, program) : program, rest, options);
  } finally {
    rmSync(tools, {recursive: true});
  }
}
