import {readFileSync} from 'node:fs';
import {expect, test} from 'vitest';
import {errorText} from '../../src/model/text.ts';

function thrownBy(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

test('the reason for an unusable file is in words, without error code and system call', () => {
  expect(errorText(thrownBy(() => readFileSync('/no/such/file')))).toBe('no such file or directory');
  expect(errorText(thrownBy(() => readFileSync('/')))).toBe('it is a directory');
});

test('other errors keep their message, and other values are converted to strings', () => {
  expect(errorText(new Error('no room'))).toBe('no room');
  expect(errorText('no room')).toBe('no room');
});
