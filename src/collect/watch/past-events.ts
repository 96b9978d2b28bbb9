import {setTimeout as sleep} from 'node:timers/promises';
import type {ObjectMeta} from '../../model/api-objects.ts';
import {namespacedName} from '../../model/text.ts';
import type {KubeApi} from '../kube/kube-api.ts';
import {maxSilence, isItems} from '../kube/send-request.ts';
import {type Shape, usableItems} from '../objects/api-shapes.ts';

interface Versioned {
  readonly metadata: ObjectMeta;
}

/** A resourceVersion from before a list. */
export interface EarlierVersion {
  readonly version: string;
  /** It is known to be of the time that is wanted, or older. */
  readonly isEarly: boolean;
}

export interface PastOptions<T> {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly shape: Shape;
  /** The objects as they were listed. */
  readonly listed: readonly T[];
  /** The resourceVersion of that list. */
  readonly until: string;
  /** Where the watch may begin. Each is tried when the API server does not know the one before any more. */
  readonly from: readonly EarlierVersion[];
}

export interface PastEvent<T> {
  readonly version: bigint;
  /** The object after the event; null if that deleted it. */
  readonly now: T | null;
  readonly key: string;
}

/** An object before and after a change; null if it did not exist. */
interface PastChange<T> {
  readonly before: T | null;
  readonly now: T | null;
}

/** The events do not lead to the objects that were listed. */
export class CannotTell extends Error {}

/**
 * The events of one kind between an earlier resourceVersion and a list. The watch that follows the objects delivers them first when it
 * begins at that version: they cost no request, and nothing is sent where nothing changed.
 */
export class PastEvents<T extends Versioned> {
  readonly #options: PastOptions<T>;
  readonly #events: PastEvent<T>[] = [];
  readonly #from: EarlierVersion[];
  #openedAt = Infinity;
  /** `over`: an event that is later than the list has come. */
  #state: 'taking' | 'over' | 'lost' = 'taking';

  constructor(options: PastOptions<T>) {
    this.#options = options;
    this.#from = [...options.from];
    if (this.#from.length === 0) this.#state = 'lost';
  }

  /** Where the events begin; null if the API server knows none of the versions. */
  get from(): EarlierVersion | null {
    return this.#from[0] ?? null;
  }

  /** The watch has still to begin there, or has not reached the list. */
  get isTaking(): boolean {
    return this.#state === 'taking';
  }

  /** In the order in which they happened. */
  get events(): readonly PastEvent<T>[] {
    return this.#events;
  }

  /** The watch has begun: the API server sends what it remembers at once. */
  opened(): void {
    this.#openedAt = Date.now();
  }

  /** The API server does not know the version any more: the next one is tried. */
  refuse(): void {
    this.#from.shift();
    this.#events.length = 0;
    if (this.#from.length === 0) this.#state = 'lost';
  }

  /** The watch ended before it reached the list. */
  lose(): void {
    if (this.#state === 'taking') this.#state = 'lost';
  }

  /** Whether an event is one of the past. It is taken then. */
  take({type, object}: WatchEvent): boolean {
    if (this.#state !== 'taking') return false;
    const {metadata = {name: ''}} = (object ?? {}) as Partial<Versioned>;
    const version = versionOf(metadata);
    // Versions that are no numbers have no order.
    if (version === null) this.#state = 'lost';
    else if (version > BigInt(this.#options.until)) this.#state = 'over';
    else if (type !== 'BOOKMARK') this.#note(type, object, version);
    else if (version === BigInt(this.#options.until)) this.#state = 'over';
    return this.#state === 'taking';
  }

  #note(type: string, item: unknown, version: bigint): void {
    const [object] = usableItems<T>(this.#options.path, [item], this.#options.shape).items;
    if (object === undefined) this.#state = 'lost';
    else this.#events.push({version, now: type === 'DELETED' ? null : object, key: namespacedName(object.metadata)});
  }

  /** Resolves to whether all events up to the list have come. */
  async untilWhole(): Promise<boolean> {
    for (let waited = 0; waited < maxDelay && this.#state !== 'lost'; waited += step) {
      if (this.#state === 'over' || (Date.now() - this.#openedAt >= maxQuiet && this.#leadsToKnown())) return true;
      await sleep(step);
    }
    return false;
  }

  /** Whether each object that changed is in its listed state: only objects that existed for a moment can be outstanding. */
  #leadsToKnown(): boolean {
    const latest = new Map(this.#events.map(event => [event.key, event]));
    const known = new Map(this.#options.listed.map(object => [namespacedName(object.metadata), versionOf(object.metadata)]));
    const begun = BigInt(this.#from[0]?.version ?? 0);
    return (
      [...latest].every(([key, {now, version}]) => (now === null ? !known.has(key) : known.get(key) === version)) &&
      [...known].every(([key, version]) => version !== null && (version <= begun || latest.has(key)))
    );
  }

  /**
   * The changes from one of the events on. Reads the list of before it; nothing is read if there are none. Rejects with a CannotTell, and
   * with an ApiError if the API server refuses: it does not know the version any more, or no `Exact`.
   */
  async changesFrom(index: number, api: KubeApi, signal: AbortSignal): Promise<readonly PastChange<T>[]> {
    const events = this.#events.slice(index);
    const [first] = events;
    if (first === undefined) return [];
    const now = await this.#listAt(first.version - 1n, api, signal);
    const changes = events.map(event => {
      const before = now.get(event.key) ?? null;
      if (event.now === null) now.delete(event.key);
      else now.set(event.key, event.now);
      return {before, now: event.now};
    });
    if (!isSame(now, this.#options.listed)) throw new CannotTell('the events do not lead to the list');
    return changes;
  }

  async #listAt(version: bigint, api: KubeApi, signal: AbortSignal): Promise<Map<string, T>> {
    const {path, query, shape} = this.#options;
    const exact = {...query, resourceVersion: String(version), resourceVersionMatch: 'Exact'};
    const objects: unknown[] = [];
    const metadata = await readList(await api.stream(path, exact, {signal, silenceMs: maxSilence}), item => objects.push(item));
    // A server that does not know `Exact` answers with the current list.
    if (metadata.resourceVersion !== String(version) || metadata.continue) throw new CannotTell('the list is not of that version');
    const {items, leftOut} = usableItems<T>(path, objects, shape);
    if (leftOut.length > 0) throw new CannotTell('an object is malformed');
    return new Map(items.map(object => [namespacedName(object.metadata), object]));
  }
}

/** The API server sends what it remembers at once. In milliseconds. */
const [step, maxQuiet, maxDelay] = [20, 150, 1000];

/** resourceVersions are increasing decimal numbers, and comparable within one kind (KEP-5504); null for any other text. */
export function versionOf({resourceVersion = ''}: {readonly resourceVersion?: string | undefined}): bigint | null {
  return /^\d+$/.test(resourceVersion) ? BigInt(resourceVersion) : null;
}

function isSame<T extends Versioned>(one: ReadonlyMap<string, T>, other: readonly T[]): boolean {
  if (one.size !== other.length) return false;
  return other.every(({metadata}) => one.get(namespacedName(metadata))?.metadata.resourceVersion === metadata.resourceVersion);
}

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
interface WatchEvent {
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
