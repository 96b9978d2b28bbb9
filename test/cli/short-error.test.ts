import {expect, test} from 'vitest';
import {shortError} from '../../src/cli/run-command.ts';

const commands = ['check', 'diff', 'trace', 'watch'];

function textOf(message: string, {word = null, ...error}: {readonly word?: string | null; readonly [field: string]: unknown} = {}): string {
  return shortError(Object.assign(new Error(message), error), {word, commands, bin: 'kubectl svc-trace'});
}

test.each([
  ['chekc', 'check'],
  ['chek', 'check'],
  ['dif', 'diff'],
  ['wathc', 'watch'],
])('%s, which names no Service, is reported as a mistyped command', (word, command) => {
  expect(textOf('Service not found', {word, oclif: {exit: 2}})).toBe(
    `Error: unknown command or Service "${word}". Did you mean \`kubectl svc-trace ${command}\`?`,
  );
});

test.each([{}, {oclif: {exit: 3}}, {oclif: {exit: 1}}])('an error other than wrong use keeps its message: %j', error => {
  expect(textOf('the API server does not answer', {word: 'chekc', ...error})).toBe('Error: the API server does not answer');
});

test('the nearest names follow the message', () => {
  expect(textOf('Service "wbe" not found', {word: 'wbe', suggestions: ['shop/web', 'shop/weba'], oclif: {exit: 2}})).toBe(
    'Error: Service "wbe" not found. Did you mean shop/web, shop/weba?',
  );
});

test('the nearest flags follow an unknown one', () => {
  const parse = {input: {flags: {skip: {}, only: {}}}};
  expect(textOf('Nonexistent flag: --skpi\nSee more help with --help', {flags: ['--skpi'], parse})).toBe(
    'Error: unknown flag --skpi. Did you mean --skip?',
  );
});

test.each([
  ['Parsing --sample \n\tExpected an integer but received: x\nSee more help with --help', '--sample: "x" is not an integer'],
  [
    'Parsing --masquerade-bit \n\tExpected an integer less than or equal to 31 but received: 99\nSee more help with --help',
    '--masquerade-bit: "99" is not an integer less than or equal to 31',
  ],
  ['Expected --output=xml to be one of: table, wide\nSee more help with --help', '--output: "xml" must be one of table, wide'],
  ['Flag --node expects a value', '--node needs a value'],
  ['Missing 1 required arg:\nafter  the later one\nSee more help with --help', 'missing argument: AFTER'],
  ['Unexpected argument: ST2\nSee more help with --help', 'unexpected argument: ST2'],
  ['Unexpected arguments: a, b\nSee more help with --help', 'unexpected argument: a, b'],
  [
    'The following errors occurred:\n  Missing required flag destination\n  Missing required flag source\nSee more help with --help',
    'missing flags: --destination, --source',
  ],
  ['The following error occurred:\n  \u001b[2mMissing required flag source\u001b[22m\nSee more help with --help', 'missing flag: --source'],
])('a message of the parser is replaced by a plain one: %j', (message, expected) => {
  expect(textOf(message)).toBe(`Error: ${expected}`);
});
