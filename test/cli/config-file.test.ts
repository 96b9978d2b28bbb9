import {mkdirSync, mkdtempSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterEach, describe, expect, test, vi} from 'vitest';
import {commandSpecs} from '../../src/cli/complete/command-spec.ts';
import {withConfig} from '../../src/cli/config-file.ts';
import {showsLinks} from '../../src/cli/terminal.ts';

const specs = await commandSpecs(join(import.meta.dirname, '../..'));
const folder = mkdtempSync(join(tmpdir(), 'svc-trace-config-'));

afterEach(() => vi.unstubAllEnvs());

function given(text: string, ...args: readonly string[]) {
  const file = join(folder, 'config.yaml');
  writeFileSync(file, text);
  vi.stubEnv('SVC_TRACE_CONFIG', file);
  return withConfig(args, async () => specs);
}

describe('the configuration file', () => {
  test('sets flags of the commands that have them, lists once for each value', async () => {
    const text = 'skip: [ST101, ST102=shop/a]\nnode-timeout: 2m\nmasquerade-all: false\nfull: true\n';
    expect(await given(text, 'check', '-A')).toEqual([
      ...['check', '--skip=ST101', '--skip=ST102=shop/a', '--node-timeout=2m', '--no-masquerade-all', '--full', '-A'],
    ]);
    expect(await given(text, 'explain', 'ST101')).toEqual(['explain', 'ST101']);
  });

  test('sets flags of one command in its part, which wins over the common ones', async () => {
    const text = 'color: never\ncheck:\n  color: always\n';
    expect(await given(text, 'check')).toEqual(['check', '--color=always']);
    expect(await given(text, 'trace', 'web')).toEqual(['trace', '--color=never', 'web']);
  });

  test.each([[['-o', 'json']], [['-ojson']], [['-Ao', 'json']], [['--output=json']], [['--output', 'json']]])(
    'gives way to the command line: %s',
    async args => {
      expect(await given('check: {output: wide}\n', 'check', ...args)).toEqual(['check', ...args]);
    },
  );

  test.each([[['-no']], [['-n', 'shop']], [['--', '-o']]])('is not taken for given by %s', async args => {
    expect(await given('check: {output: wide}\n', 'check', ...args)).toEqual(['check', '--output=wide', ...args]);
  });

  test.each([
    ['skp: ST101\n', 'there is no flag --skp; did you mean skip?'],
    ['full: sure\n', 'full must be true or false'],
    ['fail-on: [error]\n', 'fail-on must be a value'],
    ['- a\n', 'the file must have a line "flag: value" for each flag'],
    ['a: [\n', 'is not valid YAML'],
  ])('is refused where it cannot be meant: %j', async (text, message) => {
    await expect(given(text, 'check')).rejects.toMatchObject({message: expect.stringContaining(message), oclif: {exit: 2}});
  });

  test('is read from XDG_CONFIG_HOME, and may be absent there only', async () => {
    vi.stubEnv('SVC_TRACE_CONFIG', undefined);
    vi.stubEnv('XDG_CONFIG_HOME', folder);
    expect(await withConfig(['check'], async () => specs)).toEqual(['check']);
    mkdirSync(join(folder, 'svc-trace'));
    writeFileSync(join(folder, 'svc-trace/config.yaml'), 'full: true\n');
    expect(await withConfig(['check'], async () => specs)).toEqual(['check', '--full']);
    vi.stubEnv('XDG_CONFIG_HOME', undefined);
    for (const name of ['HOME', 'USERPROFILE']) vi.stubEnv(name, undefined);
    expect(await withConfig(['check'], async () => specs)).toEqual(['check']);
    vi.stubEnv('SVC_TRACE_CONFIG', '');
    expect(await withConfig(['check'], async () => specs)).toEqual(['check']);
    vi.stubEnv('SVC_TRACE_CONFIG', join(folder, 'none.yaml'));
    await expect(withConfig(['check'], async () => specs)).rejects.toThrow('none.yaml: no such file or directory');
  });
});

describe('links in a terminal', () => {
  const env = {FORCE_HYPERLINK: undefined, TERM: 'xterm-256color', TERM_PROGRAM: undefined, VTE_VERSION: undefined, WT_SESSION: undefined};

  test.each<[boolean, Readonly<Record<string, string>>]>([
    [false, {}],
    [true, {TERM_PROGRAM: 'iTerm.app'}],
    [true, {VTE_VERSION: '7003'}],
    [false, {VTE_VERSION: '4902'}],
    [true, {TERM: 'xterm-kitty'}],
    [false, {TERM: 'tmux-256color', VTE_VERSION: '7003'}],
    [true, {TERM: 'tmux-256color', FORCE_HYPERLINK: '1'}],
    [false, {TERM: 'xterm-kitty', FORCE_HYPERLINK: '0'}],
  ])('are shown: %s with %j', (isShown, set) => {
    for (const [name, value] of Object.entries({...env, DOMTERM: undefined, ...set})) vi.stubEnv(name, value);
    expect(showsLinks()).toBe(isShown);
  });
});
