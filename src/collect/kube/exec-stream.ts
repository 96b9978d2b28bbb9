import {readFields} from '../../parse/attempt.ts';
import type {IncomingMessage} from 'node:http';
import {WebSocketHandler} from '@kubernetes/client-node/dist/web-socket-handler.js';
import WebSocket from 'ws';
import {CommandFailed, maxMessages, maxOutput, outputLimit, type TakeOutput} from '../node/transport.ts';
import {ApiError} from './kube-api.ts';
import type {KubectlConfig} from './kubectl-config.ts';
import {type ApiResponse, maxSilence, readResponse} from './send-request.ts';

interface ExecRequest {
  /** With the query string. */
  readonly path: string;
  readonly argv: readonly string[];
  readonly signal: AbortSignal;
  readonly userAgent: string;
  /** How long opening the stream may take, in milliseconds; 0 for the default. */
  readonly timeout: number;
  /** Receives stdout while it arrives; the promise then resolves to empty output. */
  readonly take?: TakeOutput | undefined;
  /** Called when the stream is open, with what sends input to the command. */
  readonly begin?: ((send: (text: string) => void) => void) | undefined;
}

/** What the command printed on stdout, or the answer of an API server that opened no stream, with the options of the request. */
type ExecOutcome =
  | {readonly kind: 'stdout'; readonly stdout: Buffer}
  | {readonly kind: 'answer'; readonly applied: object; readonly response: ApiResponse};

/** In protocols before v4 the Status is not JSON. */
const protocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io'];

/**
 * Runs a command over a WebSocket. Only the Status on channel 3 shows that the output is complete: a stream that ends without it is an
 * error. Rejects with a CommandFailed, an ApiError, or the connection's error.
 */
export function execOverWebSocket(config: KubectlConfig, request: ExecRequest): Promise<ExecOutcome> {
  const {argv, signal} = request;
  const {promise, resolve, reject} = Promise.withResolvers<ExecOutcome>();
  const interrupt = () => reject(new CommandFailed(argv, {exitCode: null, stderr: '', cause: signal.reason}));
  if (signal.aborted) interrupt();
  else connect(config, request, {resolve, reject});
  signal.addEventListener('abort', interrupt, {once: true});
  return promise.finally(() => signal.removeEventListener('abort', interrupt));
}

type ExecCallbacks = Pick<PromiseWithResolvers<ExecOutcome>, 'resolve' | 'reject'>;

function connect(config: KubectlConfig, request: ExecRequest, {resolve, reject}: ExecCallbacks): void {
  const channels = new Channels(request);
  const open = (url: string, _protocols: string[], applied: WebSocket.ClientOptions): WebSocket => {
    const socket = openSocket(url, applied, request);
    if (request.begin !== undefined) socket.on('open', () => request.begin?.(text => sendInput(socket, text)));
    socket.on('message', (data, isBinary) => {
      try {
        channels.add(frameOf(data), isBinary);
      } catch (error) {
        reject(error);
        socket.terminate();
      }
    });
    socket.on('unexpected-response', (_request, response: IncomingMessage) => {
      readResponse(response).then(answer => resolve({kind: 'answer', applied, response: answer}), reject);
    });
    socket.on('error', reject);
    socket.on('close', closeCode => {
      try {
        resolve({kind: 'stdout', stdout: channels.stdoutOf(request.argv, closeCode)});
      } catch (error) {
        reject(error);
      }
    });
    // client-node's own reader throws inside the socket on an empty frame, and ends the stdout of this program if a frame says so.
    return Object.defineProperty(socket, 'onmessage', {set: () => {}});
  };
  new WebSocketHandler(config, open).connect(request.path, null, null).catch(reject);
}

