import http, {type IncomingHttpHeaders, type IncomingMessage, type RequestOptions} from 'node:http';
import https from 'node:https';
import {pipeline} from 'node:stream';
import {promisify} from 'node:util';
import {createGunzip, gunzip, type ZlibOptions} from 'node:zlib';

/** `headers`, `agent` and `auth` are as client-node gives them. */
export interface WireRequest extends Pick<RequestOptions, 'headers' | 'agent' | 'auth'> {
  readonly method: string;
  readonly url: URL;
  /** JSON; null for none. */
  readonly body: string | null;
  readonly signal: AbortSignal;
  /** How long the connection may stay silent, in milliseconds: `maxSilence` where it is not given. */
  readonly silenceMs?: number;
  /** How long the body may be, unpacked; without a limit where it is not given. */
  readonly maxBytes?: number | undefined;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** The API server ends a request by itself after 60 s. A connection that stays silent for longer than this is dead. In milliseconds. */
export const maxSilence = 75_000;

/**
 * Sends one request and resolves to the whole of its answer, whatever its status. Rejects when there is none, or only a part of one;
 * with the reason of the signal when that ended it.
 */
export async function sendRequest(wire: WireRequest): Promise<ApiResponse> {
  try {
    return await readResponse(await responseTo(wire), wire.maxBytes);
  } catch (error) {
    throw wire.signal.aborted ? wire.signal.reason : error;
  }
}

/** Resolves when an answer begins. */
export function responseTo({url, body, signal, silenceMs = maxSilence, maxBytes: _, ...options}: WireRequest): Promise<IncomingMessage> {
  const client = url.protocol === 'http:' ? http : https;
  const request = client.request(url, {...options, signal, timeout: silenceMs});
  request.once('timeout', () => request.destroy(Object.assign(new Error(`no answer within ${silenceMs / 1000} s`), {code: 'ETIMEDOUT'})));
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    request.on('error', reject);
    request.end(body ?? undefined);
  });
}

/** Rejects when the answer ends before it is whole, and when it is too long. */
export async function readResponse(response: IncomingMessage, maxBytes = Infinity): Promise<ApiResponse> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response) {
    parts.push(part as Buffer);
    length += (part as Buffer).length;
    if (length > maxBytes) throw new Error(`the answer is longer than ${maxBytes} bytes`);
  }
  const content = Buffer.concat(parts);
  const limit = maxBytes === Infinity ? {} : {maxOutputLength: maxBytes};
  const body = response.headers['content-encoding'] === 'gzip' ? await unzip(content, limit) : content;
  return {status: response.statusCode ?? 0, headers: response.headers, body};
}

/** The body in parts, as they come; rejects where it breaks off. */
export function bodyParts(response: IncomingMessage): AsyncIterable<Buffer> {
  if (response.headers['content-encoding'] !== 'gzip') return response;
  // What breaks the answer off comes out of the other end.
  return pipeline(response, createGunzip(), () => {});
}

const unzip = promisify<Buffer, ZlibOptions, Buffer>(gunzip);
