import {chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execaSync} from 'execa';
import {load} from 'js-yaml';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {hostileName, names, writeHostileBundle} from '../hostile-bundle.ts';
import {svcTrace} from '../svc-trace.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-trace-printed-'));
const programs = join(folder, 'bin');
afterAll(() => rmSync(folder, {recursive: true, force: true}));

/** Each program that a command names, and one that only a name can start, writes down its arguments. */
beforeAll(() => {
  mkdirSync(programs);
  const used = ['kubectl', 'ssh', 'sysctl', 'ip', 'bridge', 'iptables', 'ip6tables', 'nft', 'ipset', 'ipvsadm', 'conntrack', 'modprobe'];
  for (const program of [...used, 'svc-trace', 'systemctl', 'journalctl', 'crictl', 'canary']) {
    const file = join(programs, program);
    writeFileSync(file, `#!/bin/sh\nprintf '%s\\0' ${program} "$@" >> '${folder}/ran'\nprintf '\\0' >> '${folder}/ran'\n`);
    chmodSync(file, 0o755);
  }
});

/** Programs with their arguments, in the order in which a shell runs the command. */
function ranBy(shell: string, command: string): readonly (readonly string[])[] {
  rmSync(join(folder, 'ran'), {force: true});
  execaSync(shell, ['-c', command], {
    env: {PATH: programs, LC_ALL: 'C.UTF-8'},
    extendEnv: false,
    reject: false,
    cwd: folder,
    stdin: 'ignore',
  });
  if (!existsSync(join(folder, 'ran'))) return [];
  return readFileSync(join(folder, 'ran'), 'utf8')
    .split('\0\0')
    .slice(0, -1)
    .map(words => words.split('\0'));
}

const shells = ['/bin/bash', '/bin/dash'];
const whole = new RegExp(hostileName('[a-z]+').replaceAll(/[$()`;"'\\&|*~!{}.]/g, '\\$&'), 'g');
const marks = /Xq|qX/g;

/** Formats repeat commands, and each is run once. */
const tried = new Set<string>();

function expectQuoted(commands: readonly string[]): void {
  for (const command of commands.filter(line => !tried.has(line))) {
    tried.add(command);
    const [inBash = [], inDash] = shells.map(shell => ranBy(shell, command));
    expect(inBash, command).toHaveLength(1);
    expect(inDash, command).toEqual(inBash);
    // The marks may come up in the random name of the folder.
    const words = (inBash[0] ?? []).join('\n').replaceAll(folder, '');
    expect(words.startsWith('canary'), command).toBe(false);
    // Each name is in one argument, whole: no mark is left where all names are taken away.
    expect(words.replaceAll(whole, ''), command).not.toMatch(marks);
    expect(words.match(whole)?.length ?? 0, command).toBe((command.replaceAll(folder, '').match(/Xq/g) ?? []).length);
  }
}

const unescaped = (text: string): string =>
  text.replaceAll('&#39;', "'").replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');

const isCommand = (line: string): boolean =>
  /^(?:kubectl|sysctl|ip6?|bridge|ip6?tables|nft|ipset|ipvsadm|conntrack|modprobe|systemctl) /.test(line);

/** The commands of a report, as a user of that format copies them. */
const commandsIn: Readonly<Record<string, (text: string) => readonly string[]>> = {
  table: linesOfTable,
  wide: linesOfTable,
  junit: text => linesOfTable(unescaped(text.replaceAll(/<[^>]*>/g, ''))),
  markdown: text => inElements(text, 'pre'),
  html: text => [...inElements(text, 'pre'), ...inElements(text, 'code')],
  json: text => inFields(JSON.parse(text)),
  yaml: text => inFields(load(text)),
};

function linesOfTable(text: string): readonly string[] {
  return [...text.matchAll(/^ +(?:run|on node|after|more) +(.*)$/gm)].map(([, line = '']) => line);
}

function inElements(text: string, element: string): readonly string[] {
  return [...text.matchAll(new RegExp(`<${element}>\\n?(.*?)</${element}>`, 'gs'))].flatMap(([, inner = '']) =>
    unescaped(inner).trim().split('\n'),
  );
}

function inFields(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => (key === 'command' ? String(inner).split('\n') : inFields(inner)));
}

describe('each command of a cluster whose names are written for a shell', () => {
  const run = async (...args: readonly string[]): Promise<string> => (await svcTrace(args, {env: {NO_COLOR: '1'}})).stdout;

  test.each(['faults/missing-endpoint', 'faults/hostport-hijack', 'faults/frozen-node'])(
    'of check, in every format, runs its program alone, with each name as it is (%s)',
    async capture => {
      const bundle = writeHostileBundle(capture, folder);
      for (const [format, commandsOf] of Object.entries(commandsIn)) {
        const found = [...new Set(commandsOf(await run('check', '-A', '-v', '-o', format, '--from', bundle)))].filter(isCommand);
        expect(found.length, format).toBeGreaterThan(4);
        expect(found.join('\n'), format).toContain('Xqpod');
        expectQuoted(found);
        if (capture.endsWith('hijack')) expect(found.join('\n'), format).toContain('qX/100.forwarding');
      }
    },
  );

  test('of trace, of preview, and of errors about files likewise', async () => {
    const parent = join(folder, hostileName('file'));
    mkdirSync(parent);
    const bundle = writeHostileBundle('faults/missing-endpoint', parent);
    const printed = await Promise.all([
      run('check', '-A', '-o', 'json', '--from', bundle),
      run('trace', `${names.shop}/${names.web}`, '-o', 'json', '--from', bundle),
      run('preview', '-A', '--proxy-mode', 'nftables', '-o', 'json', '--from', bundle),
    ]);
    const found = printed.map(text => inFields(JSON.parse(text)).filter(isCommand));
    for (const commands of found) expectQuoted([...new Set(commands)]);
    expect(found[0]?.join('\n')).toContain(`Xqfile`);
    const table = await run('preview', '-A', '--proxy-mode', 'nftables', '--from', bundle);
    expectQuoted(linesOfTable(table).filter(line => isCommand(line)));
  });
});

test('a name with a newline, or with what a terminal must not get, gives no command', async () => {
  for (const name of ['a\ncanary', 'a\u202eb']) {
    const bundle = writeHostileBundle('faults/missing-endpoint', mkdtempSync(join(folder, 'bad-')), name);
    const {stdout} = await svcTrace(['check', '-A', '-o', 'json', '--from', bundle]);
    const commands = inFields(JSON.parse(stdout)).filter(isCommand);
    expect(commands.length).toBeGreaterThan(0);
    expect(commands.filter(line => /delete|logs/.test(line))).toEqual([]);
  }
});
