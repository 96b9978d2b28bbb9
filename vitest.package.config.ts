import {defineConfig} from 'vitest/config';

// `npm run test:package`: what a release consists of, once it is built. Too slow for every run of the tests.
export default defineConfig({
  test: {include: ['test/package/**/*.test.ts'], testTimeout: 660_000, hookTimeout: 660_000, fileParallelism: false},
});
