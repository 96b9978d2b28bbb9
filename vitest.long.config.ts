import {defineConfig} from 'vitest/config';
import {common, long, reporters} from './vitest.config.ts';

// `npm run test:long`: the tests that `npm test` leaves out because they take long.
export default defineConfig({test: {...common, reporters, include: long}});
