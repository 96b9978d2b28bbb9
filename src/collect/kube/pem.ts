import {readFileSync} from 'node:fs';
import {KubeconfigError} from './kubeconfig.ts';
import {errorText} from '../../model/text/error-text.ts';

/** PEM from base64 text or from a file; null if neither is given. Throws KubeconfigError if the file cannot be read. */
export function pemOf(data: string | undefined, file: string | undefined, what: string): string | null {
  if (data) return Buffer.from(data, 'base64').toString('utf8');
  if (!file) return null;
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new KubeconfigError(`cannot read the ${what} ${file}: ${errorText(error)}`, {cause: error});
  }
}
