import process from 'node:process';
import {expect, test} from 'vitest';
import {type ProgressLine, progressLine, progressText} from '../../../src/run/nodes/node-intake.ts';

/** What a progress line writes on a terminal, or away from one. */
function written(isTTY: boolean, wanted: boolean, use: (line: ProgressLine) => void = () => {}): string {
  let text = '';
  const terminal = {
    isTTY,
    columns: 80,
    write: (part: string) => (text += part),
    cursorTo: () => true,
    clearLine: () => true,
    moveCursor: () => true,
  };
  const line = progressLine(wanted, terminal as unknown as NodeJS.WriteStream);
  line.say('reading the API');
  use(line);
  line.close();
  return text;
}

test('a terminal shows the progress', () => {
  expect(written(true, true)).toContain('reading the API');
});

test('logs and pipes get no progress line, nor does a terminal with --no-progress', () => {
  expect(written(false, true)).toBe('');
  expect(written(true, false)).toBe('');
});

test('a permanent line is also written to logs and to a terminal', () => {
  const use = (line: ProgressLine) => line.note('node-a: in sync');
  expect(written(false, true, use)).toBe('node-a: in sync\n');
  expect(written(true, true, use)).toContain('node-a: in sync\n');
  expect(written(false, false, use)).toBe('');
});

test('the progress line leaves signals to the cleanup', () => {
  const before = ['SIGINT', 'SIGTERM'].map(signal => process.listenerCount(signal));
  let during: readonly number[] = [];
  written(true, true, () => {
    during = ['SIGINT', 'SIGTERM'].map(signal => process.listenerCount(signal));
  });
  expect(during).toEqual(before);
});

test('nodes that could not be read are counted', () => {
  expect(progressText({total: 9, done: 3, failed: 0, inProgress: 2})).toBe('nodes: 3 of 9 read, 2 in progress');
  expect(progressText({total: 9, done: 3, failed: 1, inProgress: 2})).toBe('nodes: 2 of 9 read, 1 failed or incomplete, 2 in progress');
});
