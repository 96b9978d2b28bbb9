import {mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {expect, onTestFinished, test} from 'vitest';
import {readBundle} from '../../src/collect/bundle/read-bundle.ts';
import {directoryFiles} from '../../src/collect/bundle/bundle-files.ts';
import {readTextFile} from '../../src/collect/text-file.ts';
import {paced, watchEvents} from '../../src/collect/watch/past-events.ts';
import {someOf} from '../cases.ts';

async function* endless(seen: {bytes: number}): AsyncGenerator<Buffer> {
  for (;;) {
    const part = Buffer.alloc(2 ** 20, 'x');
    seen.bytes += part.length;
    yield part;
  }
}

test('a line of a watch without an end is an error that says the limit', async () => {
  const events = watchEvents(endless({bytes: 0}));
  await expect(events.next()).rejects.toThrow('the watch sent a line of more than 16 MiB');
});

test('a watch that floods is read no faster than real ones send', async () => {
  const seen = {bytes: 0};
  const taken = paced(endless(seen), AbortSignal.timeout(100));
  const all = async () => {
    for await (const part of taken) expect(part.length).toBe(2 ** 20);
  };
  await expect(all()).rejects.toThrow();
  expect(seen.bytes).toBe(8 * 2 ** 20);
});

const limits = [
  ['a text', async () => readTextFile('/dev/zero'), 'it has more than 256 MiB'],
  ['a bundle', () => readBundle('/dev/zero'), 'it has more than 512 MiB'],
] as const;

test.runIf(process.platform === 'linux').each(someOf(limits))(
  'a device without an end, read as %s, is an error that says the limit',
  async (_, read, limit) => {
    await expect(read()).rejects.toThrow(limit);
  },
);

test('folders that link to one another are followed no deeper than the files of a node', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-links-'));
  onTestFinished(() => rmSync(folder, {recursive: true}));
  const count = 40;
  for (let index = 0; index < count; index++) {
    mkdirSync(join(folder, `f${index}`));
    writeFileSync(join(folder, `f${index}`, 'file'), '');
    for (const name of ['a', 'b']) symlinkSync(`../f${(index + 1) % count}`, join(folder, `f${index}`, name));
  }
  expect(directoryFiles(folder).paths).toHaveLength(3 * count);
});
