import {constants} from 'node:buffer';
import http, {type IncomingHttpHeaders, type IncomingMessage, type RequestOptions} from 'node:http';
import https from 'node:https';
import {pipeline} from 'node:stream';
import {promisify} from 'node:util';
import {createGunzip, gunzip, type ZlibOptions} from 'node:zlib';

/** `headers`, `agent` and `auth` are set by client-node. */
export interface WireRequest extends Pick<RequestOptions, 'headers' | 'agent' | 'auth'> {
  readonly method: string;
  readonly url: URL;
  /** JSON; null for none. */
  readonly body: string | null;
  readonly signal: AbortSignal;
  /** How long the connection may be silent, in milliseconds. The default is `maxSilence`. */
  readonly silenceMs?: number;
  /** The maximum length of the decompressed body; by default that of a string, of which JSON is made. */
  readonly maxBytes?: number | undefined;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** The API server ends a request by itself after 60 s. A connection that is silent for longer than this is dead. In milliseconds. */
export const maxSilence = 75_000;

/**
 * Sends one request and resolves to its complete answer, whatever its status. Rejects if there is none or only part of one, and with the
 * signal's reason if it was aborted.
 */
export async function sendRequest(wire: WireRequest): Promise<ApiResponse> {
  const pace = new Pace(wire.silenceMs ?? maxSilence);
  const signal = AbortSignal.any([wire.signal, pace.signal]);
  try {
    return await readResponse(await responseTo({...wire, signal}), wire.maxBytes, pace);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    pace.end();
  }
}

/** An answer that arrives byte by byte is never silent, and would be waited for without a limit. */
class Pace {
  readonly #slow = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #bytes = 0;

  constructor(periodMs: number) {
    this.#timer = setInterval(() => {
      if (this.#bytes === 0) this.#slow.abort(noAnswerWithin(periodMs));
      else if (this.#bytes < minBytes)
        this.#slow.abort(new Error(`the answer comes too slowly: ${this.#bytes} bytes within ${periodMs / 1000} s`));
      this.#bytes = 0;
    }, periodMs);
  }

  get signal(): AbortSignal {
    return this.#slow.signal;
  }

  count(bytes: number): void {
    this.#bytes += bytes;
  }

  end(): void {
    clearInterval(this.#timer);
  }
}

function noAnswerWithin(milliseconds: number): Error {
  return Object.assign(new Error(`no answer within ${milliseconds / 1000} s`), {code: 'ETIMEDOUT'});
}

/** What has to arrive while a connection might be silent. */
const minBytes = 64 * 1024;

/** Resolves when an answer begins. */
export function responseTo({url, body, signal, silenceMs = maxSilence, maxBytes: _, ...options}: WireRequest): Promise<IncomingMessage> {
  const client = url.protocol === 'http:' ? http : https;
  const request = client.request(url, {...options, signal, timeout: silenceMs});
  request.once('timeout', () => request.destroy(noAnswerWithin(silenceMs)));
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    request.on('error', reject);
    request.end(body ?? undefined);
  });
}

/** Rejects if the answer is truncated or too long. */
export async function readResponse(response: IncomingMessage, maxBytes = constants.MAX_STRING_LENGTH, pace?: Pace): Promise<ApiResponse> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response) {
    parts.push(part as Buffer);
    length += (part as Buffer).length;
    pace?.count((part as Buffer).length);
    if (length > maxBytes) throw new Error(`the answer is longer than ${maxBytes} bytes`);
  }
  const content = Buffer.concat(parts);
  const body = response.headers['content-encoding'] === 'gzip' ? await unzip(content, {maxOutputLength: maxBytes}) : content;
  return {status: response.statusCode ?? 0, headers: response.headers, body};
}

/** The body in parts as they arrive; rejects if it is truncated. */
export function bodyParts(response: IncomingMessage): AsyncIterable<Buffer> {
  if (response.headers['content-encoding'] !== 'gzip') return response;
  // An error of the answer appears at the end of the pipeline.
  return pipeline(response, createGunzip(), () => {});
}

const unzip = promisify<Buffer, ZlibOptions, Buffer>(gunzip);
