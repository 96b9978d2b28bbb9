/** A dump that is read after that of another node must be read as if it were the only one, whatever differs between them. */
import {readFileSync} from 'node:fs';
import {describe, expect, test} from 'vitest';
import type {ChainsByName, Ruleset} from '../../../src/model/ruleset.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';

const capture = new URL('../../fixtures/captures/healthy/1.36-iptables/nodes/', import.meta.url);
const nodeA = readFileSync(new URL('node-a/iptables-save', capture), 'utf8');
const nodeB = readFileSync(new URL('node-b/iptables-save', capture), 'utf8');

/** All that can be asked of rulesets. */
function contentOf(rulesets: readonly Ruleset[]): unknown {
  return rulesets.map(({tables, family, backend, toolVersion, strays, cut, ruleCount, chainCount}) => ({
    ...{family, backend, toolVersion, strays, cut, ruleCount, chainCount},
    tables: [...tables.values()].map(({name, complete, chains}) => ({
      ...{name, complete, chains: chainsOf(chains)},
      roles: ['KUBE-SEP-', 'KUBE-SVC-', 'KUBE-XLB-', 'CNI-'].map(prefix => [...chains.startingWith(prefix)].map(chain => chain.name)),
    })),
  }));
}

function chainsOf(chains: ChainsByName): unknown {
  return [...chains.values()].map((chain, place) => ({
    ...{name: chain.name, policy: chain.policy, complete: chain.complete, ruleCount: chain.ruleCount, text: chain.text()},
    ...{place: chains.placeOf(chain.name), line: chains.lineAt(place), lines: chains.linesAt(place)},
  }));
}

/** A chain may be said to be the same as before only if its text is the same. Returns how many are. */
function countRecalled(rulesets: readonly Ruleset[], before: readonly Ruleset[]): number {
  let count = 0;
  for (const [index, {tables}] of before.entries()) {
    for (const [name, {chains}] of tables) {
      const now = rulesets[index]?.tables.get(name)?.chains;
      for (const chain of chains.values()) {
        const text = {};
        chains.remember?.(text, [chains.placeOf(chain.name)]);
        const places = now?.recall?.(text) ?? null;
        if (places === null) continue;
        const [place = -1, ...more] = places;
        if (more.length > 0 || now?.at(place)?.name !== chain.name || now.textAt(place) !== chain.text())
          expect.fail(`${chain.name} is not the same`);
        count++;
      }
    }
  }
  return count;
}

/** Reads a dump after another one; returns for how many chains it is known that they are the same. */
function readAfter(dump: string, before: string): number {
  const earlier = parseDumps(before);
  // Not from the beginning of its buffer, as files of an archive are.
  const read = parseDumps(Buffer.from(`#${dump}`).subarray(1), 'IPv4', earlier);
  const [content, expected] = [contentOf(read), contentOf(parseDumps(dump))].map(each => JSON.stringify(each));
  if (content !== expected) expect(content).toBe(expected);
  return countRecalled(read, earlier);
}

const chainsWithRules = (parseDumps(nodeA)[0]?.tables.get('nat')?.chains.size ?? 0) - 20;

