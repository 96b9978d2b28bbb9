import {existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {setTimeout} from 'node:timers/promises';
import {describe, expect, onTestFinished, test} from 'vitest';
import {someOf} from '../../cases.ts';
import {readBundle} from '../../../src/collect/bundle/read-bundle.ts';
import {seededRandom} from '../../bench/random.ts';
import type {ApiServer} from '../../stand-in/api-server.ts';
import type {Fault} from '../../stand-in/faults.ts';
import {startReplay} from './replay.ts';
import {svcTrace} from './svc-trace.ts';

const capture = 'healthy/1.36-iptables';

interface Stage {
  readonly stage: string;
  readonly transport: 'exec' | 'debug';
  /** What holds the run up there. */
  readonly faults: readonly Fault[];
  /** Whether it has got there. */
  readonly reached: (server: ApiServer) => boolean;
}

const execs = (server: ApiServer, program: RegExp) => server.requests.filter(({argv}) => program.test(argv.join(' '))).length;
const debugPods = (server: ApiServer) => server.store.all('pods').filter(({metadata}) => metadata.name.startsWith('svc-trace-'));

const stages: readonly Stage[] = [
  {
    stage: 'Services are listed',
    transport: 'exec',
    faults: [{kind: 'hang', match: /\/services\?/}],
    reached: server => server.requests.some(({path}) => path.endsWith('/services')),
  },
  {
    stage: 'it is asked to come back later',
    transport: 'exec',
    faults: [{kind: 'status', status: 429, retryAfter: 30, match: /\/services\?/}],
    reached: server => server.requests.some(({path}) => path.endsWith('/services')),
  },
  {
    stage: 'nodes are opened',
    transport: 'exec',
    faults: [{kind: 'hang', match: /command=iptables-save/}],
    reached: server => execs(server, /^iptables-save$/) === 3,
  },
  {
    stage: 'nodes are read',
    transport: 'exec',
    faults: [{kind: 'hang', match: /command=ip6tables-save/}],
    reached: server => execs(server, /^ip6tables-save$/) === 3,
  },
  {
    stage: 'debug pods are made',
    transport: 'debug',
    faults: [{kind: 'slow', delay: 700, match: /^POST .*\/pods/}],
    reached: server => server.requests.filter(({method}) => method === 'POST').length === 3,
  },
  {
    stage: 'debug pods are pending',
    transport: 'debug',
    faults: [],
    reached: server =>
      debugPods(server).length === 3 && server.requests.some(({method, path}) => method === 'GET' && path.includes('/pods/svc-trace-')),
  },
  {
    stage: 'nodes are read by debug pods',
    transport: 'debug',
    faults: [{kind: 'hang', match: /command=ip6tables-save/}],
    reached: server => execs(server, /ip6tables-save$/) === 3,
  },
];

async function start({stage, faults}: Pick<Stage, 'stage' | 'faults'>): Promise<{readonly server: ApiServer; readonly temporary: string}> {
  const startDelay = stage.endsWith('pending') ? 3_600_000 : 0;
  const server = await startReplay(capture, {faults, pods: {startDelay}});
  const temporary = mkdtempSync(join(tmpdir(), 'svc-trace-interrupt-'));
  onTestFinished(async () => {
    await server.close();
    rmSync(temporary, {recursive: true});
  });
  return {server, temporary};
}

const check = ['check', '-A', '-o', 'json'];

describe.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('%s', signal => {
  test.each(stages)('while $stage ($transport) leaves nothing behind', async given => {
    const {server, temporary} = await start(given);
    const running = svcTrace([...check, '--transport', given.transport], {kubeconfig: server.kubeconfig, temporary});
    await expect.poll(() => given.reached(server)).toBe(true);
    running.kill(signal);
    const {exitCode, stdout, stderr} = await running;
    expect(exitCode).toBe(130);
    // Once nodes are read there is something to report.
    if (given.stage.startsWith('nodes') || given.stage.startsWith('debug')) {
      expect(stderr).toBe('');
      expect(JSON.parse(stdout)).toMatchObject({summary: {verdict: 'incomplete', nodesChecked: 0, nodesUnread: 3}});
    } else {
      expect({stdout, stderr}).toEqual({stdout: '', stderr: `interrupted (${signal})`});
    }
    expect(debugPods(server)).toEqual([]);
    expect(server.streams()).toBe(0);
    expect(readdirSync(temporary)).toEqual([]);
  });
});

test.each([
  'check -A',
  'trace shop/web',
  'watch -A',
  'top shop/web',
  'packet --source 10.244.11.4 --destination shop/web',
  'preview -A --proxy-mode nftables',
  'rules -A --for-node node-a',
  'access -A',
  'capture',
])('`%s` ends at the first signal with a credential plugin that hangs, and with what the plugin started', async command => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-interrupt-'));
  onTestFinished(() => rmSync(folder, {recursive: true}));
  const [kubeconfig, child] = [join(folder, 'config'), join(folder, 'child')];
  const hangs = `trap '' INT TERM; sleep 600 & echo $! >${child}.new; mv ${child}.new ${child}; while :; do wait; done`;
  const exec = {apiVersion: 'client.authentication.k8s.io/v1', command: 'sh', args: ['-c', hangs], interactiveMode: 'IfAvailable'};
  const config = {
    clusters: [{name: 'c', cluster: {server: 'https://127.0.0.1:1'}}],
    users: [{name: 'u', user: {exec}}],
    contexts: [{name: 'c', context: {cluster: 'c', user: 'u'}}],
    'current-context': 'c',
  };
  writeFileSync(kubeconfig, JSON.stringify({apiVersion: 'v1', kind: 'Config', ...config}));
  const words = command === 'capture' ? ['capture', '-o', join(folder, 'bundle')] : command.split(' ');
  const running = svcTrace(words, {kubeconfig});
  await expect.poll(() => existsSync(child), {timeout: 600_000}).toBe(true);
  running.kill('SIGINT');
  expect((await running).exitCode).toBe(130);
  expect(readdirSync(folder).sort()).toEqual(['child', 'config']);
  await expect.poll(() => isRunning(readFileSync(child, 'utf8').trim())).toBe(false);
});