/** Throws if the signal was aborted while credentials were obtained. */
function openSocket(url: string, applied: WebSocket.ClientOptions, {signal, timeout, userAgent}: ExecRequest): WebSocket {
  signal.throwIfAborted();
  const socket = new WebSocket(url, protocols, {
    ...applied,
    headers: {'user-agent': userAgent, ...applied.headers},
    handshakeTimeout: timeout || maxSilence,
    perMessageDeflate: false,
  });
  const terminate = () => socket.terminate();
  signal.addEventListener('abort', terminate, {once: true});
  socket.on('close', () => signal.removeEventListener('abort', terminate));
  return socket;
}

/** Channel 0 is stdin. What is sent to a closed socket is lost, as the command is. */
function sendInput(socket: WebSocket, text: string): void {
  if (socket.readyState === socket.OPEN) socket.send(Buffer.concat([Buffer.from([0]), Buffer.from(text)]));
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
  readonly #take: TakeOutput | undefined;
  readonly #limits: readonly (((part: Buffer) => void) | undefined)[];

  constructor({argv, take}: ExecRequest) {
    this.#take = take;
    this.#limits = [
      undefined,
      outputLimit(argv, maxOutput),
      outputLimit(argv, maxMessages, ' of error messages'),
      outputLimit(argv, maxMessages, ' as its status'),
    ];
  }

  /** Throws a TooMuchOutput. */
  add(frame: Buffer, isBinary: boolean): void {
    if (!isBinary) return;
    const [channel] = frame;
    this.#limits[channel ?? 0]?.(frame);
    if (channel === 1 && this.#take !== undefined) return this.#take(frame.subarray(1));
    const to = channel === 1 ? this.#stdout : channel === 2 ? this.#stderr : channel === 3 ? this.#status : null;
    to?.push(frame.subarray(1));
  }

  /** Throws if the command failed. */
  stdoutOf(argv: readonly string[], closeCode: number): Buffer {
    assertSuccess(argv, Buffer.concat(this.#status), Buffer.concat(this.#stderr), closeCode);
    return Buffer.concat(this.#stdout);
  }
}

/** Throws a CommandFailed or an ApiError if the command failed, or if its end was not received. `content`: all of channel 3. */
function assertSuccess(argv: readonly string[], content: Buffer, stderr: Buffer, closeCode: number): void {
  if (content.length === 0) throw incomplete(`the connection was closed (${closeCode}) before ${argv[0]} had ended`);
  const status = statusOf(content);
  if (status === null) throw incomplete(`the Status at the end of ${argv[0]} is invalid`);
  if (status.status === 'Success') return;
  const {exitCode, message, code, reason} = status;
  const said = stderr.toString('utf8');
  if (exitCode !== null) throw new CommandFailed(argv, {exitCode, stderr: said});
  // The messages of runc and crun, for a program looked up in PATH and for one given by its path.
  if (/executable file (?:`[^`]*` )?not found|exec: "[^"]*": (?:stat [^:]*: )?no such file or directory/.test(message))
    throw new CommandFailed(argv, {exitCode: null, stderr: said || message, notFound: true});
  throw new ApiError(`cannot run ${argv[0]} in the container: ${message}`, {status: code, reason});
}

function incomplete(why: string): ApiError {
  return new ApiError(`${why}: what it printed is not complete`, {status: null});
}

/** Null if it is not a Status: a server or a proxy may send anything. `exitCode`: the program's exit code; null if the Status has none. */
function statusOf(content: Buffer) {
  const {status, message, reason, code, details} = readFields(content.toString('utf8'));
  if (typeof status !== 'string') return null;
  return {
    status,
    message: typeof message === 'string' ? message : '',
    reason: typeof reason === 'string' ? reason : '',
    code: typeof code === 'number' ? code : null,
    exitCode: reason === 'NonZeroExitCode' ? exitCodeIn(details) : null,
  };
}

function exitCodeIn(details: unknown): number | null {
  const {causes} = (details ?? {}) as {readonly causes?: unknown};
  const list: readonly ({readonly reason?: unknown; readonly message?: unknown} | null)[] = Array.isArray(causes) ? causes : [];
  const code = String(list.find(cause => cause?.reason === 'ExitCode')?.message ?? '');
  return /^-?\d+$/.test(code) ? Number(code) : null;
}