describe('a dump that is read after another one', () => {
  test('takes over nearly all chains if it is the same', () => {
    expect(chainsWithRules).toBeGreaterThan(100);
    expect(readAfter(nodeA, nodeA)).toBeGreaterThan(chainsWithRules);
  });

  test('takes over chains that are at other places', () => {
    expect(readAfter(nodeB, nodeA)).toBeGreaterThan(chainsWithRules / 2);
    expect(readAfter(nodeA, nodeB)).toBeGreaterThan(chainsWithRules / 2);
  });

  test('takes over nothing if it has counters before its rules', () => {
    const counted = nodeA.replace(/^-A/gm, '[3:180] -A');
    expect(readAfter(counted, counted)).toBe(0);
    expect(readAfter(counted, nodeA)).toBe(0);
    expect(readAfter(nodeA, counted)).toBe(0);
  });

  test('may have one table, another order of tables, or be of the other family', () => {
    const [mangle = '', filter = '', nat = ''] = nodeA.split(/^(?=# Generated)/m);
    expect(nat).toContain('*nat');
    expect(readAfter(nat, nodeA)).toBeGreaterThan(chainsWithRules);
    expect(readAfter(nat + filter + mangle, nodeA)).toBeGreaterThan(chainsWithRules);
    readAfter(nodeA.replaceAll('by iptables-save', 'by ip6tables-save'), nodeA);
    readAfter(nodeA + nodeB, nodeB + nodeA);
    readAfter(nodeA, '');
    readAfter('', nodeA);
    readAfter(nodeA, 'Chain INPUT (policy ACCEPT)\ntarget     prot opt source               destination\n');
  });
});

type Change = (lines: readonly string[], at: number) => readonly string[];

const changes: Readonly<Record<string, Change>> = {
  'a line less': (lines, at) => lines.toSpliced(at, 1),
  'two lines less': (lines, at) => lines.toSpliced(at, 2),
  'a line twice': (lines, at) => lines.toSpliced(at, 0, lines[at] ?? ''),
  'a line once more at the end of its table': (lines, at) => lines.toSpliced(lines.indexOf('COMMIT', at), 0, lines[at] ?? ''),
  'a line once more at the start of its table': (lines, at) =>
    lines.toSpliced(lines.findLastIndex((line, index) => index < at && line.startsWith('*')) + 1, 0, lines[at] ?? ''),
  'two lines in another order': (lines, at) => lines.toSpliced(at, 2, lines[at + 1] ?? '', lines[at] ?? ''),
  'another last letter': (lines, at) => lines.with(at, `${(lines[at] ?? '').slice(0, -1)}x`),
  'another letter in the name': (lines, at) => lines.with(at, (lines[at] ?? '').replace(/-[0-9A-Z](?=[0-9A-Z]{6,} )/, '-x')),
  'one more letter': (lines, at) => lines.with(at, `${lines[at]}1`),
  'a space at the end': (lines, at) => lines.with(at, `${lines[at]} `),
  'a carriage return': (lines, at) => lines.with(at, `${lines[at]}\r`),
  'an indented line': (lines, at) => lines.with(at, `  ${lines[at]}`),
  counters: (lines, at) => lines.with(at, (lines[at] ?? '').replace(/^-A/, '[1:60] -A').replace('[0:0]', '[1:60]')),
  'a policy': (lines, at) => lines.with(at, (lines[at] ?? '').replace(' - [', ' DROP [')),
  'one more rule of the same chain': (lines, at) => lines.toSpliced(at + 1, 0, `${(lines[at] ?? '').split(' ', 2).join(' ')} -j RETURN`),
  'a rule of another chain': (lines, at) => lines.toSpliced(at + 1, 0, '-A OUTPUT -j ACCEPT'),
  'one more chain': (lines, at) => lines.toSpliced(at + 1, 0, ':CNI-1234 - [0:0]'),
  'a chain of an old kube-proxy': (lines, at) => lines.toSpliced(at + 1, 0, ':KUBE-XLB-1234 - [0:0]'),
  'a comment': (lines, at) => lines.toSpliced(at + 1, 0, '# a comment'),
  'an empty line': (lines, at) => lines.toSpliced(at + 1, 0, ''),
  'a line of another program': (lines, at) => lines.toSpliced(at + 1, 0, 'iptables: Resource temporarily unavailable.'),
  'a line of a listing': (lines, at) => lines.toSpliced(at + 1, 0, 'Chain INPUT (policy ACCEPT)'),
  'the end after it': (lines, at) => [...lines.slice(0, at + 1), ''],
  'the end within it': (lines, at) => [...lines.slice(0, at), (lines[at] ?? '').slice(0, 20)],
  'the end of the table after it': (lines, at) => lines.toSpliced(at + 1, 0, 'COMMIT', '*nat'),
};

describe('is read as if it were the only one, with', () => {
  // A few Services are enough, and each line is changed.
  const short = shortened(nodeA);
  const lines = short.split('\n');

  test.each(Object.entries(changes))('%s', (_, change) => {
    for (let at = 0; at < lines.length - 1; at++) {
      const changed = change(lines, at).join('\n');
      readAfter(changed, short);
      readAfter(short, changed);
      readAfter(changed, changed);
    }
  });
});

/** The chains of some Services: the others, and the rules that name them, are left out. */
function shortened(dump: string): string {
  const isLeftOut = /\bKUBE-(?:SVC|SVL|SEP|EXT|FW)-[A-Z4-7]/;
  const short = dump.replace(/^.*\n/gm, line => (isLeftOut.test(line) ? '' : line));
  expect(short.match(/^:KUBE-S/gm)?.length).toBeGreaterThan(4);
  return short;
}
