// Shows what the tool is for: builds it, and runs it on a capture of three real nodes, one of which has lost an endpoint.
import {spawnSync} from 'node:child_process';
import {join} from 'node:path';
import process from 'node:process';

const root = join(import.meta.dirname, '..');
const bundle = 'test/fixtures/captures/faults/missing-endpoint';

const commands = [`check -A --skip ST101 --from ${bundle}`, `trace shop/web --from ${bundle}`];

if (!process.argv.includes('--no-build') && run(['tools/build.ts']) !== 0) process.exit(1);
for (const command of commands) {
  console.log(`$ node bin/run.js ${command}`);
  const status = run(['bin/run.js', ...command.split(' ')]);
  // That an error is found (1) is what is shown here. Anything else is a demo that does not work.
  if (status !== 1) {
    console.error(`This should have ended with 1, and ended with ${status}.`);
    process.exit(1);
  }
}

/** The exit code, or null when there is none. What does not go to a terminal is made for one of 100 columns. */
function run(args: readonly string[]): number | null {
  const env = process.stdout.isTTY ? process.env : {...process.env, COLUMNS: '100'};
  const {status, error} = spawnSync(process.execPath, args, {cwd: root, env, stdio: 'inherit'});
  if (error) throw error;
  return status;
}
