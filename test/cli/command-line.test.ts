import {describe, expect, test} from 'vitest';
import {withCommand, wordForCommand} from '../../src/cli/command-line.ts';

const flags = {
  namespace: {name: 'namespace', char: 'n', type: 'option'},
  output: {name: 'output', char: 'o', type: 'option'},
} as const;
const rewrite = (line: string): string => withCommand(words(line), ['check', 'explain', 'trace'], flags).join(' ');
const words = (line: string): string[] => line.split(' ').filter(Boolean);

describe('a first word that is not a command', () => {
  test.each([
    ['web', 'trace web'],
    ['web db', 'trace web db'],
    ['shop/web', 'trace shop/web'],
    ['svc/check', 'trace svc/check'],
    ['web check', 'trace web check'],
    ['web --help', 'trace web --help'],
    ['-n shop web', 'trace -n shop web'],
    ['-n check web', 'trace -n check web'],
    ['-A -o json web', 'trace -A -o json web'],
    ['-- check', 'trace -- check'],
    ['-', 'trace -'],
  ])('is a Service to trace: %s', (line, expected) => expect(rewrite(line)).toBe(expected));
});

describe('a command', () => {
  test.each([
    ['check', 'check'],
    ['check web -A', 'check web -A'],
    ['trace check', 'trace check'],
    ['-n shop check -A', 'check -n shop -A'],
    ['--namespace shop check', 'check --namespace shop'],
    ['--namespace=shop check', 'check --namespace=shop'],
    ['-nshop check', 'check -nshop'],
    ['-A check', 'check -A'],
    ['-An shop check', 'check -An shop'],
    ['-h check', 'check -h'],
  ])('is put first: %s', (line, expected) => expect(rewrite(line)).toBe(expected));

  test('leaves what follows -- unchanged', () => {
    expect(rewrite('check -- -n trace')).toBe('check -- -n trace');
  });
});

describe('help', () => {
  test.each([
    ['help', '--help'],
    ['help check', 'check --help'],
    ['help web', 'help web'],
    ['-n shop help check', 'check --help -n shop'],
    ['help --version', '--help --version'],
    ['help help', 'help help'],
  ])('as a word asks for --help: %s', (line, expected) => expect(rewrite(line)).toBe(expected));

  test.each(['--help', '-h', '-n shop --help'])('without a command is the help of the program: %s', line =>
    expect(rewrite(line)).toBe(line),
  );
});

test('no arguments stay empty', () => {
  expect(rewrite('')).toBe('');
});

test('a leading --version stays first', () => {
  expect(rewrite('--version')).toBe('--version');
  expect(rewrite('--version check')).toBe('--version check');
});

test('flags alone are passed to trace, which reports that a Service is missing, and -A to check', () => {
  expect(rewrite('-A')).toBe('check -A');
  expect(rewrite('-A -l app=web')).toBe('trace -A -l app=web');
  expect(rewrite('-n')).toBe('trace -n');
});

test.each([
  ['chekc -A', 'chekc'],
  ['-n shop chekc', 'chekc'],
  ['check web', null],
  ['help chekc', null],
  ['-- chekc', null],
  ['', null],
])('the word in the position of the command: %s', (line, expected) => {
  expect(wordForCommand(words(line), ['check', 'trace'], flags)).toBe(expected);
});
