import {UnreadableText} from '../model/text.ts';

/** Splits output that arrives in parts into lines, and keeps no more than the current incomplete line. */
export class LineSplitter {
  readonly #take: (line: string) => void;
  #rest: Buffer = Buffer.alloc(0);

  constructor(take: (line: string) => void) {
    this.#take = take;
  }

  add(part: Buffer): void {
    const last = part.lastIndexOf(newline);
    if (last < 0) {
      this.#rest = this.#rest.length === 0 ? Buffer.from(part) : Buffer.concat([this.#rest, part]);
      return;
    }
    // Only ASCII is searched for in these lines: every byte can be one character.
    const text = this.#rest.toString('latin1') + part.toString('latin1', 0, last);
    this.#rest = Buffer.from(part.subarray(last + 1));
    for (let start = 0; start <= text.length; ) {
      const end = text.indexOf('\n', start);
      this.#take(end < 0 ? text.slice(start) : text.slice(start, end));
      if (end < 0) return;
      start = end + 1;
    }
  }

  /** The last line may have no newline. */
  end(): void {
    if (this.#rest.length > 0) this.#take(this.#rest.toString('latin1'));
    this.#rest = Buffer.alloc(0);
  }
}

/** Copies a text into one piece of memory, where it is read faster. A slice would keep everything that arrived with its line. */
export function detached(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

/**
 * The content as UTF-8 whose lines end with a newline alone, and without a byte-order mark. PowerShell writes a mark into every redirected
 * file, and version 5.1 writes UTF-16; Windows, terminals and e-mail end lines with CR LF, and what is copied from a screen with blanks;
 * grep and ip color what they print. Every text passes here when it is read.
 */
export function plainText(content: Buffer): Buffer {
  if (plainTexts.has(content)) return content;
  const text = withoutColors(withoutByteOrderMark(content));
  const plain = text.includes(carriageReturn) || hasBlankEnds(text) ? withoutLineEnds(text) : text;
  plainTexts.add(plain);
  return plain;
}

/** Inside a text a NUL stands for what was lost: a disk that filled up or a crash leaves them, and each reader would skip others. */
export function requireUndamaged(text: Buffer): void {
  const at = text.indexOf(0);
  if (at < 0 || text.subarray(at).every(byte => byte === 0 || byte === newline)) return;
  const line = text.subarray(0, at).filter(byte => byte === newline).length + 1;
  throw new UnreadableText(`line ${line} of its rules holds NUL characters: the text was damaged, or is UTF-16 without a byte-order mark`);
}

/** What a parser gets may have passed where a file was read. */
const plainTexts = new WeakSet<Buffer>();

/** Of a long text, the beginning and the end tell: to search a dump of a large node as a whole takes as long as to read it. */
function hasBlankEnds(text: Buffer): boolean {
  const parts = text.length <= 2 * searched ? [text] : [text.subarray(0, searched), text.subarray(-searched)];
  return parts.some(part => [' \n', '\t\n', '\0\n'].some(end => part.includes(end)));
}

const searched = 32 << 10;

function withoutByteOrderMark(content: Buffer): Buffer {
  if (content[0] === 0xff && content[1] === 0xfe) return Buffer.from(content.toString('utf16le', 2), 'utf8');
  if (content[0] === 0xfe && content[1] === 0xff) return Buffer.from(swapped(content).toString('utf16le', 2), 'utf8');
  return content[0] === 0xef && content[1] === 0xbb && content[2] === 0xbf ? content.subarray(3) : content;
}

/** UTF-16 has two bytes a unit; half a unit at the end is dropped. */
function swapped(content: Buffer): Buffer {
  return Buffer.from(content.subarray(0, content.length & ~1)).swap16();
}

/** Twice converted text has several CRs at the end of a line. Those inside a line are part of a text, such as a comment of a rule. */
function withoutLineEnds(text: Buffer): Buffer {
  const plain = Buffer.allocUnsafeSlow(text.length);
  let [length, kept] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] ?? 0;
    if (byte === newline) length = kept;
    plain[length++] = byte;
    if (byte !== carriageReturn && byte !== space && byte !== tab && byte !== 0) kept = length;
  }
  return plain.subarray(0, kept);
}

const newline = 10;
const carriageReturn = 13;
const space = 32;
const tab = 9;

/** The lines of a text, one at a time: an array of all takes many times the text where they are short. */
export function* linesOf(text: string): Iterable<string> {
  for (let at = 0; at <= text.length; ) {
    const next = text.indexOf('\n', at);
    const end = next < 0 ? text.length : next;
    yield text.slice(at, end);
    at = end + 1;
  }
}

/** A text may come from a terminal. */
function withoutColors(text: Buffer): Buffer {
  if (!text.includes('\u001b')) return text;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with one
  return Buffer.from(text.toString('latin1').replace(/\x1b\[[0-9;]*[A-Za-z]/g, ''), 'latin1');
}

/** The number of a last line without a newline, which may be incomplete. Null if there is none; all tools end their last line. */
export function truncatedLine(text: string): number | null {
  return text === '' || text.endsWith('\n') ? null : text.split('\n').length;
}
