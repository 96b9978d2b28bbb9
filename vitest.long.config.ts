import {defineConfig} from 'vitest/config';
import {common, long, random, reporters} from './vitest.config.ts';

// `npm run test:long`: the tests that `npm test` leaves out because they take long, and all random cases of which it tries a few.
export default defineConfig({test: {...common, reporters, include: [...long, ...random], env: {SVC_TRACE_LONG: '1'}}});
