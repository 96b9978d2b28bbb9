import {defineConfig} from 'vitest/config';
import {triesSome} from './test/cases.ts';
import {common, inProcesses, long, sampled, reporters} from './vitest.config.ts';

// `npm run test:long`: the tests that `npm test` leaves out because they take long, and all cases of which it tries some.
export default defineConfig({
  test: {
    ...common,
    // A package that checks ours has sources beside what Node.js loads, which it must not take.
    experimental: {viteModuleRunner: true},
    reporters,
    include: triesSome ? long : [...long, ...sampled, ...inProcesses],
    env: {SVC_TRACE_LONG: '1'},
  },
});
