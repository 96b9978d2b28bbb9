import {join} from 'node:path';
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest';
import {describeWith} from '../../require.ts';
import {clusterNeeds, LiveCluster} from './cluster.ts';
import type {ConnectionsOrder} from './connections.ts';
import {replaceEndpoint} from './live-kube-proxy.ts';
import {NodePrograms} from './node-programs.ts';
import {OnTerminal, svcTrace} from './svc-trace.ts';

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

/** A Service whose endpoints a node answers for. */
interface Target {
  readonly service: string;
  readonly address: string;
  readonly port: number;
  readonly endpoints: readonly string[];
  readonly targetPort: number;
}

const web: Target = {service: 'shop/web', address: '10.96.1.1', port: 80, endpoints, targetPort: 8080};
const six: Target = {
  ...{service: 'infra/six', address: 'fd00:96::4', port: 9153, targetPort: 9153},
  endpoints: ['fd00:10:244:11::9', 'fd00:10:244:12::9'],
};

/** A node that answers at the addresses of pods, and clients on it, which count what they really got. */
class Load implements AsyncDisposable {
  readonly cluster: LiveCluster;
  readonly #target: Target;
  /** How many connections each address got. */
  readonly served = new Map<string, number>();
  readonly #programs = new NodePrograms();

  private constructor(cluster: LiveCluster, target: Target) {
    this.cluster = cluster;
    this.#target = target;
  }

  static async open(capture: string, target = web): Promise<Load> {
    const load = new Load(await LiveCluster.open(capture), target);
    const node = load.cluster.node('node-a');
    for (const address of target.endpoints)
      node.run(
        'ip',
        'address',
        'add',
        `${address}/${address.includes(':') ? 128 : 32}`,
        'dev',
        'lo',
        ...(address.includes(':') ? ['nodad'] : []),
      );
    const take = (address: string) => load.served.set(address, (load.served.get(address) ?? 0) + 1);
    await load.#programs.start(node, {kind: 'serve', port: target.targetPort}, 'ready', take);
    return load;
  }

  connect(connections: number, hold = 0): Promise<void> {
    const {address, port} = this.#target;
    const order: ConnectionsOrder = {kind: 'connect', address, port, connections, hold};
    return this.#programs.start(this.cluster.node('node-a'), order, 'done');
  }

  async run(args: readonly string[]): Promise<TopReport> {
    const {stdout, stderr} = await svcTrace(['top', this.#target.service, '-o', 'json', ...args], {
      kubeconfig: this.cluster.api.kubeconfig,
    });
    expect(stderr).toBe('');
    return JSON.parse(stdout) as TopReport;
  }

  /** `between` is done after the first read of the counters. */
  async top(args: readonly string[], between: () => Promise<void> = async () => {}): Promise<TopReport> {
    const {api} = this.cluster;
    const seen = api.commands.length;
    const running = this.run(['--once', ...args]);
    const reads = () => api.commands.slice(seen).filter(({argv}) => argv[0] === 'conntrack' && argv.includes('-o')).length;
    await expect.poll(reads, {interval: 20}).toBe(args.includes('--node') ? 1 : this.cluster.nodes.length);
    await new Promise(resolve => setTimeout(resolve, 500));
    await between();
    return running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#programs.end();
    await this.cluster[Symbol.asyncDispose]();
  }
}

/** What a node says of each endpoint, by its address. */
function onNode(report: TopReport, node: string) {
  return Object.fromEntries(
    report.services[0]?.endpoints.map(({endpoint, nodes}) => [
      endpoint.replace(/:\d+$/, '').replace(/^\[|\]$/g, ''),
      nodes.find(cell => cell.node === node),
    ]) ?? [],
  );
}

/** New connections between the two reads, which JSON has per second. */
function newOnes(report: TopReport, address: string): number | null {
  const cell = onNode(report, 'node-a')[address];
  return cell?.newConnections == null ? null : cell.newConnections * report.interval;
}

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, one) => total + one, 0);

