import {basename} from 'node:path';

/** Where a bundle is written to. Nothing is there under its name before `finish`. */
export interface BundleTarget {
  /** `path` is that within the bundle, with forward slashes. */
  write(path: string, content: Buffer): Promise<void>;
  finish(): Promise<void>;
  /** Takes away what was written. */
  abandon(): Promise<void>;
}

/** The name for what is written until it is whole: next to the target, so that it only has to be renamed. */
export function unfinishedName(path: string): string {
  return `.${basename(path)}.unfinished-`;
}
