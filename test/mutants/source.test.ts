import {join} from 'node:path';
import {execa} from 'execa';
import {expect, test} from 'vitest';

const root = join(import.meta.dirname, '../..');

test('tests see the change of a source, also after they ran without one', async () => {
  const run = async (mutant: object | null) => {
    const args = ['vitest', 'run', '--config', 'test/mutants/source.ts', 'test/parse/conntrack-counts.test.ts'];
    const env = mutant === null ? {} : {SVC_TRACE_MUTANT: JSON.stringify(mutant)};
    const {exitCode} = await execa('npx', args, {cwd: root, env, reject: false, stdin: 'ignore'});
    return exitCode;
  };
  expect(await run(null)).toBe(0);
  const [start, by] = [0, 'throw new Error("changed");'];
  expect(await run({file: 'src/parse/conntrack.ts', start, end: start, by})).toBe(1);
});
