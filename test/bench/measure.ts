import {spawn} from 'node:child_process';
import {closeSync, existsSync, openSync, readFileSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';

export interface Cost {
  /** User and system time of the process and its threads. */
  cpuSeconds: number;
  wallSeconds: number;
  /** The most memory it held at one time. */
  peakMebibytes: number;
}

export interface Measured extends Cost {
  exitCode: number;
  stdout: string;
}

const PRELOAD = new URL('usage-preload.mjs', import.meta.url).href;

/** Runs a Node program to its end and says what it took. The output goes through files in `dir`. */
export async function measure(args: readonly string[], dir: string): Promise<Measured> {
  const outputFile = join(dir, 'stdout');
  const usageFile = join(dir, 'usage.json');
  rmSync(usageFile, {force: true});
  const started = performance.now();
  const exitCode = await run(['--import', PRELOAD, ...args], outputFile, {
    BENCH_USAGE_FILE: usageFile,
  });
  const wallSeconds = (performance.now() - started) / 1_000;
  if (!existsSync(usageFile)) {
    throw new Error(`node ${args.join(' ')} ended with exit code ${exitCode} before it could be measured`);
  }
  const usage = JSON.parse(readFileSync(usageFile, 'utf8')) as {
    cpuMicroseconds: number;
    peakKibibytes: number;
  };
  return {
    cpuSeconds: usage.cpuMicroseconds / 1_000_000,
    wallSeconds,
    peakMebibytes: usage.peakKibibytes / 1_024,
    exitCode,
    stdout: readFileSync(outputFile, 'utf8'),
  };
}

/** Runs a Node program; its standard output goes to a file, so that no pipe makes it wait. */
export async function run(args: readonly string[], outputFile: string, extraEnv: Record<string, string> = {}): Promise<number> {
  const output = openSync(outputFile, 'w');
  // The caller's options to Node would change what is measured.
  const env = {...process.env, ...extraEnv, NODE_OPTIONS: ''};
  try {
    const child = spawn(process.execPath, args, {env, stdio: ['ignore', output, 'inherit']});
    return await new Promise<number>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => {
        if (code === null) {
          reject(new Error(`node ${args.join(' ')} was ended by ${signal}`));
        } else {
          resolve(code);
        }
      });
    });
  } finally {
    closeSync(output);
  }
}
