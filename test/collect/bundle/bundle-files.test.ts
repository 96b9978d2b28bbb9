import {rmSync} from 'node:fs';
import {join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {directoryFiles, readInBackground} from '../../../src/collect/bundle/bundle-files.ts';
import {TestFolder} from '../bundle.ts';

const folder = new TestFolder();

describe('a file that cannot be read ahead', () => {
  test('is an error where it is read, not before', async () => {
    const path = folder.bundle({'nodes/node-a/iptables-save': '*nat\n'});
    const files = directoryFiles(path);
    rmSync(join(path, 'nodes/node-a/iptables-save'));
    expect(files.sizeOf('nodes/node-a/iptables-save')).toBe(0);
    await files.readAhead('nodes/node-a/iptables-save');
    expect(() => files.read('nodes/node-a/iptables-save')).toThrow('ENOENT');
  });

  test('is no file where there is none', async () => {
    const files = directoryFiles(folder.bundle({'snapshot.json': '{}'}));
    await files.readAhead('api/pods.json');
    expect(files.read('api/pods.json')).toBeNull();
  });
});

describe('reading in the background', () => {
  test('gives the bytes of the file', async () => {
    const content = Buffer.from('*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n');
    const path = folder.bundle({dump: content});
    expect(await readInBackground(join(path, 'dump'))).toEqual(content);
  });

  test('rejects where the file cannot be opened or read', async () => {
    const path = folder.bundle({dump: ''});
    await expect(readInBackground(join(path, 'none'))).rejects.toThrow('ENOENT');
    await expect(readInBackground(path)).rejects.toThrow('EISDIR');
  });
});
