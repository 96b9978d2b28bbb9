import {constants} from 'node:buffer';
import {closeSync, constants as flags, fstatSync, lstatSync, openSync, readFileSync, readSync} from 'node:fs';
import {setTimeout as sleep} from 'node:timers/promises';
import {plainText} from '../parse/lines.ts';

/** The bytes of a file of a node that is no table of rules, sets or connections: parsed objects take a multiple of their text. */
export const maxFile = 64 << 20;

/** The bytes that are read of a file of a node. Tables of rules, sets and connections are as long as a text can be. */
export function maxSizeOf(file: string): number {
  if (shortFile.test(file)) return 4 << 20;
  const isTable = /^nft(?:-ruleset)?\.json$/.test(file) || !/\.(?:json|log)$/.test(file);
  return isTable ? constants.MAX_STRING_LENGTH : maxFile;
}

/** Settings, versions and pages of kube-proxy. */
const shortFile = /^(?:(?:interface-)?sysctls|(?:iptables|kube-proxy)-version|kube-proxy-config\.yaml|proxy-mode|metrics)$/;

/** A file as text, whichever program wrote it. `-` is standard input. Throws as `readFileSync`, and for a pipe or device as `readStream`. */
export function readTextFile(path: string): string {
  return plainText(path === '-' ? readFileSync(0) : contentOf(path)).toString('utf8');
}

function contentOf(path: string): Buffer {
  const reading = readStream(path, 256 * 2 ** 20);
  for (;;) {
    const {done, value} = reading.next();
    if (done === true) return value;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, value);
  }
}

/** The same as bytes, and without blocking the process while a pipe is waited for. */
export async function readFileOrPipe(path: string, maxLength: number): Promise<Buffer> {
  const reading = readStream(path, maxLength);
  for (;;) {
    const {done, value} = reading.next();
    if (done === true) return value;
    await sleep(value);
  }
}

/**
 * Yields the milliseconds to wait until there may be more. Throws for a named pipe that nobody opens for writing, and for a pipe or device
 * with more than `maxLength` bytes. The file is opened so that no pipe blocks; a regular file is read as a whole.
 */
function* readStream(path: string, maxLength: number): Generator<number, Buffer> {
  const file = openSync(path, flags.O_RDONLY | (flags.O_NONBLOCK ?? 0));
  try {
    if (fstatSync(file).isFile()) return readFileSync(file);
    // A pipe without a name, as of `<(…)`, has had its writer since before.
    let left = lstatSync(path).isFIFO() ? writerWait : 0;
    const parts: Buffer[] = [];
    for (let length = 0; length <= maxLength; ) {
      const part = readPart(file);
      if (part === null) {
        left = 0;
        yield pause;
      } else if (part.length > 0) {
        parts.push(part);
        length += part.length;
      } else if (length > 0 || left <= 0) {
        return Buffer.concat(parts);
      } else {
        left -= pause;
        yield pause;
        if (left <= 0) throw new Error(`it is a pipe, and nobody wrote to it for ${writerWait / 1000} s`);
      }
    }
    throw new Error(`it has more than ${Math.ceil(maxLength / 2 ** 20)} MiB`);
  } finally {
    closeSync(file);
  }
}

/** Empty at the end, or where nobody has the pipe open for writing; null where a writer has it open and nothing is there yet. */
function readPart(file: number): Buffer | null {
  const part = Buffer.alloc(pieceLength);
  try {
    return part.subarray(0, readSync(file, part));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return null;
    throw error;
  }
}

/** In milliseconds. */
const pause = 5;
const writerWait = 5000;

const pieceLength = 64 * 1024;
