import {randomBytes} from 'node:crypto';
import * as fs from 'node:fs';
import {basename, dirname, join, resolve} from 'node:path';
import {errorText} from '../model/text.ts';
import {wrongUse} from '../run/wrong-use.ts';

/** Refuses a file that cannot be written before anything is read. Throws a CLIError (exit 2). */
export async function writableFile(file: string): Promise<string> {
  if (file === '') throw wrongUse('the report needs a file: its name is empty');
  orCannotWrite(file, () => {
    const found = fs.statSync(file, {throwIfNoEntry: false});
    const folder = dirname(resolve(file));
    if (found?.isDirectory()) throw cannotWrite(file, 'it is a directory');
    if (found === undefined && !fs.statSync(folder).isDirectory()) throw cannotWrite(file, 'a part of the path is not a directory');
    fs.accessSync(found === undefined ? folder : file, fs.constants.W_OK);
  });
  return file;
}

/**
 * Writes a report beside the file and renames it: whoever reads the file finds the report before or this one, never a part. Throws a
 * CLIError (exit 2).
 */
export function writeReport(file: string, pieces: Iterable<string>): void {
  orCannotWrite(file, () => {
    // A link stays, and the file that it names is replaced.
    const target = fs.existsSync(file) ? fs.realpathSync(file) : resolve(file);
    const found = fs.statSync(target, {throwIfNoEntry: false});
    const beside = join(dirname(target), `.${basename(target).slice(0, 100)}.unfinished-${randomBytes(4).toString('hex')}`);
    const opened = found !== undefined && !found.isFile() ? null : openBeside(beside, found);
    if (opened === null) return write(fs.openSync(target, 'w'), pieces);
    try {
      write(opened, pieces);
      replace(target, beside);
    } finally {
      fs.rmSync(beside, {force: true});
    }
  });
}

/** With the owner and mode of the file that it replaces. Null where that cannot be: then the file itself is written. */
function openBeside(path: string, found: fs.Stats | undefined): number | null {
  let opened: number | null = null;
  try {
    opened = fs.openSync(path, 'wx');
    if (found !== undefined) fs.fchownSync(opened, found.uid, found.gid);
    if (found !== undefined) fs.fchmodSync(opened, found.mode);
    return opened;
  } catch (error) {
    if (opened !== null) fs.closeSync(opened);
    fs.rmSync(path, {force: true});
    if (found === undefined || !isOneOf(error, ['EACCES', 'EPERM', 'EROFS'])) throw error;
    return null;
  }
}

/** A file that is mounted by itself, as into a container, cannot be renamed. */
function replace(target: string, beside: string): void {
  try {
    fs.renameSync(beside, target);
  } catch (error) {
    if (!isOneOf(error, ['EBUSY'])) throw error;
    fs.copyFileSync(beside, target);
  }
}

function write(opened: number, pieces: Iterable<string>): void {
  try {
    for (const piece of pieces) fs.writeFileSync(opened, piece);
  } finally {
    fs.closeSync(opened);
  }
}

/** What is thrown while the report is made is no fault of the file. */
function orCannotWrite(file: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    throw error instanceof Error && 'syscall' in error ? cannotWrite(file, error) : error;
  }
}

export function cannotWrite(file: string, error: unknown): Error {
  return wrongUse(`cannot write the report to ${file}: ${errorText(error)}`);
}

function isOneOf(error: unknown, codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
