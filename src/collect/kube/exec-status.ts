import {CommandFailed} from '../node/transport.ts';
import {ApiError} from './kube-api.ts';

/** The Status at the end of an exec, as far as it is used. */
interface ExecStatus {
  readonly status: string;
  readonly message: string;
  readonly reason: string;
  readonly code: number | null;
  /** The program's exit code; null if the Status has none. */
  readonly exitCode: number | null;
}

/** How a command ended. */
interface ExecEnd {
  readonly argv: readonly string[];
  /** The content of channel 3; empty if the connection was closed before. */
  readonly status: Buffer;
  readonly stderr: Buffer;
  /** The close code of the WebSocket. */
  readonly closeCode: number;
}

/** Throws a CommandFailed or an ApiError if the command failed, or if its end was not received. */
export function assertSuccess({argv, status: content, stderr, closeCode}: ExecEnd): void {
  if (content.length === 0) throw incomplete(`the connection was closed (${closeCode}) before ${argv[0]} had ended`);
  const status = statusOf(content);
  if (status === null) throw incomplete(`the Status at the end of ${argv[0]} is invalid`);
  if (status.status === 'Success') return;
  const {exitCode, message, code, reason} = status;
  const said = stderr.toString('utf8');
  if (exitCode !== null) throw new CommandFailed(argv, {exitCode, stderr: said});
  if (isNotFound(message)) throw new CommandFailed(argv, {exitCode: null, stderr: said || message, notFound: true});
  throw new ApiError(`cannot run ${argv[0]} in the container: ${message}`, {status: code, reason});
}

function incomplete(why: string): ApiError {
  return new ApiError(`${why}: what it printed is not complete`, {status: null});
}

/** Null if it is not a Status: a server or a proxy may send anything. */
function statusOf(content: Buffer): ExecStatus | null {
  const value = parsed(content);
  const {status, message, reason, code, details} = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof status !== 'string') return null;
  return {
    status,
    message: typeof message === 'string' ? message : '',
    reason: typeof reason === 'string' ? reason : '',
    code: typeof code === 'number' ? code : null,
    exitCode: reason === 'NonZeroExitCode' ? exitCodeIn(details) : null,
  };
}

function parsed(content: Buffer): unknown {
  try {
    return JSON.parse(content.toString('utf8'));
  } catch {
    return null;
  }
}

function exitCodeIn(details: unknown): number | null {
  const {causes} = (details ?? {}) as {readonly causes?: unknown};
  const list: readonly ({readonly reason?: unknown; readonly message?: unknown} | null)[] = Array.isArray(causes) ? causes : [];
  const code = String(list.find(cause => cause?.reason === 'ExitCode')?.message ?? '');
  return /^-?\d+$/.test(code) ? Number(code) : null;
}

/** The messages of runc and crun, for a program looked up in PATH and for one given by its path. */
function isNotFound(message: string): boolean {
  return /executable file (?:`[^`]*` )?not found|exec: "[^"]*": (?:stat [^:]*: )?no such file or directory/.test(message);
}
