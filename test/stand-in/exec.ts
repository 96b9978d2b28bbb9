import {spawn} from 'node:child_process';
import {accessSync, constants} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import type {Writable} from 'node:stream';
import type {WebSocket} from 'ws';
import type {Fault} from './faults.ts';

/** What a node of the stand-in really is. */
export interface StandInNode {
  /** What goes before each command, such as `ip netns exec NAME`; commands run on this machine as it is where it is not given. */
  readonly enter?: readonly string[];
  /** PATH of its commands. */
  readonly path?: string;
}

export interface ExecCommand {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  /** The node the pod is on. */
  readonly node: string;
  readonly argv: readonly string[];
  /** It has an input. */
  readonly stdin?: boolean;
}

/** What a command came to, where it is not to be run: output, or another argv to run in its place. */
export type ExecReply =
  | {readonly stdout?: string | Buffer; readonly stderr?: string; readonly exitCode?: number}
  | {readonly argv: readonly string[]};

export interface ExecOptions {
  readonly node: StandInNode;
  readonly reply: ExecReply | null;
  readonly fault: Fault | null;
  /** Is told each command that runs, the one of the exec or those that a shell is sent, and says what goes wrong with one of a shell. */
  readonly onCommand: (argv: readonly string[], isOfShell: boolean) => Fault | null;
}

/** Runs a command and streams it as a kubelet does: v5 and v4 channels, an empty frame first, the Status last, then a clean close. */
export function streamExec(socket: WebSocket, command: ExecCommand, {node, reply, fault, onCommand}: ExecOptions): void {
  const send = sender(socket, fault);
  send(1, Buffer.alloc(0));
  if (command.argv.join() !== 'sh') onCommand(command.argv, false);
  if (fault?.kind === 'hang') return;
  if (reply !== null && !('argv' in reply)) {
    for (const part of chunks(Buffer.from(reply.stdout ?? ''))) send(1, part);
    if (reply.stderr) send(2, Buffer.from(reply.stderr));
    finish(socket, send, exitStatus(reply.exitCode ?? 0));
    return;
  }
  const input = run(socket, send, {...command, argv: reply?.argv ?? command.argv}, node);
  let hangs = false;
  socket.on('message', (data: Buffer) => {
    if (data[0] !== 0) return;
    for (const argv of command.argv.join() === 'sh' ? sentCommands(data.toString('utf8', 1)) : []) {
      const kind = onCommand(argv, true)?.kind;
      if (kind === 'reset') socket.terminate();
      hangs ||= kind === 'hang';
    }
    if (!hangs) input?.write(data.subarray(1));
  });
}

/** Of the lines that svc-trace sends to a shell. */
function sentCommands(input: string): readonly (readonly string[])[] {
  const lines = [...input.matchAll(/^\{ e=\$\(\{ (.*?) <\/dev\/null /gm)];
  return lines.map(([, line = '']) => [...line.matchAll(/'([^']*)'/g)].map(([, word = '']) => word));
}

type Send = (channel: number, data: Buffer) => void;

function sender(socket: WebSocket, fault: Fault | null): Send {
  let left = fault?.kind === 'cut-exec' ? fault.after : Number.POSITIVE_INFINITY;
  return (channel, data) => {
    if (socket.readyState !== socket.OPEN) return;
    if (channel === 3 ? left !== Number.POSITIVE_INFINITY : data.length > left) {
      socket.send(Buffer.concat([Buffer.from([channel === 3 ? 1 : channel]), data.subarray(0, channel === 3 ? 0 : left)]));
      if (fault?.kind === 'cut-exec' && fault.clean) socket.close(1000);
      else socket.terminate();
      return;
    }
    left -= data.length;
    socket.send(Buffer.concat([Buffer.from([channel]), data]));
  };
}

function run(socket: WebSocket, send: Send, {argv, stdin}: ExecCommand, node: StandInNode): Writable | null {
  const [program = '', ...args] = argv;
  const path = node.path ?? `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;
  const file = lookUp(program, path);
  if (file === null) {
    finish(socket, send, notFoundStatus(program));
    return null;
  }
  const [command = '', ...rest] = [...(node.enter ?? []), file, ...args];
  const child = spawn(command, rest, {
    stdio: [stdin === true ? 'pipe' : 'ignore', 'pipe', 'pipe'],
    env: {...process.env, PATH: path},
    // As container engines do it.
    detached: true,
  });
  child.stdin?.on('error', () => {});
  child.stdout?.on('data', (data: Buffer) => send(1, data));
  child.stderr?.on('data', (data: Buffer) => send(2, data));
  child.on('error', error => finish(socket, send, internalError(error.message)));
  child.on('close', code => finish(socket, send, exitStatus(code ?? 137)));
  socket.on('close', () => child.kill('SIGKILL'));
  return child.stdin;
}

function lookUp(program: string, path: string): string | null {
  const candidates = program.includes('/') ? [program] : path.split(':').map(folder => join(folder, program));
  return candidates.find(isExecutable) ?? null;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function finish(socket: WebSocket, send: Send, status: object): void {
  send(3, Buffer.from(JSON.stringify(status)));
  socket.close(1000);
}

function exitStatus(code: number): object {
  if (code === 0) return {metadata: {}, status: 'Success'};
  return {
    metadata: {},
    status: 'Failure',
    message: `command terminated with non-zero exit code: command terminated with exit code ${code}`,
    reason: 'NonZeroExitCode',
    details: {causes: [{reason: 'ExitCode', message: String(code)}]},
  };
}

function notFoundStatus(program: string): object {
  const why = program.includes('/') ? `stat ${program}: no such file or directory` : 'executable file not found in $PATH';
  return internalError(
    `error executing command in container: failed to exec in container: failed to start exec "6835accf": OCI runtime exec failed: exec failed: unable to start container process: exec: "${program}": ${why}: unknown`,
  );
}

function internalError(message: string): object {
  const text = `Internal error occurred: Internal error occurred: ${message}`;
  return {metadata: {}, status: 'Failure', message: text, reason: 'InternalError', details: {causes: [{message}]}, code: 500};
}

/** A kubelet reads 32 KiB at a time. */
function chunks(data: Buffer): Buffer[] {
  return Array.from({length: Math.ceil(data.length / 32_768)}, (_, index) => data.subarray(index * 32_768, (index + 1) * 32_768));
}
