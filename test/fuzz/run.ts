// `npm run test:fuzz -- --seconds 60 [--seed 1]`, and `-- --case 217` for one case again: its bytes are written to a file.
import {mkdtempSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {parseArgs} from 'node:util';
import {isMainThread, parentPort, Worker, workerData} from 'node:worker_threads';
import {caseBytes, material, tryCase} from './try-case.ts';

interface Order {
  readonly seed: number;
  readonly until: number;
}

/** A message of the worker: the case that it begins, or the failure of one. */
type Message = {readonly seed: number; readonly problems?: readonly string[]};

/** A case that takes longer is a hang. */
const patience = 60_000;

if (isMainThread) await main();
else await work(workerData);

async function main(): Promise<void> {
  const {values} = parseArgs({options: {seconds: {type: 'string', default: '60'}, seed: {type: 'string'}, case: {type: 'string'}}});
  if (values.case !== undefined) return again(Number(values.case));
  const seed = Number(values.seed ?? Date.now() % 1_000_000_000);
  process.stdout.write(`cases from ${seed} on, for ${values.seconds} s\n`);
  const order: Order = {seed, until: Date.now() + Number(values.seconds) * 1000};
  const worker = new Worker(new URL(import.meta.url), {workerData: order});
  let current = seed;
  let failed = 0;
  let last = Date.now();
  const watch = setInterval(() => {
    if (Date.now() - last < patience) return;
    process.stdout.write(`case ${current}: no end after ${patience / 1000} s\n`);
    process.exit(1);
  }, 1000);
  worker.on('message', (message: Message) => {
    last = Date.now();
    current = message.seed;
    for (const problem of message.problems ?? []) process.stdout.write(`case ${message.seed}: ${problem}\n`);
    if (message.problems !== undefined) failed++;
  });
  const code = await new Promise<number>((resolve, reject) => worker.once('error', reject).once('exit', resolve));
  clearInterval(watch);
  process.stdout.write(`${current - seed + 1} cases, ${failed} failed\n`);
  if (failed > 0 || code !== 0) process.exitCode = 1;
}

async function again(seed: number): Promise<void> {
  const given = await material();
  const file = join(mkdtempSync(join(tmpdir(), 'fuzz-')), `case-${seed}`);
  writeFileSync(file, caseBytes(seed, given));
  process.stdout.write(`case ${seed} is in ${file}\n`);
  const problems = tryCase(seed, given);
  process.stdout.write(problems.length === 0 ? 'nothing went wrong\n' : `${problems.join('\n')}\n`);
  if (problems.length > 0) process.exitCode = 1;
}

async function work({seed, until}: Order): Promise<void> {
  const given = await material();
  for (let at = seed; Date.now() < until; at++) {
    parentPort?.postMessage({seed: at});
    const problems = tryCase(at, given);
    if (problems.length > 0) parentPort?.postMessage({seed: at, problems});
  }
}
