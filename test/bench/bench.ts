// `npm run bench`: what `check` costs on a large cluster, in units of what any
// program has to spend on the same files. A ratio can be compared between
// machines; seconds cannot.
import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {assertClean} from './clean-report.ts';
import type {ClusterSize} from './cluster-size.ts';
import {type Cost, type Measured, measure, run} from './measure.ts';
import {type Results, resultsTable, type SizeResult} from './results-table.ts';
import {measureStages} from './stages.ts';
import {measureStartUp, startUpTable} from './start-up.ts';
import {growthExponent, medianCost} from './statistics.ts';

const FLOOR = fileURLToPath(new URL('floor.mjs', import.meta.url));
const WRITE_CLUSTER = fileURLToPath(new URL('write-cluster.ts', import.meta.url));
const PRODUCT = fileURLToPath(new URL('../../bin/run.js', import.meta.url));

interface Options {
  size: ClusterSize;
  repeat: number;
  floorOnly: boolean;
  json: boolean;
  startup: boolean;
}

/** A bundle on the disk, and what each run on it cost. */
interface Bundle {
  dir: string;
  size: ClusterSize;
  bytes: number;
  lines: number;
  floor: Cost[];
  check: Cost[];
}

function readOptions(): Options {
  const {values} = parseArgs({
    options: {
      services: {type: 'string', default: '5000'},
      endpoints: {type: 'string', default: '50'},
      nodes: {type: 'string', default: '1'},
      repeat: {type: 'string', default: '3'},
      seed: {type: 'string', default: '1'},
      // The machine's own figures, where there is no product to run yet.
      'floor-only': {type: 'boolean', default: false},
      json: {type: 'boolean', default: false},
      // Nothing but what it costs to start.
      startup: {type: 'boolean', default: false},
    },
  });
  return {
    size: {
      // A tenth of the Services has to be a cluster too.
      services: wholeNumber('services', values.services, 20),
      endpoints: wholeNumber('endpoints', values.endpoints, 1),
      nodes: wholeNumber('nodes', values.nodes, 1),
      seed: wholeNumber('seed', values.seed, 0),
    },
    repeat: wholeNumber('repeat', values.repeat, 1),
    floorOnly: values['floor-only'],
    json: values.json,
    startup: values.startup,
  };
}

function wholeNumber(option: string, text: string, least: number): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least) {
    throw new RangeError(`--${option} is a whole number, ${least} or more, not ${text}`);
  }
  return value;
}

async function bench({floorOnly, repeat, size}: Options, temp: string): Promise<Results> {
  if (!floorOnly) {
    // Not counted. It says at once whether there is a product to measure.
    await measureStartup(temp);
  }
  const small = {...size, services: Math.round(size.services / 10)};
  const bundles = {
    large: await writtenBundle(join(temp, 'large'), size),
    small: await writtenBundle(join(temp, 'small'), small),
  };
  const startup: Cost[] = [];
  for (let round = 1; round <= repeat; round++) {
    progress(`round ${round} of ${repeat}`);
    // Floor and check by turns, so that a machine that slows down slows both.
    for (const bundle of [bundles.large, bundles.small]) {
      await measureFloor(bundle, temp);
      if (!floorOnly) {
        await measureCheck(bundle, temp);
      }
    }
    if (!floorOnly) {
      startup.push(await measureStartup(temp));
    }
  }
  const results = {large: sizeResult(bundles.large), small: sizeResult(bundles.small)};
  if (floorOnly) {
    return {...results, stages: []};
  }
  const start = medianCost(startup);
  return {
    ...results,
    startup: start,
    growth: {
      cpu: growth(results, start, 'cpuSeconds'),
      wall: growth(results, start, 'wallSeconds'),
    },
    stages: await measureStages(bundles.large.dir),
  };
}

async function writtenBundle(dir: string, size: ClusterSize): Promise<Bundle> {
  progress(`writing ${size.services} Services x ${size.endpoints} endpoints`);
  const exitCode = await run([WRITE_CLUSTER, dir, JSON.stringify(size)], `${dir}.log`);
  if (exitCode !== 0) {
    throw new Error(`the cluster could not be written: exit code ${exitCode}`);
  }
  return {dir, size, bytes: 0, lines: 0, floor: [], check: []};
}

async function measureFloor(bundle: Bundle, temp: string): Promise<void> {
  const measured = succeeded(await measure([FLOOR, bundle.dir], temp), 'the floor');
  const {bytes, lines} = JSON.parse(measured.stdout) as {bytes: number; lines: number};
  Object.assign(bundle, {bytes, lines});
  bundle.floor.push(measured);
}

async function measureCheck(bundle: Bundle, temp: string): Promise<void> {
  // The API has more nodes than were captured; those that were not are not asked for.
  const nodes = readdirSync(join(bundle.dir, 'nodes')).flatMap(node => ['--node', node]);
  const args = [PRODUCT, 'check', '-A', ...nodes, '--from', bundle.dir, '-o', 'json'];
  const measured = await measure(args, temp);
  assertClean(measured, bundle.size.nodes);
  bundle.check.push(measured);
}

async function measureStartup(temp: string): Promise<Cost> {
  return succeeded(await measure([PRODUCT, '--version'], temp), '--version');
}

function succeeded(measured: Measured, what: string): Measured {
  if (measured.exitCode !== 0) {
    throw new Error(`${what} ended with exit code ${measured.exitCode}`);
  }
  return measured;
}

function sizeResult({bytes, check: checks, floor: floors, lines, size}: Bundle): SizeResult {
  const {endpoints, nodes, services} = size;
  const floor = medianCost(floors);
  const result = {services, endpoints, nodes, bytes, lines, floor};
  if (checks.length === 0) {
    return result;
  }
  const check = medianCost(checks);
  const ratio = {
    cpu: check.cpuSeconds / floor.cpuSeconds,
    wall: check.wallSeconds / floor.wallSeconds,
    memory: check.peakMebibytes / floor.peakMebibytes,
  };
  return {...result, check, ratio};
}

function growth({large, small}: {large: SizeResult; small: SizeResult}, startup: Cost, figure: 'cpuSeconds' | 'wallSeconds'): number {
  return growthExponent(
    {bytes: large.bytes, seconds: large.check?.[figure] ?? Number.NaN},
    {bytes: small.bytes, seconds: small.check?.[figure] ?? Number.NaN},
    startup[figure],
  );
}

/** Results go to standard output and nothing else does. */
function progress(text: string): void {
  process.stderr.write(`${text}\n`);
}

async function main(): Promise<void> {
  const options = readOptions();
  if (options.startup) {
    const results = measureStartUp(Math.max(options.repeat, 11));
    process.stdout.write(`${options.json ? JSON.stringify(results, null, 2) : startUpTable(results)}\n`);
    return;
  }
  const temp = mkdtempSync(join(tmpdir(), 'svc-trace-bench-'));
  const remove = () => rmSync(temp, {recursive: true, force: true});
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      remove();
      process.exit(130);
    });
  }
  try {
    const results = await bench(options, temp);
    process.stdout.write(`${options.json ? JSON.stringify(results, null, 2) : resultsTable(results)}\n`);
  } finally {
    remove();
  }
}

try {
  await main();
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
