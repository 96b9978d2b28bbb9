import {availableParallelism} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {configDefaults, defineConfig} from 'vitest/config';

/**
 * Too long for every run: packets through the real kernel, rules that are changed one by one, waiting, live clusters, many previews, pages
 * measured in many windows, the files of the images and of the package, every sender of other programs' rules, what starts the
 * program for each test, browsers, Prometheus, kubectl for each manifest, or commands of pages for CI, and what measures (vitest.long.config.ts).
 */
export const long = [
  'test/agent/slow-clients.test.ts',
  'test/analyze/deletions.test.ts',
  'test/analyze/third-party/{all-senders,chains-for-each-pod,many-senders}.test.ts',
  'test/bench/{measure,synthetic-cluster}.test.ts',
  'test/cli/main.test.ts',
  'test/deploy/{agents,apply-reports,chart,docs,image-files,jobs,monitoring,prometheus,schema}.test.ts',
  'test/docs-ci.test.ts',
  'test/e2e/{completion,printed-commands}.test.ts',
  'test/e2e/kernel*.test.ts',
  'test/e2e/live/*.test.ts',
  'test/integrations/{github-action,k9s}.test.ts',
  'test/mutants/**/*.test.ts',
  'test/fuzz/**/*.test.ts',
  'test/differential/**/*.test.ts',
  'test/parse/{conntrack-memory,steps}.test.ts',
  'test/pasted/all-forms.test.ts',
  'test/churn/**/*.test.ts',
  'test/collect/node/chains-of-captures.test.ts',
  'test/preview/alike-nodes.test.ts',
  'test/preview/{faulty-ports,group-outcomes,migration-rows}.test.ts',
  'test/release/npm-package.test.ts',
  'test/render/graph/*-browser.test.ts',
  'test/render/html/{html-browser,page-geometry,picture-browser}.test.ts',
  'test/start-up/start-up.test.ts',
  'test/try/try-page.test.ts',
];

/** Tables of random cases, and of rows that are alike: `npm test` tries some of each, which is enough for CI, and a release all of them. */
export const sampled = [
  'test/analyze/sender-classes.test.ts',
  'test/analyze/truncated-without-settings.test.ts',
  'test/analyze/random-services.test.ts',
  'test/analyze/nftables/random-services.test.ts',
  'test/diagnosis/churn.test.ts',
  'test/analyze/ipvs/{ipvs-faults,patch-edges}.test.ts',
  'test/compare/compare-nft-table.test.ts',
  'test/expect/{iptables/port-rules,nftables/json-writer}.test.ts',
  'test/render/policy/policy-report.test.ts',
  'test/analyze/nftables/captures.test.ts',
  'test/analyze/third-party/policy-refusals.test.ts',
  'test/analyze/third-party/rules-beside-ipvs.test.ts',
  'test/analyze/third-party/usual-rules-beside-nftables.test.ts',
  'test/analyze/third-party/usual-rules.test.ts',
  'test/collect/access/real-requests.test.ts',
  'test/collect/bundle/read-bundle.test.ts',
  'test/collect/limits.test.ts',
  'test/collect/bundle/write-bundle.test.ts',
  'test/diagnosis/count-traces.test.ts',
  'test/diagnosis/diagnosis.test.ts',
  'test/docs.test.ts',
  'test/diagnosis/nodes-together.test.ts',
  'test/diagnosis/part-of-the-services.test.ts',
  'test/laws.test.ts',
  'test/preview/preview.test.ts',
  'test/redact/captures.test.ts',
  'test/redact/third-party-rules.test.ts',
  'test/render/json.test.ts',
  'test/run/nodes/agent-evaluator.test.ts',
];

/** Tests of the built program, of which the long ones start a process for each run (test/svc-trace.ts), as those of live clusters do. */
export const inProcesses = ['test/cli/commands/{change,cluster}.test.ts', 'test/e2e/{access,capture,cli,pages}.test.ts'];

// Each of the processes loads all sources, and many tests start the program: what was compiled once serves all, and the next run.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '.compiled');

/** What the usual tests and the long ones have in common. */
export const common = {
  // By default one core is left alone. Many tests wait for a program or a server, so that even two cores have work for four.
  maxWorkers: Math.max(4, availableParallelism()),
  // Files share processes, which saves the second that loading the sources takes in each: a test leaves a process as it was.
  isolate: false,
  // Node.js loads the sources as in `bin/dev.js`, and what it calls is a tenth faster than through vite's import objects.
  experimental: {viteModuleRunner: false},
  execArgv: ['--max-semi-space-size=64'],
  // What a command prints must reach the test that captures it, not the reporter.
  disableConsoleIntercept: true,
  // A limit is for what hangs: on a busy machine everything takes long. A poll ends first, since it says what it waited for.
  testTimeout: 660_000,
  hookTimeout: 660_000,
  expect: {poll: {timeout: 600_000}},
};

// Where CI wants the results as JSON.
const report = process.env['SVC_TRACE_TEST_REPORT'];

export const reporters: ('default' | ['json', {outputFile: string}])[] = report ? ['default', ['json', {outputFile: report}]] : ['default'];

// What test/package holds needs a release (vitest.package.config.ts), and test/laboratory an idle machine (vitest.laboratory.config.ts).
const exclude = [...configDefaults.exclude, 'test/package/**', 'test/laboratory/**', ...long];

export default defineConfig({test: {...common, reporters, include: ['test/**/*.test.ts'], exclude}});
