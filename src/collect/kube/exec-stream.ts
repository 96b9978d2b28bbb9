import type {Agent, IncomingMessage, OutgoingHttpHeaders} from 'node:http';
import WebSocket from 'ws';
import {CommandFailed} from '../node/transport.ts';
import {ApiError} from './kube-api.ts';
import {type ApiResponse, maxSilence, readResponse} from './send-request.ts';

export interface ExecRequest {
  readonly url: URL;
  readonly headers: OutgoingHttpHeaders;
  readonly agent: Agent;
  readonly argv: readonly string[];
  readonly signal: AbortSignal;
  /** Milliseconds until the stream must be open; 0 for the default. */
  readonly timeout: number;
  /** Takes stdout as it comes; what it resolves to is empty then. */
  readonly take?: ((part: Buffer) => void) | undefined;
}

/** What the command printed on stdout, or the answer of an API server that opened no stream. */
export type ExecOutcome = {readonly kind: 'stdout'; readonly stdout: Buffer} | {readonly kind: 'answer'; readonly response: ApiResponse};

/** What channel 3 holds at the end. */
interface ExecStatus {
  readonly status?: string;
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: {readonly causes?: readonly {readonly reason?: string; readonly message?: string}[]};
}

const protocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io'];

/**
 * Runs a command over a WebSocket. Only the Status on channel 3 says that the output is whole: a stream that ends without one is an error.
 * Rejects with a CommandFailed, an ApiError, or what the connection broke with.
 */
export function execOverWebSocket({url, headers, agent, argv, signal, timeout, take}: ExecRequest): Promise<ExecOutcome> {
  if (signal.aborted) return Promise.reject(interrupted(argv, signal));
  const socket = new WebSocket(url.href.replace(/^http/, 'ws'), protocols, {
    agent,
    headers: headers as Record<string, string>,
    handshakeTimeout: timeout || maxSilence,
    perMessageDeflate: false,
  });
  const channels = new Channels(take);
  return new Promise<ExecOutcome>((resolve, reject) => {
    const abort = () => {
      reject(interrupted(argv, signal));
      socket.terminate();
    };
    signal.addEventListener('abort', abort, {once: true});
    socket.on('message', (data, isBinary) => channels.add(frameOf(data), isBinary));
    socket.on('unexpected-response', (_request, response: IncomingMessage) => {
      readResponse(response).then(answer => resolve({kind: 'answer', response: answer}), reject);
    });
    socket.on('error', reject);
    socket.on('close', code => {
      signal.removeEventListener('abort', abort);
      try {
        resolve({kind: 'stdout', stdout: channels.stdoutOf(argv, code)});
      } catch (error) {
        reject(error);
      }
    });
  });
}

function interrupted(argv: readonly string[], signal: AbortSignal): CommandFailed {
  return new CommandFailed(argv, {exitCode: null, stderr: '', cause: signal.reason});
}

function frameOf(data: WebSocket.RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data);
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}

/** The first byte of a frame is its channel: 1 stdout, 2 stderr, 3 the Status at the end. */
class Channels {
  readonly #stdout: Buffer[] = [];
  readonly #stderr: Buffer[] = [];
  readonly #status: Buffer[] = [];
  readonly #take: ((part: Buffer) => void) | undefined;

  constructor(take: ((part: Buffer) => void) | undefined) {
    this.#take = take;
  }

  add(frame: Buffer, isBinary: boolean): void {
    if (!isBinary) return;
    const [channel] = frame;
    if (channel === 1 && this.#take !== undefined) return this.#take(frame.subarray(1));
    const to = channel === 1 ? this.#stdout : channel === 2 ? this.#stderr : channel === 3 ? this.#status : null;
    to?.push(frame.subarray(1));
  }

  /** Throws a CommandFailed or an ApiError when the command did not end well, or its end was not seen. */
  stdoutOf(argv: readonly string[], closeCode: number): Buffer {
    const status = this.#parsedStatus();
    if (status === null) {
      throw new ApiError(`the connection was closed (${closeCode}) before ${argv[0]} had ended: what it printed is not complete`, {
        status: null,
      });
    }
    if (status.status === 'Success') return Buffer.concat(this.#stdout);
    const stderr = Buffer.concat(this.#stderr).toString('utf8');
    const exitCode = exitCodeOf(status);
    if (exitCode !== null) throw new CommandFailed(argv, {exitCode, stderr});
    const message = status.message ?? '';
    if (isNotFound(message)) throw new CommandFailed(argv, {exitCode: null, stderr: stderr || message, notFound: true});
    throw new ApiError(`cannot run ${argv[0]} in the container: ${message}`, {status: status.code ?? null, reason: status.reason ?? ''});
  }

  #parsedStatus(): ExecStatus | null {
    const text = Buffer.concat(this.#status).toString('utf8');
    try {
      return text === '' ? null : (JSON.parse(text) as ExecStatus | null);
    } catch {
      return null;
    }
  }
}

function exitCodeOf({reason, details}: ExecStatus): number | null {
  if (reason !== 'NonZeroExitCode') return null;
  const code = details?.causes?.find(cause => cause.reason === 'ExitCode')?.message ?? '';
  return /^-?\d+$/.test(code) ? Number(code) : null;
}

/** As runc and crun say it, for a program looked up in PATH and for one given by its path. */
function isNotFound(message: string): boolean {
  return /executable file (?:`[^`]*` )?not found|exec: "[^"]*": (?:stat [^:]*: )?no such file or directory/.test(message);
}
