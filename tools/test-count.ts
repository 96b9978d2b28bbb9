// Reads vitest's JSON reports and prints "N passed, N failed". Fails when a test failed, was skipped, or when none ran.
import {readFileSync} from 'node:fs';
import process from 'node:process';

interface Report {
  readonly success: boolean;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    /** Why the file could not be loaded. */
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
}

const reports = process.argv.slice(2).map(read);
const files = reports.flatMap(({testResults}) => testResults);
const tests = files.flatMap(file => file.assertionResults);
const passed = tests.filter(test => test.status === 'passed').length;
const failed = tests.filter(test => test.status === 'failed').length;
const skipped = tests.filter(test => test.status !== 'passed' && test.status !== 'failed');
// A file that could not be loaded, or broke outside its tests, has failed though none of its tests has.
const broken = files.filter(file => file.status === 'failed' && !file.assertionResults.some(test => test.status === 'failed'));

for (const test of skipped) console.log(`skipped, which is not allowed here: ${test.fullName}`);
for (const file of broken) console.log(`could not run: ${file.name}${beginning(file.message)}`);
for (const file of files)
  for (const test of file.assertionResults)
    if (test.status === 'failed') console.log(`failed: ${file.name}: ${test.fullName}${beginning(test.failureMessages?.[0])}`);
if (!reports.every(({success}) => success) || failed + broken.length + skipped.length > 0 || files.length === 0 || reports.some(isEmpty))
  process.exitCode = 1;
console.log(`${passed} passed, ${failed + broken.length} failed`);

function isEmpty({testResults}: Report): boolean {
  return testResults.every(file => file.assertionResults.length === 0);
}

/** The first lines of a failure: the end of CI's output is often all of it that somebody sees. */
function beginning(message: string | undefined): string {
  if (!message) return '';
  const lines = message.split('\n').slice(0, 12);
  return lines.map(line => `\n    ${line.slice(0, 300)}`).join('');
}

/** No report, or half of one, means that the run broke off before it had any results: the run itself has failed. */
function read(file: string): Report {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    return {success: false, testResults: [{name: `the tests (${error})`, status: 'failed', assertionResults: []}]};
  }
}
