import {defineConfig} from 'vitest/config';
import {clusterName, clusters} from './test/laboratory/laboratory.ts';
import {common, reporters} from './vitest.config.ts';

// `npm run test:laboratory`: real packets through rules of other programs, once for each way in which kube-proxy writes its own. Nothing else
// runs beside them, since packets are late on a busy machine. They themselves run side by side, since each mostly waits for packets.
export default defineConfig({
  test: {
    ...common,
    // Each has an environment of its own.
    isolate: true,
    maxWorkers: clusters.length,
    reporters,
    projects: clusters.map(clusterName).map(name => ({
      extends: true as const,
      test: {name, include: ['test/laboratory/*.test.ts'], env: {SVC_TRACE_LABORATORY: name}},
    })),
  },
});
