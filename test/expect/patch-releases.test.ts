import {readFile, writeFile} from 'node:fs/promises';
import {describe, expect, test} from 'vitest';
import {
  hasChange,
  mayHaveBug,
  mendedIn,
  mendedBugs,
  type PatchChange,
  possibleVersions,
  ruleChanges,
  type RulesMode,
} from '../../src/expect/patch-releases.ts';
import {resolveProxyConfig} from '../../src/expect/resolve-proxy-config.ts';
import type {KubeProxyVersion} from '../../src/model/proxy-config.ts';
import {apiObjects, nodeDump} from '../cluster.ts';

function version(text: string): KubeProxyVersion {
  return resolveProxyConfig(nodeDump('node-a', {'kube-proxy-version': text}), apiObjects({}), {}).config.version.value;
}

/** The versions that may be meant, as `minor.patch`. */
function possible(text: string, mode: RulesMode, guessed = false): readonly string[] {
  const given = version(text);
  return possibleVersions(guessed ? {...given, guessed: true} : given, mode).map(({minor, patch}) => `${minor}.${patch ?? 'x'}`);
}

describe('a change of a patch release', () => {
  const change: PatchChange = {what: '', pulls: [], first: {28: 6, 29: 2, 30: 0}};

  test.each([
    ['v1.27.16', false],
    ['v1.28.5', false],
    ['v1.28.6', true],
    ['v1.28.15-eksbuild.3', true],
    ['v1.29.1', false],
    ['v1.29.2', true],
    ['v1.30.0', true],
    ['v1.36.2', true],
  ])('is in %s: %s', (text, expected) => {
    expect(hasChange(version(text), change)).toBe(expected);
  });

  test('counts as there where the patch is not known', () => {
    expect(hasChange(version('v1.28'), change)).toBe(true);
  });
});

describe('a bug', () => {
  test.each([
    ['v1.28.14', false, ''],
    ['v1.29.9', true, '1.29.10'],
    ['v1.29.10', false, ''],
    ['v1.30.5-gke.3', true, '1.30.6'],
    ['v1.31', true, '1.31.2'],
    ['v1.31.2', false, ''],
    ['v1.32.0', false, ''],
  ])('may be in %s: %s', (text, has, mended) => {
    expect(mayHaveBug(version(text), mendedBugs.flowsOfTerminating)).toBe(has);
    if (has) expect(mendedIn(version(text), mendedBugs.flowsOfTerminating)).toBe(mended);
  });

  test('of a minor that no patch mends is mended by the next minor that has one', () => {
    expect(mendedIn(version('v1.27.16'), mendedBugs.flowsFromStart)).toBe('1.28.14');
  });
});

describe('the versions that may be meant', () => {
  test.each([
    ['v1.33.5', 'nftables', ['33.5']],
    ['v1.33.6', 'nftables', ['33.6']],
    ['v1.33', 'nftables', ['33.x', '33.6', '33.5']],
    ['v1.33', 'iptables', ['33.x']],
    ['v1.33.6-rc.0', 'nftables', ['33.6', '33.5']],
    ['v1.33.7-rc.0', 'nftables', ['33.7']],
    ['v1.29.1', 'ipvs', ['29.1', '29.2']],
    ['v1.29.0', 'ipvs', ['29.0']],
    ['v1.29.2', 'ipvs', ['29.2']],
    ['v1.34.0-rc.1', 'nftables', ['34.0', '33.x', '33.6', '33.5']],
    ['v1.22.0-rc.0', 'iptables', ['22.0', '21.x', '21.1', '21.0']],
  ] as const)('by %s in %s mode', (text, mode, expected) => {
    expect(possible(text, mode)).toEqual(expected);
  });

  test('by the version of a kubelet are those of both sides of each edge', () => {
    expect(possible('v1.34.1', 'nftables', true)).toEqual(['34.1', '34.2']);
    expect(possible('v1.35.1', 'nftables', true)).toEqual(['35.1']);
  });
});

describe('the page about patch releases', () => {
  test.each([
    ['rules', Object.values<Row>(ruleChanges)],
    ['bugs', Object.values<Row>(mendedBugs)],
  ])('has a row for each change of %s', async (name, changes) => {
    const file = new URL('../../docs/dev/patch-releases.md', import.meta.url);
    const page = await readFile(file, 'utf8');
    const table = new RegExp(`(<!-- ${name} -->\n.*\n.*\n)((?:\\|.*\n)*)`).exec(page);
    const rows = changes.map(change => `${row(change)}\n`).join('');
    // Like the tests of pages that show output, this one can write them.
    if (process.env['SVC_TRACE_DOCS'] === 'write')
      return writeFile(
        file,
        page.replace(table?.[0] ?? '', () => `${table?.[1]}${rows}`),
      );
    expect(table?.[2]).toBe(rows);
  });
});

interface Row extends PatchChange {
  readonly modes: readonly RulesMode[];
  readonly since?: number;
}

function row({what, pulls, first, mayHave, modes, since}: Row): string {
  const releases = Object.entries(first).map(([minor, patch]) => `1.${minor}.${patch}`);
  const unsure = Object.entries(mayHave ?? {}).map(([minor, patch]) => `perhaps in 1.${minor}.${patch}`);
  const source = pulls.map(pull => `#${pull}`).join(', ');
  const cells = [modes.join(', '), what, source, ...(since === undefined ? [] : [`1.${since}`]), [...releases, ...unsure].join(', ')];
  return `| ${cells.join(' | ')} |`;
}
