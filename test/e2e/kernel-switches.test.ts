import {spawnSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import {type NodeDump, noObjects, type Snapshot} from '../../src/model/snapshot.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {seededRandom} from '../bench/random.ts';
import {endpoint, service, slice} from '../cluster.ts';
import {withRules} from '../rendered-dump.ts';
import {describeWith} from '../require.ts';
import {Namespace, readNode} from './kernel/namespace.ts';

/** pod-1 is the only endpoint of shop/one, pod-2 that of shop/two. Both are ports of the bridge of node-a. */
const services = [
  service('shop/one', {clusterIP: '10.96.1.1', clusterIPs: ['10.96.1.1'], ports: [{port: 80, targetPort: 8080, protocol: 'TCP'}]}),
  service('shop/two', {
    ...{type: 'NodePort', clusterIP: '10.96.1.2', clusterIPs: ['10.96.1.2']},
    ports: [{port: 80, targetPort: 8080, nodePort: 30080, protocol: 'TCP'}],
  }),
];
const endpointSlices = [
  slice('shop/one', [{...endpoint('10.244.11.2', 'node-a'), targetRef: {kind: 'Pod', namespace: 'shop', name: 'pod-1'}}]),
  slice('shop/two', [{...endpoint('10.244.11.3', 'node-a'), targetRef: {kind: 'Pod', namespace: 'shop', name: 'pod-2'}}]),
];
const node = {
  metadata: {name: 'node-a'},
  spec: {podCIDR: '10.244.11.0/24', podCIDRs: ['10.244.11.0/24']},
  status: {addresses: [{type: 'InternalIP', address: '192.0.2.1'}], nodeInfo: {kubeProxyVersion: 'v1.36.0', kernelVersion: '6.12.0'}},
};
const api = {...noObjects, services, endpointSlices, nodes: [node], pods: []} as Snapshot['api'];

const usual = {
  'net.ipv4.ip_forward': 1,
  // As kube-proxy sets it when it starts.
  'net.ipv4.conf.all.route_localnet': 1,
  'net.bridge.bridge-nf-call-iptables': 1,
  'net.ipv4.conf.all.rp_filter': 0,
  'net.ipv4.conf.eth0.rp_filter': 0,
  'net.ipv4.ip_local_port_range': '32768 60999',
};

describeWith(['root', 'netns', 'nsenter', 'ip', 'conntrack', 'sysctl', 'iptables-nft-restore'], 'a switch of the kernel', () => {
  let host: Namespace;
  let pods: readonly Namespace[];
  let outside: Namespace;

  beforeAll(async () => {
    [host, outside, ...pods] = (await Promise.all([Namespace.open(), Namespace.open(), Namespace.open(), Namespace.open()])) as [
      Namespace,
      Namespace,
      ...Namespace[],
    ];
    const veths = pods.flatMap((pod, at) => [
      `link add veth${at + 1} type veth peer name eth0 netns ${pod.pid}`,
      `link set veth${at + 1} master cni0`,
      `link set veth${at + 1} up`,
    ]);
    host.ip(
      [
        'link set lo up',
        'link add cni0 type bridge',
        'address add 10.244.11.1/24 dev cni0',
        'link set cni0 up',
        ...veths,
        ...['eth0', 'eth1'].map(name => `link add ${name} type veth peer name ${name} netns ${outside.pid}`),
        'address add 192.0.2.1/24 dev eth0',
        'address add 203.0.113.1/24 dev eth1',
        'link set eth0 up',
        'link set eth1 up',
        'route add default via 192.0.2.2',
      ].join('\n'),
    );
    for (const [at, pod] of pods.entries()) {
      pod.ip(`link set lo up\nlink set eth0 up\naddress add 10.244.11.${at + 2}/24 dev eth0\nroute add default via 10.244.11.1`);
      await pod.listen([8080]);
    }
    const addresses = ['192.0.2.2/24 dev eth0', '203.0.113.2/24 dev eth1', '198.51.100.7/32 dev lo'];
    outside.ip(['link set lo up', 'link set eth0 up', 'link set eth1 up', ...addresses.map(text => `address add ${text}`)].join('\n'));
    outside.run('sysctl', ['-qw', 'net.ipv4.conf.all.rp_filter=0', 'net.ipv4.conf.eth0.rp_filter=0', 'net.ipv4.conf.eth1.rp_filter=0']);
    await outside.listen([9000]);
    const rules = withRules({origin: '', api, problems: [], nodes: [{name: 'node-a', files: [], read: () => null}]}, seededRandom(1));
    host.run('iptables-nft-restore', [], rules.nodes[0]?.read('iptables-save')?.toString() ?? '');
  });

  afterAll(async () => {
    for (const place of [host, outside, ...pods]) await place?.[Symbol.asyncDispose]();
  });

  function set(changes: Readonly<Record<string, string | number>>): void {
    host.run('sysctl', ['-qw', ...Object.entries({...usual, ...changes}).map(([name, value]) => `${name}=${value}`)]);
    host.run('conntrack', ['-F']);
  }

  let sourcePort = 20_000;

  async function reaches(from: Namespace, source: string, destination: string, port: number): Promise<boolean> {
    sourcePort++;
    const [sight] = await from.send([{protocol: 'tcp', source, sourcePort, destination, port}], 800);
    return sight === 'connected';
  }

  /** pod-1 to the Service of pod-2 on the same bridge, and to its own; a client outside to the node port. */
  const paths = {
    toNeighbor: () => reaches(pods[0] as Namespace, '10.244.11.2', '10.96.1.2', 80),
    toItself: () => reaches(pods[0] as Namespace, '10.244.11.2', '10.96.1.1', 80),
    fromOutside: () => reaches(outside, '192.0.2.2', '192.0.2.1', 30_080),
  };

  async function seen(): Promise<Readonly<Record<keyof typeof paths, boolean>>> {
    return {toNeighbor: await paths.toNeighbor(), toItself: await paths.toItself(), fromOutside: await paths.fromOutside()};
  }

  async function read(): Promise<Snapshot> {
    return {origin: '', api, nodes: [await readNode(host)], problems: []};
  }

  async function found(): Promise<readonly Finding[]> {
    return diagnose(await read(), {toolVersion: '0.0.0'}).findings.filter(({code}) => code.startsWith('ST6'));
  }

  const codes = async () => [...new Set((await found()).map(({code}) => code))];
  const messages = async () => (await found()).map(({code, message}) => `${code} ${message}`);

  async function asked(source: string, destination: string, port: string): Promise<readonly string[]> {
    const [answer] = askNodes({source, destination, port}, await read(), () => true);
    return [...new Set(answer?.outcomes.map(({verdict}) => verdict))];
  }

  const hairpin = (value: 'on' | 'off') => host.run('bridge', ['link', 'set', 'dev', 'veth1', 'hairpin', value]);
  const both = () => {
    hairpin('on');
    host.run('bridge', ['link', 'set', 'dev', 'veth2', 'hairpin', 'on']);
  };

  test('on a healthy node everything connects, and no check fires', async () => {
    both();
    set({});
    expect(await seen()).toEqual({toNeighbor: true, toItself: true, fromOutside: true});
    expect(await codes()).toEqual([]);
    expect(await asked('192.0.2.2', '192.0.2.1', '30080')).toEqual(['accept']);
  });

  test('forwarding off: no pod is reached by a Service, and ST601 fires', async () => {
    both();
    set({'net.ipv4.ip_forward': 0});
    expect(await seen()).toEqual({toNeighbor: false, toItself: false, fromOutside: false});
    expect(await codes()).toEqual(['ST601']);
    expect(await asked('10.244.11.2', '10.96.1.2', '80')).toEqual(['drop']);
    expect(await asked('192.0.2.2', '192.0.2.1', '30080')).toEqual(['drop']);
  });

  test("forwarding off on the bridge of the node's pods alone: their packets and replies are lost, and ST601 names the bridge", async () => {
    both();
    set({'net.ipv4.conf.cni0.forwarding': 0});
    expect(await seen()).toEqual({toNeighbor: false, toItself: false, fromOutside: false});
    expect(await messages()).toEqual([expect.stringContaining('net.ipv4.conf.cni0.forwarding is 0: packets that arrive there')]);
    expect(await asked('10.244.11.2', '10.96.1.2', '80')).toEqual(['drop']);
    expect(await asked('192.0.2.2', '192.0.2.1', '30080')).toEqual(['drop']);
    set({'net.ipv4.conf.cni0.forwarding': 1});
    expect(await codes()).toEqual([]);
  });

  test('bridge-nf-call-iptables off: a pod does not reach its neighbor by a Service, and ST602 fires', async () => {
    both();
    set({'net.bridge.bridge-nf-call-iptables': 0});
    expect(await seen()).toEqual({toNeighbor: false, toItself: true, fromOutside: true});
    expect(await codes()).toEqual(['ST602']);
  });

  test('hairpin mode off: a pod does not reach itself by its Service, and ST603 fires', async () => {
    both();
    hairpin('off');
    set({});
    expect(await seen()).toEqual({toNeighbor: true, toItself: false, fromOutside: true});
    expect(await codes()).toEqual(['ST603']);
  });

  // The limit is one for all namespaces, and only the first may set it. `conntrack -R` is of conntrack-tools 1.4.7.
  const limit = Number(readFileSync('/proc/sys/net/netfilter/nf_conntrack_max', 'utf8'));
  const canFill = limit <= 600_000 && /v1\.4\.(?:[7-9]|\d\d)/.test(spawnSync('conntrack', ['--version'], {encoding: 'utf8'}).stdout);

  test.skipIf(!canFill)('a full table of connections: clients are dropped, and ST605 and ST606 fire', async () => {
    both();
    set({});
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-full-'));
    const entry = (at: number) =>
      `-I -p tcp -s 10.${1 + (at >> 16)}.${(at >> 8) & 255}.${at & 255} -d 10.200.0.1 --sport 4000 --dport 80 --state ESTABLISHED -t 600 -u ASSURED,SEEN_REPLY\n`;
    writeFileSync(join(folder, 'entries'), Array.from({length: limit}, (_, at) => entry(at)).join(''));
    // It ends where the table is full, which may have had entries.
    const [nsenter, ...into] = host.enter;
    spawnSync(nsenter, [...into, 'conntrack', '-R', join(folder, 'entries')]);
    expect(Number(host.run('conntrack', ['-C']))).toBeGreaterThanOrEqual(limit);
    rmSync(folder, {recursive: true});
    const before = await readNode(host);
    // The kernel first gives up the few entries that had no reply.
    const sights: boolean[] = [];
    while (sights.length < 12 && sights.at(-1) !== false) sights.push(await paths.fromOutside());
    expect(sights.at(-1)).toBe(false);
    const after = host.run('conntrack', ['-S']);
    const read = (file: string) => (file === 'conntrack-stats-after' ? Buffer.from(after) : before.read(file));
    const node: NodeDump = {name: before.name, files: [...before.files, 'conntrack-stats-after'], read};
    const found = diagnose({origin: '', api, nodes: [node], problems: []}, {toolVersion: '0.0.0'}).findings;
    const said = found.filter(({code}) => code.startsWith('ST6')).map(({code, severity, message}) => `${code} ${severity} ${message}`);
    expect(said).toEqual([
      expect.stringMatching(`^ST605 error ${limit} connections are tracked, and nf_conntrack_max allows ${limit}`),
      // Other packets may have been dropped before the node was read.
      expect.stringMatching(/^ST606 warning .*drop from \d+ to [1-9]/),
    ]);
    host.run('conntrack', ['-F']);
    expect(await paths.fromOutside()).toBe(true);
    expect(await codes()).toEqual([]);
  });

  describe('with a policy rule that routes the packets of pod-2 by another interface than the one that clients come in by', () => {
    // As the network plugin of AWS does: what goes to pods is looked up before.
    const own = ['rule add to 10.244.11.0/24 lookup main pref 512', 'rule add from 10.244.11.3 lookup 2 pref 1536'];
    beforeAll(() => host.ip(['route add default via 203.0.113.2 dev eth1 table 2', ...own].join('\n')));
    afterAll(() => host.ip('rule delete pref 512\nrule delete pref 1536'));

    test.each([
      {name: 'rp_filter strict: clients are dropped, and ST604 fires', value: 1, connects: false, found: ['ST604']},
      // The network outside takes answers from any interface, which the node cannot know.
      {name: 'rp_filter loose: clients connect here, and ST604 warns of other networks', value: 2, connects: true, found: ['ST604']},
      {name: 'rp_filter off: clients connect here, and ST604 warns of other networks', value: 0, connects: true, found: ['ST604']},
    ])('$name', async ({value, connects, found}) => {
      both();
      set({'net.ipv4.conf.all.rp_filter': value});
      expect(await reaches(outside, '198.51.100.7', '192.0.2.1', 30_080)).toBe(connects);
      expect(await codes()).toEqual(found);
    });
  });

  test('node ports among the ports of the node: a Service gets the packets of a process that listens there, and ST607 fires', async () => {
    both();
    set({'net.ipv4.ip_local_port_range': '30080 60999'});
    expect(await codes()).toEqual(['ST607']);
    await host.listen([30_080]);
    expect(await paths.fromOutside()).toBe(true);
    expect(host.run('conntrack', ['-L', '-p', 'tcp', '--orig-port-dst', '30080'])).toContain('src=10.244.11.3 dst=');
    // Tracking recognizes the replies to what the node itself sent.
    const own = {protocol: 'tcp', source: '192.0.2.1', sourcePort: 30_081, destination: '192.0.2.2', port: 9000} as const;
    expect(await host.send([own], 800)).toEqual(['connected']);
  });
});
