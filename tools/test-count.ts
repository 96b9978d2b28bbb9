// Reads vitest's JSON report and prints "N passed, N failed". Fails when a test failed, was skipped, or when none ran.
import {readFileSync} from 'node:fs';
import process from 'node:process';

interface Report {
  readonly success: boolean;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly {readonly fullName: string; readonly status: string}[];
  }[];
}

const report = read(process.argv[2] ?? '');
const tests = report.testResults.flatMap(file => file.assertionResults);
const passed = tests.filter(test => test.status === 'passed').length;
const failed = tests.filter(test => test.status === 'failed').length;
const skipped = tests.filter(test => test.status !== 'passed' && test.status !== 'failed');
// A file that could not be loaded, or broke outside its tests, has failed though none of its tests has.
const broken = report.testResults.filter(file => file.status === 'failed' && !file.assertionResults.some(test => test.status === 'failed'));

for (const test of skipped) console.log(`skipped, which is not allowed here: ${test.fullName}`);
for (const file of broken) console.log(`could not run: ${file.name}`);
if (!report.success || failed + broken.length + skipped.length > 0 || passed === 0) process.exitCode = 1;
console.log(`${passed} passed, ${failed + broken.length} failed`);

/** No report, or half of one, means that the run broke off before it had any results: the run itself has failed. */
function read(file: string): Report {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    return {success: false, testResults: [{name: `the tests (${error})`, status: 'failed', assertionResults: []}]};
  }
}
