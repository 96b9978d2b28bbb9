import {readFileSync} from 'node:fs';
import {join} from 'node:path';

/** Where a file of certificates/ is. `make.sh` there says which there are. */
export function certificateFile(name: string): string {
  return join(import.meta.dirname, 'certificates', name);
}

export function certificate(name: string): string {
  return readFileSync(certificateFile(name), 'utf8');
}
