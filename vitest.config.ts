import process from 'node:process';
import {defineConfig} from 'vitest/config';

/** Too long for every run: packets through the real kernel, rules that are changed one by one, and waiting (vitest.long.config.ts). */
export const long = [
  'test/e2e/kernel*.test.ts',
  'test/e2e/live/wait.test.ts',
  'test/mutants/**/*.test.ts',
  'test/fuzz/**/*.test.ts',
  'test/pasted/all-forms.test.ts',
  'test/churn/**/*.test.ts',
];

// Where CI wants the results as JSON.
const report = process.env['SVC_TRACE_TEST_REPORT'];

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // By default one core is left alone, which on a machine with two means that nothing runs side by side.
    maxWorkers: '100%',
    // These need a release (vitest.package.config.ts).
    exclude: ['test/package/**', ...long],
    // What a command prints must reach the test that captures it, not the reporter.
    disableConsoleIntercept: true,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: report ? ['default', ['json', {outputFile: report}]] : ['default'],
  },
});
