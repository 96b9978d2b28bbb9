import {chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {basename, delimiter, dirname, isAbsolute, join} from 'node:path';
import process from 'node:process';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {helm, isMet, kubectl, type Need, questions, whyNot} from './require.ts';

const needs = Object.keys(questions) as readonly Need[];
const programs = [
  ...(['kubectl', 'helm', 'iptables', 'iptables-legacy', 'nft', 'ipset', 'conntrack', 'sshd', 'dot'] as const),
  ...(['chromium', 'prometheus', 'mmdebstrap', 'unshare'] as const),
] as const;

let folder: string;
/** Where each need that is a program of this machine is. */
const places = new Map<string, string>();

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-trace-path-'));
  chmodSync(folder, 0o755);
  const own = new Set((process.env['PATH'] ?? '').split(delimiter));
  for (const place of own)
    for (const name of filesIn(place)) {
      if (!needs.some(need => need === name)) link('none', name, place);
      else if (!places.has(name)) places.set(name, place);
    }
  // Those that variables name may be in no folder of PATH.
  for (const file of [kubectl, helm]) if (isAbsolute(file)) places.set(basename(file), dirname(file));
  for (const [name, place] of places) {
    link('all', name, place);
    link(name, name, place);
  }
});
afterAll(() => rmSync(folder, {recursive: true}));

function filesIn(place: string): readonly string[] {
  try {
    return readdirSync(place);
  } catch {
    // PATH may name folders that do not exist.
    return [];
  }
}

function link(to: string, name: string, place: string): void {
  mkdirSync(join(folder, to), {recursive: true});
  try {
    symlinkSync(join(place, name), join(folder, to, name));
  } catch (error) {
    // The first of PATH counts.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

const isRoot = process.getuid?.() === 0;
const nobody = 65_534;
const users: [name: string, uid?: number][] = isRoot ? [['root'], ['nobody', nobody]] : [['a plain user']];

describe.each(users)('as %s', (_, uid) => {
  const asker = (...folders: readonly string[]) => {
    const env = {PATH: [...folders, 'none'].map(name => join(folder, name)).join(delimiter), HOME: folder};
    return uid === undefined ? {env} : {uid, env};
  };

  test('with none of the programs every need is a skip that says why', () => {
    const met = needs.filter(need => whyNot(need, asker()) === null);
    expect(met).toEqual(isRoot && uid === undefined ? ['root'] : []);
    expect(whyNot('helm', asker())).toMatch(/^helm \(.*not found\)$/);
  });

  // A browser takes seconds to start, and is asked as root.
  test.each(programs.filter(program => uid === undefined || program !== 'chromium'))(
    'with %s alone, what needs it is met or a skip that names it, and all else is a skip',
    program => {
      const reasons = new Map(programs.map(need => [need, whyNot(need, asker(program))]));
      const met = programs.filter(need => reasons.get(need) === null);
      const isEnough = !questions[program].startsWith('unshare') || program === 'unshare';
      if (uid === undefined) expect(met).toEqual(isEnough && isMet(program) ? [program] : []);
      else expect([[], [program]]).toContainEqual(met);
      expect(reasons.get(program) ?? program).toMatch(new RegExp(`^${program}\\b`));
    },
  );

  test('with all of them each need is met or a skip that names it', () => {
    // A browser takes a second to start, and is asked alone above.
    const quick = needs.filter(need => need !== 'chromium');
    const reasons = quick.map(need => [need, whyNot(need, asker('all'))] as const);
    for (const [need, reason] of reasons) expect(reason ?? need).toMatch(new RegExp(`^${need}\\b`));
    const met = reasons.flatMap(([need, reason]) => (reason === null ? [need] : []));
    if (uid === undefined) expect(met).toEqual(quick.filter(isMet));
    else expect(met.filter(need => questions[need].startsWith('unshare') || need === 'root' || need === 'sshd')).toEqual([]);
  });

  test.each([
    ['fails', '#!/bin/sh\necho it is broken >&2\nexit 1\n', 0o755, 'it is broken'],
    ['cannot be run', '#!/bin/sh\n', 0o644, 'ermission denied'],
  ])('a program that %s is a skip with its reason', (_, text, mode, said) => {
    const broken = mkdtempSync(join(folder, 'broken-'));
    chmodSync(broken, 0o755);
    const alone = programs.filter(need => !questions[need].startsWith('unshare') || need === 'unshare');
    for (const name of alone) writeFileSync(join(broken, name), text, {mode});
    for (const name of alone) expect(whyNot(name, asker(basename(broken)))).toMatch(new RegExp(`^${name} \\(.*${said}`));
  });
});
