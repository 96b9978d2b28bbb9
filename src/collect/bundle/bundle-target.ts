import {basename} from 'node:path';

/** Where a bundle is written to. The target does not exist before `finish`. */
export interface BundleTarget {
  /** `path` is relative to the bundle, with forward slashes. */
  write(path: string, content: Buffer): Promise<void>;
  finish(): Promise<void>;
  /** Removes what was written. */
  abandon(): Promise<void>;
}

/** The temporary name of an incomplete bundle: next to the target, so that it only has to be renamed. */
export function unfinishedName(path: string): string {
  return `.${basename(path)}.unfinished-`;
}
