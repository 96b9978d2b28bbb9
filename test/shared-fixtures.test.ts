import {createHash} from 'node:crypto';
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {expect, test} from 'vitest';
import {captureGroups, captureNames, capturePath, fixture, readFixture} from './fixtures.ts';
import {patch} from './shared-fixtures.ts';

const captures = fixture('captures');

test('a file of more than 100 lines is kept in one capture, and named in shared.json of the others that have it', () => {
  const kept = new Map<string, string>();
  const copies = readdirSync(captures, {recursive: true, withFileTypes: true}).flatMap(entry => {
    const path = join(entry.parentPath, entry.name);
    const content = entry.isFile() ? readFileSync(path) : Buffer.of();
    if (content.toString('latin1').split('\n').length <= 101) return [];
    const hash = createHash('sha256').update(content).digest('hex');
    const first = kept.get(hash) ?? path;
    kept.set(hash, first);
    return first === path ? [] : [`${path} is ${first}`];
  });
  expect(kept.size).toBeGreaterThan(100);
  // Two are whole, because documentation, `npm run demo` and CI name their folders.
  expect(
    copies.filter(copy => !/(missing-endpoint|1\.36-iptables)\/api\/.* is .*(missing-endpoint|1\.36-iptables)\/api\//.test(copy)),
  ).toEqual([]);
});

test.each(['healthy/1.36-iptables', 'faults/missing-endpoint'])('%s can be read where it is checked out', name => {
  expect(capturePath(name)).toBe(join(captures, name));
});

test.each(captureNames(...captureGroups))('%s has the objects of the API, and no file that only the checkout is to have', name => {
  const files = readdirSync(capturePath(name), {recursive: true, encoding: 'utf8'});
  expect(files).toEqual(expect.arrayContaining(['services', 'endpointslices', 'nodes', 'pods'].map(list => join('api', `${list}.json`))));
  expect(files.filter(file => file === 'shared.json' || file.endsWith('.diff'))).toEqual([]);
});

test('a file of a capture is its own, where both it and what it shares have one', () => {
  const lists = readdirSync(join(capturePath('eras/1.21-endpoints'), 'api')).sort();
  expect(lists).toEqual(['endpoints.json', 'endpointslices.json', 'nodes.json', 'pods.json', 'services.json']);
  const changed = readFixture('captures/faults/frozen-node/api/services.json').toString().split('\n');
  expect(changed.length).toBe(1403);
});

test('hunks are applied in order, and what is between them stays', () => {
  const hunks = ['@@ -1,2 +1,3 @@', ' a', '+new', ' b', '@@ -4,2 +5 @@', ' d', '-e', ''];
  expect(patch('a\nb\nc\nd\ne\nf\n', hunks)).toBe('a\nnew\nb\nc\nd\nf\n');
});

test.each([
  ['a line that is not there is to be removed', ['@@ -1,2 +1 @@', ' a', '-x']],
  ['a line around a change is another', ['@@ -1,2 +1,3 @@', ' x', '+new', ' b']],
  ['a line says nothing of the kind', ['@@ -1 +1 @@', '-a', '+new', '\\ No newline at end of file']],
])('a diff that does not fit its fixture is refused: %s', (_, hunks) => {
  expect(() => patch('a\nb\n', hunks)).toThrow(/The diff says ".*" where line \d is/);
});
