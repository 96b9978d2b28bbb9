import {type ChildProcess, spawn} from 'node:child_process';
import {join} from 'node:path';
import process from 'node:process';
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest';
import {describeWith} from '../../require.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import type {ConnectionsOrder} from './connections.ts';
import type {LiveNode} from './live-node.ts';
import {svcTrace} from './svc-trace.ts';

const endpoints = ['10.244.11.4', '10.244.11.5', '10.244.12.4'];

interface TopReport {
  readonly interval: number;
  readonly services: readonly {
    readonly name: string;
    readonly endpoints: readonly {
      readonly endpoint: string;
      readonly state: string;
      readonly pod?: string;
      readonly nodes: readonly {
        readonly node: string;
        readonly newConnections: number | null;
        readonly openConnections: number | null;
        readonly totalConnections: number | null;
        readonly closingConnections: number | null;
        readonly expectedShare: number | null;
      }[];
    }[];
  }[];
  readonly nodes: readonly {readonly name: string; readonly status: string; readonly reason?: string; readonly source: readonly string[]}[];
  readonly findings: readonly {readonly code: string; readonly node: string; readonly message: string}[];
}

/** Programs in the namespaces of nodes. All of them end with the test. */
class Programs {
  readonly #running = new Set<ChildProcess>();

  /** Resolves when the program has said a word; what it says later is taken. */
  async start(node: LiveNode, order: ConnectionsOrder, until: string, take: (line: string) => void = () => {}): Promise<void> {
    const [program, ...first] = [...node.enter, process.execPath, join(import.meta.dirname, 'connections.ts'), JSON.stringify(order)];
    const child = spawn(program ?? '', first, {stdio: ['pipe', 'pipe', 'inherit']});
    this.#running.add(child);
    await new Promise<void>((resolve, reject) => {
      child.once('exit', () => reject(new Error(`${order.kind} ended`)));
      child.stdout.on('data', (data: Buffer) => {
        for (const line of data.toString().trim().split('\n')) line === until ? resolve() : take(line);
      });
    });
  }

  async end(): Promise<void> {
    for (const child of this.#running) {
      const ended = new Promise(resolve => child.once('exit', resolve));
      if (child.exitCode === null) {
        child.stdin?.end();
        await ended;
      }
    }
    this.#running.clear();
  }
}

describeWith(clusterNeeds, 'top of a live cluster in iptables mode', () => {
  let cluster: LiveCluster;
  const programs = new Programs();
  const served = new Map<string, number>();

  beforeAll(async () => {
    cluster = await LiveCluster.open('healthy/1.30-iptables');
    const node = cluster.node('node-a');
    for (const address of endpoints) node.run('ip', 'address', 'add', `${address}/32`, 'dev', 'lo');
    node.run('ip', 'route', 'add', 'default', 'dev', 'eth0');
    await programs.start(node, {kind: 'serve', port: 8080}, 'ready', address => served.set(address, (served.get(address) ?? 0) + 1));
  });
  afterEach(() => served.clear());
  afterAll(async () => {
    await programs.end();
    await cluster?.[Symbol.asyncDispose]();
  });

  const connect = (connections: number, hold = 0): Promise<void> =>
    programs.start(cluster.node('node-a'), {kind: 'connect', address: '10.96.1.1', port: 80, connections, hold}, 'done');

  /** `between` is done after the first read of the counters. */
  async function top(args: readonly string[], between: () => Promise<void> = async () => {}): Promise<TopReport> {
    const {api} = cluster;
    const seen = api.requests.length;
    const running = svcTrace(['top', 'shop/web', '--once', '-o', 'json', ...args], {kubeconfig: api.kubeconfig});
    const isRead = () => api.requests.slice(seen).filter(({argv}) => argv?.includes('-c') && argv[0] === 'iptables-save').length;
    await expect.poll(isRead, {timeout: 60_000, interval: 20}).toBeGreaterThan(0);
    await between();
    const {stdout, stderr} = await running;
    expect(stderr).toBe('');
    return JSON.parse(stdout) as TopReport;
  }

  const onNode = (report: TopReport, node: string) =>
    Object.fromEntries(
      report.services[0]?.endpoints.map(({endpoint, nodes}) => [endpoint.split(':')[0], nodes.find(cell => cell.node === node)]) ?? [],
    );

  test('counts exactly what each endpoint was given, and what of it is open', async () => {
    const report = await top(['--interval', '6s'], async () => {
      await connect(200);
      await connect(30, 30);
    });
    const cells = onNode(report, 'node-a');
    expect([...served.values()].reduce((sum, one) => sum + one, 0)).toBe(230);
    for (const address of endpoints) {
      const cell = cells[address];
      expect(Math.round((cell?.newConnections ?? 0) * report.interval), address).toBe(served.get(address));
      expect(cell?.expectedShare).toBeCloseTo(1 / 3, 6);
    }
    expect(endpoints.reduce((sum, address) => sum + (cells[address]?.openConnections ?? 0), 0)).toBe(30);
    expect(endpoints.reduce((sum, address) => sum + (cells[address]?.closingConnections ?? 0), 0)).toBe(200);
    expect(onNode(report, 'node-b')[endpoints[0] ?? '']).toMatchObject({newConnections: 0, openConnections: 0});
    expect(report.nodes.map(({name, status, source}) => ({name, status, source}))).toEqual(
      ['node-a', 'node-b', 'node-c'].map(name => ({name, status: 'measured', source: ['counters', 'conntrack']})),
    );
    expect(report.findings).toEqual([]);
  });
});
