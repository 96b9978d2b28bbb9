import {spawnSync} from 'node:child_process';
import {globSync} from 'node:fs';
import {defineConfig} from 'vitest/config';
import {triesSome} from './test/cases.ts';
import {common, inProcesses, long, sampled, reporters} from './vitest.config.ts';

/** CI tries every other file, and which half it is depends on the commit; a release tries all. */
function halfOf(patterns: readonly string[]): string[] {
  const {stdout} = spawnSync('git', ['rev-parse', 'HEAD'], {cwd: import.meta.dirname, encoding: 'utf8'});
  const turn = Number.parseInt(stdout?.trim().at(-1) ?? '', 16) || 0;
  const files = globSync([...patterns], {cwd: import.meta.dirname}).sort();
  return files.filter((_, index) => (index + turn) % 2 === 0);
}

// `npm run test:long`: the tests that `npm test` leaves out because they take long, and all cases of which it tries some.
export default defineConfig({
  test: {
    ...common,
    // A package that checks ours has sources beside what Node.js loads, which it must not take.
    experimental: {viteModuleRunner: true},
    reporters,
    include: triesSome ? halfOf(long) : [...long, ...sampled, ...inProcesses],
    env: {SVC_TRACE_LONG: '1'},
  },
});
