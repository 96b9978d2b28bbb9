// The built program, whose process runs one command line after another: what is loaded and compiled once serves all of them.
// A request is {args, env, cwd}, and its answer {stdout, stderr, exitCode}.
import process from 'node:process';
import {pathToFileURL} from 'node:url';

const url = pathToFileURL(process.argv[2]).href;
const {main} = await import(new URL('../dist/main.js', url).href);

/** Thrown where the program would end. */
class Ended extends Error {}

process.exit = code => {
  process.exitCode = code ?? process.exitCode;
  throw new Ended();
};

// Nothing is asked before the last answer was sent. Nobody waits for one when the tests have ended.
process.on('message', async request => {
  const answer = await run(request);
  if (process.connected) process.send(answer);
});

async function run({args, env, cwd}) {
  const written = {stdout: '', stderr: ''};
  for (const stream of ['stdout', 'stderr'])
    process[stream].write = (chunk, ...rest) => {
      written[stream] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString();
      rest.find(argument => typeof argument === 'function')?.();
      return true;
    };
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(cwd);
  process.argv.splice(2, Infinity, ...args);
  process.exitCode = undefined;
  try {
    await main(args, url);
  } catch (error) {
    if (!(error instanceof Ended)) throw error;
  }
  return {...written, exitCode: process.exitCode ?? 0};
}
