// Shows what the tool is for: builds it, and runs it on a capture of three real nodes, one of which has lost an endpoint.
// `npm run picture` writes the same run into docs/images/trace.svg, as a terminal shows it.
import {spawnSync} from 'node:child_process';
import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {terminalPicture} from './terminal-picture.ts';

const root = join(import.meta.dirname, '..');
const bundle = 'test/fixtures/captures/faults/missing-endpoint';
const command = `shop/web --from ${bundle}`;
/** Of a terminal that the README has room for. */
const columns = 100;

/** The picture of the README, whose prompt shows what one types for a cluster. */
export function demoPicture(): string {
  const env = {...process.env, COLUMNS: String(columns), FORCE_COLOR: '1', FORCE_HYPERLINK: '0'};
  const {stdout} = run('pipe', env);
  return terminalPicture(`$ kubectl svc-trace web -n shop\n${stdout}`, columns, 'kubectl svc-trace web -n shop');
}

function demo(): void {
  if (!process.argv.includes('--no-build')) build();
  console.log(`$ node bin/run.js ${command}`);
  run('inherit', process.stdout.isTTY ? process.env : {...process.env, COLUMNS: String(columns)});
  console.error(`\nEvery Service of these nodes: node bin/run.js check -A --from ${bundle}`);
  console.error('Your cluster:                 node bin/run.js check -A');
}

function build(): void {
  const {status} = spawnSync(process.execPath, ['tools/build.ts'], {cwd: root, stdio: 'inherit'});
  if (status !== 0) process.exit(1);
}

function run(stdout: 'inherit' | 'pipe', env: NodeJS.ProcessEnv) {
  const result = spawnSync(process.execPath, ['bin/run.js', ...command.split(' ')], {
    ...{cwd: root, env, encoding: 'utf8'},
    stdio: ['ignore', stdout, 'inherit'],
  });
  if (result.error) throw result.error;
  // That an error is found (1) is what is shown here. Anything else is a demo that does not work.
  if (result.status !== 1) throw new Error(`This should have ended with 1, and ended with ${result.status}.`);
  return result;
}

if (process.argv.includes('--picture')) writeFileSync(join(root, 'docs/images/trace.svg'), demoPicture());
else if (import.meta.main) demo();
