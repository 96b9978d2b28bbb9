// `npm run bench:agents`: the cost of an agent on a node, and of a check that collects the results of agents: the figures of docs/dev/costs.md.
import {type ChildProcess, fork} from 'node:child_process';
import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {type RunningAgent, startAgent} from '../deploy/agent-run.ts';
import {buildCluster} from './build-cluster.ts';
import {measure} from './measure.ts';
import {writeBundle} from './synthetic-cluster.ts';

const product = fileURLToPath(new URL('../../bin/run.js', import.meta.url));
const {values} = parseArgs({
  options: {
    services: {type: 'string', default: '1000'},
    endpoints: {type: 'string', default: '50'},
    nodes: {type: 'string', default: '1000'},
    looks: {type: 'string', default: '5'},
  },
});
const size = {services: Number(values.services), endpoints: Number(values.endpoints), nodes: 1, seed: 1};

/** A process of its own that plays the API server, so that what is measured holds none of it. */
async function withServer<T>(script: string, argument: object, work: (kubeconfig: string) => Promise<T>): Promise<T> {
  const server = fork(fileURLToPath(new URL(script, import.meta.url)), [JSON.stringify(argument)]);
  try {
    return await work(await kubeconfigOf(server));
  } finally {
    server.disconnect();
  }
}

function kubeconfigOf(server: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once('message', message => resolve((message as {readonly kubeconfig: string}).kubeconfig));
    server.once('exit', code => reject(new Error(`the server ended with ${code} before it was ready`)));
  });
}

async function measureAgent(temp: string): Promise<string> {
  const bundle = join(temp, 'bundle');
  writeBundle(bundle, buildCluster(size));
  const [node = ''] = readdirSync(join(bundle, 'nodes'));
  return withServer('live-cluster.ts', size, async kubeconfig => {
    const args = ['agent', '--listen', '127.0.0.1:0', '--interval', '5s', '--node-timeout', '5m'];
    await using agent = await startAgent({bundle, node, kubeconfig, args});
    const first = await figures(agent);
    const last = await afterChecks(agent, first.looks + Number(values.looks));
    const each = (last.cpu - first.cpu) / (last.looks - first.looks);
    return `an agent, ${last.rules} rules: ${first.cpu.toFixed(2)} s CPU until the first result, ${each.toFixed(2)} s for each look after that, ${(last.memory / 1e6).toFixed(0)} MB`;
  });
}

interface Figures {
  readonly looks: number;
  readonly rules: number;
  readonly cpu: number;
  readonly memory: number;
}

async function figures(agent: RunningAgent): Promise<Figures> {
  const {text} = await agent.page('/metrics');
  const value = (name: string) => valueIn(text, name);
  return {
    looks: value('svc_trace_agent_looks_total'),
    rules: value('svc_trace_rules'),
    cpu: value('process_cpu_seconds_total'),
    memory: value('process_resident_memory_bytes'),
  };
}

function valueIn(text: string, name: string): number {
  return Number(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
}

async function afterChecks(agent: RunningAgent, looks: number): Promise<Figures> {
  for (;;) {
    const now = await figures(agent);
    if (now.looks >= looks) return now;
    await new Promise(resolve => setTimeout(resolve, 500));
  }
}

/** So many seconds of wrong tokens. */
const floodSeconds = 10;

/** What it costs an agent that a thousand wrong tokens come each second, from one machine, each on a connection of its own where the last was closed. */
async function measureFlood(temp: string): Promise<string> {
  const bundle = join(temp, 'small');
  writeBundle(bundle, buildCluster({services: 10, endpoints: 2, nodes: 1, seed: 1}));
  const [node = ''] = readdirSync(join(bundle, 'nodes'));
  return withServer('live-cluster.ts', {services: 10, endpoints: 2, nodes: 1, seed: 1}, async kubeconfig => {
    const args = ['agent', '--listen', '127.0.0.1:0', '--interval', '60s'];
    await using agent = await startAgent({bundle, node, kubeconfig, args});
    const value = async (name: string) => valueIn((await agent.page('/metrics')).text, name);
    const cpu = await value('process_cpu_seconds_total');
    const {flood} = await runFlood(agent.port);
    // The flood has used up what one address may connect.
    await new Promise(resolve => setTimeout(resolve, 1000));
    const [spent, reviewed] = [(await value('process_cpu_seconds_total')) - cpu, await value('svc_trace_agent_token_reviews_total')];
    const percent = (100 * spent) / floodSeconds;
    return `a thousand wrong tokens a second: ${percent.toFixed(0)}% of a processor, ${(reviewed / floodSeconds).toFixed(0)} reviews a second; ${flood.answered} of ${flood.sent} were answered`;
  });
}

interface Flood {
  readonly sent: number;
  readonly answered: number;
}

/** In a process of its own. */
function runFlood(port: number): Promise<{readonly flood: Flood}> {
  const child = fork(fileURLToPath(new URL('token-flood.ts', import.meta.url)), [String(port), String(floodSeconds)]);
  return new Promise((resolve, reject) => {
    child.once('message', flood => resolve({flood: flood as Flood}));
    child.once('exit', code => reject(new Error(`the flood ended with ${code}`)));
  });
}

function measureGathering(temp: string): Promise<string> {
  const nodes = Number(values.nodes);
  return withServer('agents-cluster.ts', {...size, agents: nodes}, async kubeconfig => {
    const command = [process.execPath, product, 'check', '-A', '--agents', '--skip', 'ST101', '-o', 'json', '--kubeconfig', kubeconfig];
    const {exitCode, stdout, ...cost} = await measure(command, temp);
    const {summary} = JSON.parse(stdout) as {readonly summary: {readonly nodesChecked: number; readonly nodesUnread: number}};
    if (summary.nodesChecked !== nodes || summary.nodesUnread !== 0) throw new Error(`exit code ${exitCode}: ${JSON.stringify(summary)}`);
    return `check --agents of ${nodes} nodes: ${cost.cpuSeconds.toFixed(2)} s CPU, ${cost.peakMebibytes.toFixed(0)} MiB at most, ${cost.wallSeconds.toFixed(1)} s`;
  });
}

const temp = mkdtempSync(join(tmpdir(), 'svc-trace-bench-'));
try {
  process.stdout.write(`${size.services * size.endpoints} endpoints of ${size.services} Services\n`);
  process.stdout.write(`${await measureAgent(temp)}\n`);
  process.stdout.write(`${await measureFlood(temp)}\n`);
  process.stdout.write(`${await measureGathering(temp)}\n`);
} finally {
  rmSync(temp, {recursive: true});
}
