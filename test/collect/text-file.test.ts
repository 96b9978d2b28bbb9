import {syncBuiltinESMExports} from 'node:module';
import {join} from 'node:path';
import process from 'node:process';
import timers from 'node:timers/promises';
import {execa} from 'execa';
import {describe, expect, onTestFinished, test, vi} from 'vitest';
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

  /** Adds up the pauses, of which none is made. */
  function pauses(): {asleep: number; blocked: number} {
    const sums = {asleep: 0, blocked: 0};
    vi.spyOn(timers, 'setTimeout').mockImplementation(async milliseconds => {
      sums.asleep += milliseconds ?? 0;
      return timers.setImmediate() as never;
    });
    syncBuiltinESMExports();
    vi.spyOn(Atomics, 'wait').mockImplementation((...[, , , milliseconds = 0]: unknown[]) => {
      sums.blocked += Number(milliseconds);
      return 'timed-out';
    });
    onTestFinished(() => {
      vi.restoreAllMocks();
      syncBuiltinESMExports();
    });
    return sums;
  }

  test('that nobody writes to is refused after a while, and blocks nothing until then', async () => {
    const path = await namedPipe();
    const sums = pauses();
    let turns = 0;
    const turning = setInterval(() => (turns += 1), 1);
    await expect(readFileOrPipe(path, 1000)).rejects.toThrow(why);
    clearInterval(turning);
    expect(turns).toBeGreaterThan(0);
    expect(sums).toEqual({asleep: 5000, blocked: 0});
    expect(() => readTextFile(path)).toThrow(why);
    expect(sums).toEqual({asleep: 5000, blocked: 5000});
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
