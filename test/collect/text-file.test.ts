import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {describe, expect, test} from 'vitest';
import {readFileOrPipe, readTextFile} from '../../src/collect/text-file.ts';
import {TestFolder} from './bundle.ts';

describe('a pipe', () => {
  const folder = new TestFolder();
  const namedPipe = async (): Promise<string> => {
    const path = join(folder.path, 'pipe');
    await execa('rm', ['-f', path]);
    await execa('mkfifo', [path]);
    return path;
  };
  const why = 'it is a pipe, and nobody wrote to it for 5 s';

  test('that nobody writes to is refused after a while, and blocks nothing until then', async () => {
    const path = await namedPipe();
    let ticks = 0;
    const ticking = setInterval(() => (ticks += 1), 50);
    await expect(readFileOrPipe(path, 1000)).rejects.toThrow(why);
    clearInterval(ticking);
    expect(ticks).toBeGreaterThan(10);
    expect(() => readTextFile(path)).toThrow(why);
  });

  test('whose writer comes late, and pauses, is read to its end', async () => {
    const path = await namedPipe();
    const writer = execa('bash', ['-c', `exec > ${path}; sleep 0.5; echo one; sleep 0.5; echo two`]);
    expect((await readFileOrPipe(path, 1000)).toString()).toBe('one\ntwo\n');
    await writer;
  });

  test('of a process substitution, also an empty one, is read as it was', async () => {
    const script = `import {readTextFile} from '${new URL('../../src/collect/text-file.ts', import.meta.url)}'; process.stdout.write(JSON.stringify(process.argv.slice(1).map(readTextFile)))`;
    const {stdout} = await execa('bash', [
      '-c',
      'echo three | "$1" --input-type=module -e "$0" -- <(sleep 0.3; echo one) <(true) /dev/stdin',
      script,
      process.execPath,
    ]);
    expect(JSON.parse(stdout)).toEqual(['one\n', '', 'three\n']);
  });

  test('that has no end is refused with its limit', async () => {
    await expect(readFileOrPipe('/dev/zero', 2 ** 20)).rejects.toThrow('it has more than 1 MiB');
  });
});
