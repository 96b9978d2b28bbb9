import {spawnSync} from 'node:child_process';
import {globSync} from 'node:fs';
import {defineConfig} from 'vitest/config';
import {halfOf, triesSome} from './test/cases.ts';
import {common, inProcesses, long, sampled, reporters} from './vitest.config.ts';

/** CI tries every other file, and a release all. */
function someFiles(): string[] {
  const {stdout} = spawnSync('git', ['rev-parse', 'HEAD'], {cwd: import.meta.dirname, encoding: 'utf8'});
  return halfOf(globSync(long, {cwd: import.meta.dirname}), stdout?.trim() ?? '');
}

// `npm run test:long`: the tests that `npm test` leaves out because they take long, and all cases of which it tries some.
export default defineConfig({
  test: {
    ...common,
    // A package that checks ours has sources beside what Node.js loads, which it must not take.
    experimental: {viteModuleRunner: true},
    reporters,
    include: triesSome ? someFiles() : [...long, ...sampled, ...inProcesses],
    env: {SVC_TRACE_LONG: '1'},
  },
});