describeWith([...clusterNeeds, 'script'], 'top of a live cluster in iptables mode', () => {
  let load: Load;
  beforeAll(async () => {
    load = await Load.open('healthy/1.30-iptables');
  });
  afterEach(() => load.served.clear());
  afterAll(() => load?.[Symbol.asyncDispose]());

  test('counts exactly what each endpoint was given, and what of it is open', async () => {
    const report = await load.top(['--interval', '6s'], async () => {
      await load.connect(200);
      await load.connect(30, 30);
    });
    const cells = onNode(report, 'node-a');
    expect(sum(load.served.values())).toBe(230);
    // The interval is the mean of the nodes, and that of one may be another where the machine is busy: of all it has the same part.
    const all = sum(endpoints.map(address => newOnes(report, address) ?? 0));
    for (const address of endpoints) {
      const ofEndpoint = ((newOnes(report, address) ?? 0) / all) * 230;
      expect(Math.abs(ofEndpoint - (load.served.get(address) ?? 0)), address).toBeLessThan(0.5);
      expect(cells[address]?.totalConnections).toBe(load.served.get(address));
      expect(cells[address]?.expectedShare).toBeCloseTo(1 / 3, 6);
    }
    expect(sum(endpoints.map(address => cells[address]?.openConnections ?? 0))).toBe(30);
    expect(sum(endpoints.map(address => cells[address]?.closingConnections ?? 0))).toBe(200);
    expect(onNode(report, 'node-b')[endpoints[0] ?? '']).toMatchObject({newConnections: 0, openConnections: 0});
    expect(report.nodes.map(({name, status, source}) => ({name, status, source}))).toEqual(
      ['node-a', 'node-b', 'node-c'].map(name => ({name, status: 'measured', source: ['counters', 'conntrack']})),
    );
    expect(report.findings).toEqual([]);
  });

  test('counts the same between two bundles, and totals in one', async () => {
    const {api, folder} = load.cluster;
    const capture = async (name: string): Promise<string> => {
      const path = join(folder, name);
      const {stderr, exitCode} = await svcTrace(['capture', '--counters', '-o', path, '-q'], {kubeconfig: api.kubeconfig});
      expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 0});
      return path;
    };
    const before = await capture('before');
    // The time of a dump has no more than seconds.
    await new Promise(resolve => setTimeout(resolve, 1100));
    await load.connect(150);
    const after = await capture('after.tgz');
    const rates = await load.run(['--from', before, '--from', after, '--node', 'node-a']);
    for (const address of endpoints) expect(newOnes(rates, address), address).toBeCloseTo(load.served.get(address) ?? 0, 0);
    const diff = await svcTrace(['diff', before, after, '-o', 'json'], {kubeconfig: api.kubeconfig});
    const {connections} = JSON.parse(diff.stdout) as {readonly connections: TopReport};
    const web = {...connections, services: connections.services.filter(({name}) => name === 'web')};
    const newOnNode = endpoints.map(address => newOnes(web, address) ?? 0);
    // The interval of the report is the mean of the nodes: shares are exact.
    for (const [at, address] of endpoints.entries())
      expect((newOnNode[at] ?? 0) / sum(newOnNode), address).toBeCloseTo((load.served.get(address) ?? 0) / 150, 2);
    const shown = await svcTrace(['diff', before, after], {kubeconfig: api.kubeconfig});
    expect(shown.stdout).toMatch(/^CONNECTIONS \(new each second, over \d+ s\)\n {2}shop\/web:http {2}[\d.]+\n {4}10\.244\.11\.4:8080 /m);
    const totals = onNode(await load.run(['--from', after]), 'node-a');
    expect(sum(endpoints.map(address => totals[address]?.totalConnections ?? 0))).toBe(380);
    expect(totals[endpoints[0] ?? '']?.newConnections).toBeNull();
  });

  test('trace shows the counters of a live node', async () => {
    const {stdout} = await svcTrace(['trace', 'shop/web', '--node', 'node-a', '--counters'], {kubeconfig: load.cluster.api.kubeconfig});
    const packets = [...stdout.matchAll(/(\d+) packets?/g)].map(([, number]) => Number(number));
    expect(Math.max(...packets)).toBeGreaterThanOrEqual(380);
  });

  test.each([
    ['hangs', {kind: 'hang'}, 'no answer within 6 s'],
    ['breaks off', {kind: 'reset'}, expect.stringMatching(/\S/)],
  ] as const)('a node whose second read %s is not measured, with the reason, and the others are', async (_, fault, reason) => {
    const {faults} = load.cluster.api;
    const report = await load.top(['--interval', '6s'], async () => {
      faults.push({...fault, match: /node-b.*(?:iptables|conntrack)/});
      await load.connect(30);
    });
    faults.splice(0);
    expect(report.nodes.map(({name, status}) => [name, status])).toEqual([
      ['node-a', 'measured'],
      ['node-b', 'unread'],
      ['node-c', 'measured'],
    ]);
    expect(report.nodes[1]?.reason).toEqual(reason);
    expect(sum(endpoints.map(address => newOnes(report, address) ?? 0))).toBeCloseTo(30, -1);
    for (const address of endpoints) expect(onNode(report, 'node-b')[address]).toBeUndefined();
  });

  test('a node whose connection broke is counted again, and its new session lasts', async () => {
    const {faults, requests, kubeconfig} = load.cluster.api;
    using top = new OnTerminal(['top', 'shop/web', '--interval', '1s'], kubeconfig);
    await expect.poll(() => top.output).toMatch(/on 3 nodes/);
    faults.push({kind: 'reset', match: /node-b.*conntrack/, times: 1});
    await expect.poll(() => top.output).toMatch(/node-b: not read/);
    const seen = requests.length;
    const rounds = () => top.output.split('q quits').length;
    const before = rounds();
    await expect.poll(rounds).toBeGreaterThan(before + 12);
    const sessions = requests.slice(seen).filter(({path}) => /node-b\/exec$/.test(path));
    expect(sessions.length).toBeLessThanOrEqual(2);
    expect(top.output.split('q quits').slice(-3, -1).join('')).not.toMatch(/not read/);
  });

  test('a kube-proxy that writes its chains again between the reads leaves no rate, and it is said', async () => {
    const report = await load.top(['--interval', '6s'], async () => {
      await load.connect(20);
      load.cluster.node('node-a').heal();
      await load.connect(60);
    });
    for (const address of endpoints) expect(newOnes(report, address)).toBeNull();
    expect(report.nodes.find(({name}) => name === 'node-a')).toMatchObject({
      ...{status: 'partial', reason: expect.stringMatching(/kube-proxy rewrote its chains|whether it reset these counters is not known/)},
    });
    expect(report.nodes.find(({name}) => name === 'node-b')).toMatchObject({status: 'measured'});
    expect(sum(endpoints.map(address => onNode(report, 'node-a')[address]?.totalConnections ?? 0))).toBe(60);
  });

  test('connections to an endpoint that was removed are told from the others', async () => {
    replaceEndpoint(load.cluster, 'web', '10.244.11.99');
    const report = await load.run(['--once']);
    const row = report.services[0]?.endpoints[0];
    const gone = row?.endpoint.split(':')[0] ?? '';
    expect(row?.state).toBe('stale');
    expect(endpoints).toContain(gone);
    const open = onNode(report, 'node-a')[gone]?.openConnections ?? 0;
    expect(open).toBeGreaterThan(0);
    expect(report.findings).toEqual([
      expect.objectContaining({
        code: 'ST513',
        node: 'node-a',
        message: expect.stringContaining(`still open to ${gone}:8080, which is no endpoint`),
      }),
    ]);
  });
});

