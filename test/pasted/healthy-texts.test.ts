/** What healthy clusters print, of the kinds in which faults are told: nothing is told of it. */
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {expect, test} from 'vitest';
import {noDump, snapshotOfText} from '../../src/parse/pasted/split-text.ts';
import {said} from './trace-text.ts';

const folder = join(import.meta.dirname, '..', 'fixtures', 'pasted-healthy');

test.each(readdirSync(folder))('%s of a healthy cluster shows no fault', name => {
  const text = readFileSync(join(folder, name));
  if (snapshotOfText(name, text) === null)
    expect(noDump(text)).not.toMatch(/ shows: |which says: |^is what kubectl prints, without rules\. (?!To see)/);
  else expect(said(text.toString())).toBe('');
});
