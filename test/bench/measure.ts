import {spawn} from 'node:child_process';
import {closeSync, openSync, readFileSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';

export interface Cost {
  /** User and system time of the process, its threads, and the processes that it waited for. */
  readonly cpuSeconds: number;
  readonly wallSeconds: number;
  /** The most memory that the process itself held at one time; NaN where there is no /proc. */
  readonly peakMebibytes: number;
}

export interface Measured extends Cost {
  readonly exitCode: number;
  readonly stdout: string;
}

/**
 * Runs a program to its end and says what it took, seen from outside, so that whatever it is written in is measured alike. Its output
 * goes through a file in `dir`, so that no pipe makes it wait; what it says on stderr is passed on.
 */
export async function measure(command: readonly string[], dir: string): Promise<Measured> {
  const files = {stdout: join(dir, 'stdout'), pid: join(dir, 'pid'), times: join(dir, 'times')};
  for (const file of Object.values(files)) rmSync(file, {force: true});
  const output = openSync(files.stdout, 'w');
  // The caller's options to Node.js would change what is measured.
  const env = {...process.env, NODE_OPTIONS: '', PID_FILE: files.pid, TIMES_FILE: files.times};
  const peak = watchPeak(files.pid);
  try {
    const exitCode = await exitOf(spawn('bash', ['-c', timing, 'bash', ...command], {env, stdio: ['ignore', output, 'inherit']}));
    const [user = Number.NaN, system = Number.NaN, real = Number.NaN] = readFileSync(files.times, 'utf8').trim().split(/\s+/).map(Number);
    const stdout = readFileSync(files.stdout, 'utf8');
    return {cpuSeconds: user + system, wallSeconds: real, peakMebibytes: peak.stop(), exitCode, stdout};
  } finally {
    peak.stop();
    closeSync(output);
  }
}

/** The shell counts what its child used, whatever that is; the child is the program itself, and writes down its number first. */
const timing = `
TIMEFORMAT='%3U %3S %3R'
exec 3>&2 2>"$TIMES_FILE"
time { (echo "\${BASHPID-}" >"$PID_FILE"; exec "$@" 2>&3 3>&-); }
`;

function exitOf(child: ReturnType<typeof spawn>): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => (code === null ? reject(new Error(`the shell was ended by ${signal}`)) : resolve(code)));
  });
}

/** Linux keeps the peak as long as the process lives: what grew after the last look, some milliseconds before the end, is missed. */
function watchPeak(pidFile: string): {stop(): number} {
  let peak = Number.NaN;
  const timer = setInterval(() => {
    peak = peakOf(pidFile) ?? peak;
  }, 10);
  return {
    stop() {
      clearInterval(timer);
      return peak;
    },
  };
}

/** In mebibytes; undefined before the process is there, and when it has ended. */
function peakOf(pidFile: string): number | undefined {
  try {
    const status = readFileSync(`/proc/${readFileSync(pidFile, 'utf8').trim()}/status`, 'utf8');
    const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
    return kibibytes === undefined ? undefined : Number(kibibytes) / 1024;
  } catch {
    return undefined;
  }
}