describeWith(clusterNeeds, 'top of a live cluster in IPv6', () => {
  let load: Load;
  beforeAll(async () => {
    load = await Load.open('healthy/1.30-iptables', six);
  });
  afterAll(() => load?.[Symbol.asyncDispose]());

  test('counts exactly what each endpoint was given, by ip6tables, and what of it is open, by conntrack', async () => {
    const report = await load.top(['--interval', '6s'], async () => {
      await load.connect(100);
      await load.connect(10, 10);
    });
    const cells = onNode(report, 'node-a');
    expect(sum(load.served.values())).toBe(110);
    for (const address of six.endpoints)
      expect(cells[address]).toMatchObject({totalConnections: load.served.get(address), expectedShare: expect.closeTo(0.5, 6)});
    expect(sum(six.endpoints.map(address => cells[address]?.openConnections ?? 0))).toBe(10);
    expect(sum(six.endpoints.map(address => cells[address]?.closingConnections ?? 0))).toBe(100);
  });
});

describeWith([...clusterNeeds, 'nft'], 'top of a live cluster in nftables mode', () => {
  let load: Load;
  beforeAll(async () => {
    load = await Load.open('nftables/1.36');
  });
  afterAll(() => load?.[Symbol.asyncDispose]());

  test('counts new connections by conntrack alone, exactly', async () => {
    await load.connect(40);
    load.served.clear();
    const report = await load.top(['--interval', '6s', '--node', 'node-a'], async () => {
      await load.connect(120);
      await load.connect(12, 12);
    });
    const cells = onNode(report, 'node-a');
    expect(sum(load.served.values())).toBe(132);
    for (const address of endpoints) {
      expect(newOnes(report, address), address).toBeCloseTo(load.served.get(address) ?? 0, 0);
      expect(cells[address]).toMatchObject({totalConnections: null, expectedShare: expect.closeTo(1 / 3, 6)});
    }
    expect(sum(endpoints.map(address => cells[address]?.openConnections ?? 0))).toBe(12);
    expect(report.nodes.map(({status, source}) => ({status, source}))).toEqual(
      report.nodes.map(() => ({status: 'measured', source: ['conntrack']})),
    );
  });
});
