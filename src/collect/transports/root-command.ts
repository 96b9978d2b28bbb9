import {Buffer} from 'node:buffer';
import type {WriteStream} from 'node:fs';
import {maxMessages, maxOutput, outputLimit, TooMuchOutput, type NodeInfo, Unreachable} from '../node/transport.ts';

/** Directories of the tools that are not in a plain user's `PATH`, including those of NixOS and k3s. */
export const toolFolders = '/usr/local/sbin:/usr/sbin:/sbin:/run/current-system/sw/bin:/var/lib/rancher/k3s/data/current/bin/aux';

/** The argv with `sudo -n` before it: never asks for a password. */
export function asRoot(argv: readonly string[], sudo: boolean): readonly string[] {
  return sudo ? ['sudo', '-n', '--', ...argv] : argv;
}

/**
 * For any POSIX shell: runs the argv, and ends it when the input ends, as it does when the client on this side is killed. Neither
 * sshd nor a container engine ends a program that hangs on the node. No program of its own reads the input, since it may be the same socket
 * as the output.
 */
export function endingWithInput(argv: readonly string[], sudo = false): readonly string[] {
  const watch = `{ read -r x; ${sudo ? endOfSudo : ''} kill $p; } <&3 3<&- >/dev/null 2>&1 & w=$!`;
  return [
    'sh',
    '-c',
    `exec 3<&0; "$@" </dev/null 3<&- & p=$!; ${watch}; wait $p; s=$?; kill $w 2>/dev/null; exit $s`,
    'sh',
    ...asRoot(argv, sudo),
  ];
}

/** sudo and what it runs belong to root, and sudo passes on no signal of its own process group. */
const endOfSudo = 'c=$(cat /proc/$p/task/$p/children); [ -z "$c" ] || sudo -n -- kill $c;';

/** In single quotes, only the single quote is special in a POSIX shell. */
export function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Whether a command failed because its program does not exist, by the messages of env, sudo, nsenter and container runtimes. */
export function isProgramMissing({exitCode, stderr}: {readonly exitCode: number | null; readonly stderr: string}): boolean {
  if (exitCode === 127) return true;
  if (/^sudo: .*: command not found/m.test(stderr)) return true;
  return (exitCode === null || exitCode === 126) && /executable file not found|exec.*no such file or directory/i.test(stderr);
}

/** The message of sudo if sudo refused; otherwise null. */
export function sudoRefusal(stderr: string): string | null {
  return (
    /^(?:sudo: .*(?:password is required|terminal is required|no tty present|account validation).*|.*is not in the sudoers file.*|Sorry, user .* (?:is not allowed|may not).*)$/m.exec(
      stderr,
    )?.[0] ?? null
  );
}

interface ProgramOptions {
  readonly signal: AbortSignal;
  /** In addition to the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** An open file for stderr in place of a pipe: for programs that leave a child behind, which would keep the pipe open. */
  readonly stderr?: WriteStream;
  /** An input without data that ends with this process or the run of the program. */
  readonly openInput?: true;
  /** Receives stdout while it arrives; `stdout` of the result is empty then. */
  readonly take?: ((part: Buffer) => void) | undefined;
}

/**
 * Runs a program of this machine by its argv, without a shell and without data to read. Rejects only with a TooMuchOutput. When the signal
 * is aborted, the program is killed. `stderr`: empty if stderr went to a file. `exitCode`: null if it did not end by itself or could not be
 * started. `notFound`: the program is not on this machine.
 */
export async function runProgram(program: string, args: readonly string[], options: ProgramOptions) {
  const {execa} = await import('execa');
  const parts: Buffer[] = [];
  const tooMuch = new AbortController();
  const signal = AbortSignal.any([options.signal, tooMuch.signal]);
  const running = execa(program, args, {
    stdin: options.openInput === true ? 'pipe' : 'ignore',
    stderr: options.stderr ?? 'pipe',
    buffer: {stdout: false, stderr: options.stderr === undefined},
    reject: false,
    cancelSignal: signal,
    maxBuffer: {stderr: maxMessages},
    forceKillAfterDelay: 1000,
    env: options.env,
  });
  // Not done by execa: its result is based on a resizable ArrayBuffer, in which reading byte by byte is slow.
  const count = outputLimit([program], maxOutput);
  running.stdout?.on('data', (part: Buffer) => {
    try {
      count(part);
    } catch (error) {
      tooMuch.abort(error);
      parts.length = 0;
    }
    if (tooMuch.signal.aborted) return;
    if (options.take === undefined) parts.push(part);
    else options.take(part);
  });
  // ssh passes its output to the shared connection, which keeps the pipes open after ssh itself has ended.
  running.nodeChildProcess.once('exit', () => {
    if (!signal.aborted) return;
    running.stdout?.destroy();
    running.stderr?.destroy();
  });
  const result = await running;
  tooMuch.signal.throwIfAborted();
  if (result.isMaxBuffer) throw new TooMuchOutput([program], maxMessages, ' of error messages');
  return {
    stdout: Buffer.concat(parts),
    stderr: typeof result.stderr === 'string' ? result.stderr : '',
    exitCode: result.exitCode ?? null,
    notFound: 'code' in result && result.code === 'ENOENT',
    cause: result.cause ?? (result.failed ? result : undefined),
  };
}

/**
 * Refuses a node name that Kubernetes does not allow (a DNS subdomain): names are used in command lines of ssh and docker, where
 * `-oProxyCommand=…` would be an option.
 */
export function refuseInvalidNodeName({name}: NodeInfo): void {
  if (/^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(name) && name.length <= 253) return;
  throw new Unreachable(`the node name ${JSON.stringify(name)} is none that Kubernetes allows: it is not used in a command`, {
    isPermanent: true,
  });
}