/** A process that has ended may not have been waited for. */
function isRunning(id: string): boolean {
  return existsSync(`/proc/${id}/stat`) && !/\) Z /.test(readFileSync(`/proc/${id}/stat`, 'utf8'));
}

// With SVC_TRACE_INTERRUPTS=200 there are more moments, and with SVC_TRACE_SEED others.
const seed = Number(process.env['SVC_TRACE_SEED'] ?? 33);
const moments = seededRandom(seed);
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
const atRandom = Array.from({length: Number(process.env['SVC_TRACE_INTERRUPTS'] ?? 30)}, (_, index) => ({
  command: (['check', 'capture', 'capture to an archive'] as const)[index % 3] ?? 'check',
  signal: moments.pick(signals),
  after: moments.below(2500),
  startDelay: moments.below(800),
}));

test.each(someOf(atRandom))(
  `$signal after $after ms ends $command, with debug pods that start after $startDelay ms, and leaves nothing behind (seed ${seed})`,
  async ({command, signal, after, startDelay}) => {
    const server = await startReplay(capture, {pods: {startDelay}});
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-interrupt-'));
    onTestFinished(async () => {
      await server.close();
      rmSync(folder, {recursive: true});
    });
    const bundle = command === 'capture' ? 'bundle' : 'bundle.tgz';
    const words = command === 'check' ? check : ['capture', '-o', join(folder, bundle)];
    const running = svcTrace([...words, '--transport', 'debug'], {kubeconfig: server.kubeconfig});
    await setTimeout(after);
    running.kill(signal);
    const ended = await Promise.race([running, setTimeout(60_000, null)]);
    if (ended === null) running.kill('SIGKILL');
    expect(ended).not.toBeNull();
    const {exitCode, signal: killedBy} = await running;
    // A bundle is there as a whole, also where the signal came after it was written, or not at all.
    const written = readdirSync(folder);
    if (exitCode === 0 && command !== 'check') expect(written).toEqual([bundle]);
    if (written.length > 0) expect((await readBundle(join(folder, ...written))).nodes).toHaveLength(3);
    // It was over by then, it ended itself, or it had not begun.
    expect([0, 130, undefined]).toContain(exitCode);
    if (exitCode === undefined) expect(killedBy).toBe(signal);
    expect(debugPods(server)).toEqual([]);
    expect(server.streams()).toBe(0);
  },
);

test('a watch that cannot write its lines ends with an error, and leaves nothing behind', async () => {
  const {server, temporary} = await start({stage: 'lines are written', faults: []});
  const onFullDisk = ['bash', '-c', 'exec "$@" > /dev/full', 'bash'];
  const args = ['watch', '-A', '--interval', '1h', '--transport', 'debug'];
  const {exitCode, stderr} = await svcTrace(args, {kubeconfig: server.kubeconfig, temporary, enter: onFullDisk});
  expect({exitCode, stderr}).toEqual({exitCode: 2, stderr: 'Error: cannot write to stdout: no space left on device'});
  expect(server.requests.filter(({method, path}) => method === 'POST' && path.includes('/pods'))).toHaveLength(3);
  expect(debugPods(server)).toEqual([]);
});

test('pods of a run that was killed are removed by the next', async () => {
  let pending = true;
  const server = await startReplay(capture, {pods: {startDelay: 0, statusOf: () => (pending ? {phase: 'Pending'} : null)}});
  onTestFinished(() => server.close());
  const options = {kubeconfig: server.kubeconfig};
  const killed = svcTrace([...check, '--transport', 'debug'], options);
  await expect.poll(() => debugPods(server).length).toBe(3);
  killed.kill('SIGKILL');
  await killed;
  const left = debugPods(server).map(({metadata}) => metadata.name);
  expect(left).toHaveLength(3);
  pending = false;
  const {exitCode} = await svcTrace([...check, '--transport', 'debug'], options);
  expect(exitCode).toBe(0);
  expect(debugPods(server)).toEqual([]);
  const deleted = server.requests.filter(({method}) => method === 'DELETE').map(({resource}) => resource?.name);
  expect(deleted).toEqual(expect.arrayContaining(left));
});
