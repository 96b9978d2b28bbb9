import {defineConfig} from 'vitest/config';
import usual, {long} from './vitest.config.ts';

// `npm run test:long`: the tests that `npm test` leaves out because they take long.
export default defineConfig({test: {...usual.test, include: long, exclude: []}});
