// The program needs Node.js 22.19. In a checkout `npm ci` brings a newer one (tools/node), which takes over from one that is too old.
import {spawn} from 'node:child_process';
import {existsSync} from 'node:fs';
import {constants} from 'node:os';
import process from 'node:process';
import {isatty} from 'node:tty';
import {fileURLToPath} from 'node:url';

/** Runs the script once more with the Node.js of the checkout, and ends as that run ends. Returns when there is none. */
export async function runWithNewerNode(script) {
  const newer = newerNode();
  if (newer === undefined) return;
  const child = spawn(newer, [fileURLToPath(script), ...process.argv.slice(2)], {stdio: 'inherit'});
  // This process waits while the child cleans up. A terminal sends Ctrl-C to both; forwarded, it would count as a second one.
  const hasTerminal = [0, 1, 2].some(fd => isatty(fd));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => (signal === 'SIGINT' && hasTerminal) || child.kill(signal));
  process.exit(await exitCode(child));
}

function newerNode() {
  const windows = process.platform === 'win32';
  const build = `node-${windows ? 'win' : process.platform}-${process.arch}`;
  const path = fileURLToPath(new URL(`../node_modules/${build}/bin/node${windows ? '.exe' : ''}`, import.meta.url));
  return existsSync(path) ? path : undefined;
}

/** As a shell reports it: a signal is 128 and its number. */
function exitCode(child) {
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal]));
  });
}
