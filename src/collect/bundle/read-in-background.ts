import {closeSync, fstatSync, openSync, read} from 'node:fs';
import {promisify} from 'node:util';

/**
 * Reads a file in a thread of Node.js. It is one request, which goes on while JavaScript runs; `readFile` would wait for JavaScript after
 * each part. Rejects if the file cannot be read as a whole.
 */
export async function readInBackground(path: string): Promise<Buffer> {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.allocUnsafeSlow(fstatSync(file).size);
    const {bytesRead} = await promisify(read)(file, bytes, 0, bytes.length, 0);
    if (bytesRead < bytes.length) throw new Error(`${path}: only ${bytesRead} of ${bytes.length} bytes were read`);
    return bytes;
  } finally {
    closeSync(file);
  }
}
