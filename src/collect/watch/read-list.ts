import {setTimeout as sleep} from 'node:timers/promises';
import {isItems} from '../kube/api-request.ts';

/** The metadata of a list. */
interface ListMetadata {
  readonly resourceVersion?: string;
  readonly continue?: string;
}

/**
 * Parses the answer to a list while it arrives and passes each item on: all slices of a large cluster as one text, or as complete objects,
 * would take many times the memory of what is kept. Rejects if the text is not a list, or is truncated.
 */
export async function readList(parts: AsyncIterable<Buffer>, take: (item: unknown) => void): Promise<ListMetadata> {
  const splitter = new ListSplitter(take);
  for await (const part of parts) splitter.push(part);
  return splitter.end();
}

class ListSplitter {
  readonly #take: (item: unknown) => void;
  /** The text without the items. */
  #rest = '';
  /** The beginning of an incomplete item. */
  #begun: Buffer[] = [];
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  #inItems = false;

  constructor(take: (item: unknown) => void) {
    this.#take = take;
  }

  push(part: Buffer): void {
    let from = 0;
    for (let at = 0; at < part.length; at++) {
      const byte = part[at] ?? 0;
      if (this.#inString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === backslash) this.#isEscaped = true;
        else if (byte === quote) this.#inString = false;
      } else if (byte === quote) this.#inString = true;
      else if (byte === openBrace || byte === openBracket) {
        this.#depth++;
        if (this.#inItems || this.#depth !== 2 || byte === openBrace) continue;
        if (!/"items"\s*:\s*$/.test(this.#rest + part.toString('latin1', from, at))) continue;
        this.#rest += part.toString('utf8', from, at + 1);
        this.#inItems = true;
        from = at + 1;
      } else if (byte === closeBrace || byte === closeBracket) {
        this.#depth--;
        if (!this.#inItems) continue;
        if (this.#depth === 2) {
          this.#item(part.subarray(from, at + 1));
          from = at + 1;
        } else if (this.#depth === 1) {
          this.#inItems = false;
          from = at;
        }
      }
    }
    if (this.#inItems) this.#begun.push(part.subarray(from));
    else this.#rest += part.toString('utf8', from);
  }

  end(): ListMetadata {
    const list = JSON.parse(this.#rest) as {readonly items?: unknown; readonly metadata?: ListMetadata | null} | null;
    if (!isItems(list?.items)) throw new SyntaxError('the answer is not a list');
    return list?.metadata ?? {};
  }

  #item(end: Buffer): void {
    const text = Buffer.concat([...this.#begun, end]).toString('utf8');
    this.#begun = [];
    // The separator from the previous item comes first.
    this.#take(JSON.parse(text.replace(/^[\s,]+/, '')));
  }
}

const [quote, backslash, openBrace, closeBrace, openBracket, closeBracket] = [0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0x5d];

/** One event of a watch, as the API server sends it. */
export interface WatchEvent {
  readonly type: string;
  readonly object: unknown;
}

/** The events of a watch, one on each line, while they arrive. Throws for a line that is invalid, or longer than any object. */
export async function* watchEvents(parts: AsyncIterable<Buffer>): AsyncGenerator<WatchEvent, void, void> {
  let begun: Buffer[] = [];
  let length = 0;
  for await (const part of parts) {
    let from = 0;
    for (let end = part.indexOf(newline); end >= 0; end = part.indexOf(newline, from)) {
      const line = Buffer.concat([...begun, part.subarray(from, end)]).toString('utf8');
      begun = [];
      length = 0;
      from = end + 1;
      if (line.trim() !== '') yield JSON.parse(line) as WatchEvent;
    }
    begun.push(part.subarray(from));
    length += part.length - from;
    if (length > maxLine) throw new Error(`the watch sent a line of more than ${maxLine / 2 ** 20} MiB`);
  }
}

const newline = 0x0a;

/** In bytes. etcd holds no object of more than 1.5 MB. */
const maxLine = 16 * 2 ** 20;

/** The parts, as fast as a watch of real objects can be: one that floods is read no faster, and must wait. */
export async function* paced(parts: AsyncIterable<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer, void, void> {
  let taken = 0;
  for await (const part of parts) {
    yield part;
    taken += part.length;
    if (taken < maxBytesPerSecond) continue;
    taken = 0;
    await sleep(1000, undefined, {signal});
  }
}

const maxBytesPerSecond = 8 * 2 ** 20;
