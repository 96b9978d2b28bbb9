import {defineConfig} from 'vitest/config';

// `npm run test:package`: what a release consists of, once it is built. Too slow for every run of the tests.
export default defineConfig({
  test: {include: ['test/package/**/*.test.ts'], testTimeout: 120_000, hookTimeout: 120_000, fileParallelism: false},
});
