import {chmodSync, writeFileSync} from 'node:fs';

/** Writes an executable shell script. */
export function writeProgram(file: string, body: string): void {
  writeFileSync(file, `#!/bin/sh\n${body}\n`);
  chmodSync(file, 0o755);
}
