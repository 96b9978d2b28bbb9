import {release} from 'node:os';
import {join} from 'node:path';
import {collectNode} from '../../src/collect/node/collect-node.ts';
import {CommandFailed, type Transport} from '../../src/collect/node/transport.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import {families, type Family, parseAddress} from '../../src/model/address.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../cluster.ts';
import {Namespace} from '../e2e/kernel/namespace.ts';
import {withPrintedRules} from '../e2e/kernel/printed-rules.ts';
import {inFamily} from './in-family.ts';
import type {Scenario, Step} from './steps.ts';

/** `nft` and `legacy`: kube-proxy in iptables mode, by backend. */
const modes = ['nft', 'legacy', 'nftables'] as const;
export type Mode = (typeof modes)[number];

/** A cluster of one family. */
export interface Cluster {
  readonly mode: Mode;
  readonly family: Family;
  /** The network plugin gives out addresses: the Nodes have no podCIDR, and kube-proxy has no clusterCIDR. */
  readonly hasNoPodCIDRs?: true;
}

export const clusters: readonly Cluster[] = families.flatMap(family => [
  ...modes.map(mode => ({mode, family})),
  ...(['nft', 'nftables'] as const).map(mode => ({mode, family, hasNoPodCIDRs: true}) as const),
]);

export function clusterName({mode, family, hasNoPodCIDRs}: Cluster): string {
  return `${mode}${family === 'IPv4' ? '' : '-ipv6'}${hasNoPodCIDRs === true ? '-no-cidrs' : ''}`;
}

/** Who sends, and from which node's view its packets start. */
const senders = {
  pod4: {address: '10.244.11.4', node: 'node-a'},
  pod5: {address: '10.244.11.5', node: 'node-a'},
  'node-a': {address: '172.18.0.11', node: 'node-a'},
  'far-pod': {address: '10.244.12.4', node: 'node-b'},
  'far-peer': {address: '10.244.12.5', node: 'node-b'},
  'node-b': {address: '172.18.0.12', node: 'node-b'},
  client: {address: '203.0.113.9', node: 'node-a'},
} as const;
type Sender = keyof typeof senders;

const serviceOf = {
  web: {address: '10.96.1.1', endpoints: ['10.244.11.4', '10.244.12.4']},
  api: {address: '10.96.1.2', endpoints: ['10.244.11.5']},
  np: {address: '10.96.1.3', endpoints: ['10.244.11.4', '10.244.12.4'], nodePort: 30_080},
  lb: {address: '10.96.1.4', endpoints: ['10.244.11.4', '10.244.12.4'], nodePort: 30_081, ingress: '198.51.100.10'},
  far: {address: '10.96.1.5', endpoints: ['10.244.12.4']},
  // Endpoints in the network of their nodes, as those of node-exporter.
  host: {address: '10.96.1.6', endpoints: ['172.18.0.11', '172.18.0.12']},
} as const;

/** Connections from one sender to one entry of a Service. */
export interface Flow {
  readonly sender: Sender;
  readonly service: string;
  readonly source: string;
  readonly destination: string;
  readonly port: number;
  /** Where the rules are that it meets first. */
  readonly node: 'node-a' | 'node-b';
  readonly isLocalPolicy: boolean;
}

/** What became of the attempts of a flow: how many ended with each line or error. */
export type Seen = Readonly<Record<string, number>>;

const clusterIPs = Object.entries(serviceOf).map(([name, {address}]) => ({name, destination: address, port: 80}));
const outsideEntries = [
  {name: 'np', destination: '172.18.0.11', port: serviceOf.np.nodePort},
  {name: 'lb', destination: '172.18.0.11', port: serviceOf.lb.nodePort},
  {name: 'lb', destination: serviceOf.lb.ingress, port: 80},
];

/**
 * Each sender to each entry. Clients outside have no way to cluster IPs. Where a pod of node-b asks the other node for a Local Service,
 * kube-proxy may send it to an endpoint of node-b, which answers it straight: the kernel never serves that. What pods of
 * node-b send to an endpoint in the network of node-a is left out: most networks masquerade it.
 */
const flowsOfIPv4: readonly Flow[] = Object.entries(senders).flatMap(([sender, {address, node}]) =>
  [
    ...(sender === 'client' ? [] : clusterIPs.filter(({name}) => !sender.startsWith('far-') || name !== 'host')),
    ...outsideEntries.filter(({port}) => !sender.startsWith('far-') || port !== serviceOf.lb.nodePort),
  ].map(({name, destination, port}) => ({
    ...{sender: sender as Sender, service: `shop/${name}`, source: address, destination, port},
    // What node-b sends to a node port of node-a meets no rule of Services on the way.
    node: destination === '172.18.0.11' ? 'node-a' : node,
    isLocalPolicy: name === 'lb' && destination !== serviceOf.lb.address,
  })),
);

/** The flows of each family: those of IPv6 have addresses that read alike. */
export const flows: Readonly<Record<Family, readonly Flow[]>> = {
  IPv4: flowsOfIPv4,
  IPv6: flowsOfIPv4.map(flow => ({...flow, source: inFamily('IPv6', flow.source), destination: inFamily('IPv6', flow.destination)})),
};

const attempts = 8;
const patience = 900;

/** The endpoints that answered, and the source that each saw last. */
export function endpointsOf(seen: Seen): ReadonlyMap<string, string> {
  return new Map(Object.keys(seen).flatMap(line => (line.includes(' ') ? [line.split(' ') as [string, string]] : [])));
}

/** How many attempts no endpoint answered. */
export function failures(seen: Seen): number {
  return Object.entries(seen).reduce((sum, [line, count]) => (line.includes(' ') ? sum : sum + count), 0);
}

/** What was seen in most of the rounds: in those that lost something, or in those that did not. Losing all or nothing can be chance. */
function usual(rounds: readonly Seen[]): Seen {
  const {lossy = [], whole = []} = Object.groupBy(rounds, seen => (failures(seen) > 0 ? 'lossy' : 'whole'));
  return Object.assign({}, ...(lossy.length > whole.length ? lossy : whole)) as Seen;
}

const podNames: Readonly<Record<string, string>> = {
  ...{'10.244.11.4': 'pod4', '10.244.11.5': 'pod5', '10.244.12.4': 'far-pod', '10.244.12.5': 'far-peer'},
  ...{'172.18.0.11': 'host-a', '172.18.0.12': 'host-b'},
};
const onNodeA: ReadonlySet<string> = new Set(['10.244.11.4', '10.244.11.5', '172.18.0.11']);

const apiOf = ({family, hasNoPodCIDRs}: Cluster): ApiObjects =>
  apiObjects({
    services: Object.entries(serviceOf).map(([name, about]) => {
      const nodePort = 'nodePort' in about ? {nodePort: about.nodePort} : {};
      const local = {externalTrafficPolicy: 'Local', healthCheckNodePort: 32_081};
      return service(
        `shop/${name}`,
        {
          type: 'ingress' in about ? 'LoadBalancer' : 'nodePort' in about ? 'NodePort' : 'ClusterIP',
          ...{clusterIP: inFamily(family, about.address), clusterIPs: [inFamily(family, about.address)], ipFamilies: [family]},
          ports: [{port: 80, protocol: 'TCP', targetPort: 8080, ...nodePort}],
          ...('ingress' in about ? local : 'nodePort' in about ? {externalTrafficPolicy: 'Cluster'} : {}),
        },
        'ingress' in about ? {ingress: [{ip: inFamily(family, about.ingress), ipMode: 'VIP'}]} : {},
      );
    }),
    endpointSlices: Object.entries(serviceOf).map(([name, {endpoints}]) =>
      slice(
        `shop/${name}`,
        endpoints.map(address => ({
          ...endpoint(inFamily(family, address), onNodeA.has(address) ? 'node-a' : 'node-b', {ready: true}),
          targetRef: {kind: 'Pod', namespace: 'shop', name: podNames[address] ?? ''},
        })),
      ),
    ),
    nodes: (['node-a', 'node-b'] as const).map(name => ({
      metadata: {name},
      spec: hasNoPodCIDRs === true ? {} : {podCIDR: inFamily(family, name === 'node-a' ? '10.244.11.0/24' : '10.244.12.0/24')},
      status: {
        addresses: [{type: 'InternalIP', address: parseAddress(inFamily(family, senders[name].address))?.text ?? ''}],
        nodeInfo: {kernelVersion: release()},
      },
    })),
    pods: Object.entries(podNames).map(([address, name]) => ({
      metadata: {name, namespace: 'shop'},
      spec: {
        ...{nodeName: onNodeA.has(address) ? 'node-a' : 'node-b', containers: []},
        ...(name.startsWith('host-') ? {hostNetwork: true} : {}),
      },
      status: {phase: 'Running', podIP: inFamily(family, address), podIPs: [{ip: inFamily(family, address)}]},
    })),
  });

const macs = {
  ...{pod4: '02:00:00:00:00:04', pod5: '02:00:00:00:00:05', 'far-pod': '02:00:00:00:00:06', 'far-peer': '02:00:00:00:00:07'},
  ...{'node-a': '02:00:00:00:00:11', 'node-b': '02:00:00:00:00:12', client: '02:00:00:00:00:01', gateway: '02:ee:ee:ee:ee:ee'},
};

/**
 * Two nodes with pods, and a client outside, each in a network namespace:
 *
 *     pod4 ── cali4 ┐                                ┌ cali4 ── far-pod
 *                   node-a ── eth0 (client) eth0 ── node-b
 *     pod5 ── cali5 ┘                                └ cali5 ── far-peer
 */
export class Laboratory implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly #api: ApiObjects;
  readonly #places: Readonly<Record<Sender, Namespace>>;
  readonly #rules: ReadonlyMap<string, NodeDump>;
  #nodeB: NodeDump | null = null;

  private constructor(cluster: Cluster, places: Readonly<Record<Sender, Namespace>>) {
    this.cluster = cluster;
    this.#api = apiOf(cluster);
    this.#places = places;
    const files = {'kube-proxy-version': 'v1.36.2\n', 'proxy-mode': this.#proxyMode};
    const bare: Snapshot = {
      origin: 'laboratory',
      api: this.#api,
      nodes: ['node-a', 'node-b'].map(name => nodeDump(name, this.#files(name, files))),
      problems: [],
    };
    this.#rules = new Map(
      ['node-a', 'node-b'].flatMap(name =>
        withPrintedRules(bare, name, {})
          .nodes.filter(node => node.name === name)
          .map(node => [name, node] as const),
      ),
    );
  }

  static async open(cluster: Cluster): Promise<Laboratory> {
    const program = join(import.meta.dirname, 'agent.ts');
    const names = Object.keys(senders) as Sender[];
    const opened = await Promise.all(names.map(async name => [name, await Namespace.open([program, name])] as const));
    const laboratory = new Laboratory(cluster, Object.fromEntries(opened) as Record<Sender, Namespace>);
    await laboratory.#build();
    return laboratory;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Object.values(this.#places).map(place => place[Symbol.asyncDispose]()));
  }

  get #proxyMode(): string {
    return this.cluster.mode === 'nftables' ? 'nftables' : 'iptables';
  }

  get #iptables(): string {
    return this.cluster.family === 'IPv4' ? 'iptables' : 'ip6tables';
  }

  get flows(): readonly Flow[] {
    return flows[this.cluster.family];
  }

  /** Removes all rules of the node and loads those of kube-proxy, and then those of the scenario. */
  prepare({load}: Pick<Scenario, 'load'>): void {
    const node = this.#places['node-a'];
    node.run('nft', ['flush', 'ruleset']);
    if (this.cluster.mode === 'legacy') node.run(`${this.#iptables}-legacy-restore`, [], noRules);
    // Sets that are members of others can be destroyed once these are empty.
    node.run('ipset', ['flush']);
    node.run('ipset', ['destroy']);
    this.#loadKubeProxy('node-a');
    if (load.some(({place}) => place === 'node-b')) this.#nodeB = null;
    for (const step of load) this.#take(step);
    for (const place of [node, this.#places['node-b']]) place.run('sh', ['-c', 'conntrack -F 2>/dev/null']);
  }

  /**
   * Sends flows. Those that are lost, or that miss an endpoint of `healthy`, are sent again: that may have been chance. Where the second
   * round differs from the first, a third one decides.
   */
  async send(healthy?: ReadonlyMap<Flow, Seen>): Promise<ReadonlyMap<Flow, Seen>> {
    const first = await this.sendOnce(this.flows);
    const again = this.flows.filter(flow => {
      const seen = first.get(flow) ?? {};
      return failures(seen) > 0 || endpointsOf(seen).size < endpointsOf(healthy?.get(flow) ?? {}).size;
    });
    const second = await this.sendOnce(again);
    const open = again.filter(flow => failures(first.get(flow) ?? {}) > 0 !== failures(second.get(flow) ?? {}) > 0);
    const third = await this.sendOnce(open);
    const rounds = (flow: Flow): readonly Seen[] => [first, second, third].map(round => round.get(flow)).filter(seen => seen !== undefined);
    return new Map(this.flows.map(flow => [flow, usual(rounds(flow))]));
  }

  /** Sends each flow some times, without a second round. */
  async sendOnce(chosen: readonly Flow[]): Promise<ReadonlyMap<Flow, Seen>> {
    const lists = await Promise.all(
      (Object.keys(senders) as Sender[]).map(async sender => {
        const own = chosen.filter(flow => flow.sender === sender);
        const sent = own.flatMap(({source, destination, port}) => Array.from({length: attempts}, () => ({source, destination, port})));
        const lines = await this.#places[sender].send(sent as never, patience);
        return own.map((flow, at) => [flow, lines.slice(at * attempts, (at + 1) * attempts)] as const);
      }),
    );
    return new Map(
      lists
        .flat()
        .map(([flow, lines]) => [
          flow,
          Object.fromEntries([...Map.groupBy(lines, line => line)].map(([line, {length}]) => [line, length])),
        ]),
    );
  }

  /** Both nodes, read as nodes are read. */
  async snapshot(): Promise<Snapshot> {
    this.#nodeB ??= await this.#read('node-b');
    return {origin: 'laboratory', api: this.#api, nodes: [await this.#read('node-a'), this.#nodeB], problems: []};
  }

  async #read(name: 'node-a' | 'node-b'): Promise<NodeDump> {
    const place = this.#places[name];
    const transport: Transport = {
      name: 'namespace',
      open: async () => ({
        description: 'in a namespace',
        run: async ([command = '', ...args]) => {
          const tool = this.cluster.mode === 'legacy' ? command.replace(/^(ip6?tables)-save$/, '$1-legacy-save') : command;
          try {
            return Buffer.from(place.run(tool, args));
          } catch (error) {
            throw new CommandFailed([command, ...args], {exitCode: 1, stderr: String(error)});
          }
        },
        [Symbol.asyncDispose]: async () => {},
      }),
    };
    const info = {name, addresses: [], labels: {}, pods: []};
    // What would be asked of kube-proxy is known, and the laboratory has none.
    const asked = /^(?:kube-proxy|proxy-mode|configz|healthz|metrics)/;
    const options = {signal: new AbortController().signal, timeoutMs: 60_000, wants: (file: string) => !asked.test(file)};
    const dump = await collectNode(info, transport, options);
    const read = Object.fromEntries(dump.files.map(file => [file, dump.read(file)?.toString() ?? '']));
    return nodeDump(name, this.#files(name, {...read, 'kube-proxy-version': 'v1.36.2\n', 'proxy-mode': this.#proxyMode}));
  }

  #files(name: string, files: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    const {family, hasNoPodCIDRs} = this.cluster;
    const config = [
      ...['apiVersion: kubeproxy.config.k8s.io/v1alpha1', 'kind: KubeProxyConfiguration', `mode: ${this.#proxyMode}`],
      ...[`hostnameOverride: ${name}`, `clusterCIDR: '${hasNoPodCIDRs === true ? '' : inFamily(family, '10.244.0.0/16')}'`],
    ];
    return {...files, 'kube-proxy-config.yaml': `${config.join('\n')}\n`};
  }

  #take({tool, text: written, backend = 'own', place}: Step): void {
    const node = this.#places['node-a'];
    const text = inFamily(this.cluster.family, written);
    const own = this.cluster.mode === 'legacy' ? 'legacy' : 'nft';
    const other = own === 'legacy' ? 'nft' : 'legacy';
    const pids = `NODE_B=${this.#places['node-b'].pid} CLIENT=${this.#places.client.pid}`;
    if (tool === 'iptables') node.run(`${this.#iptables}-${backend === 'own' ? own : other}-restore`, ['--noflush'], text);
    else if (tool === 'nft') node.run('nft', ['-f', '-'], text);
    else if (tool === 'ipset') node.run('ipset', ['restore'], text);
    else (place === undefined ? node : this.#places[place]).run('sh', ['-e'], `${pids}\n${text}`);
  }

  #loadKubeProxy(name: 'node-a' | 'node-b'): void {
    const rules = this.#rules.get(name);
    for (const file of rules?.files ?? []) {
      const text = rules?.read(file)?.toString() ?? '';
      if (file === 'nft.json') this.#places[name].run('nft', ['-f', '-'], text);
      else if (file === `${this.#iptables}-save`) this.#places[name].run(`${this.#iptables}-${this.cluster.mode}-restore`, [], text);
    }
  }

  async #build(): Promise<void> {
    const {pod4, pod5, client, 'node-a': nodeA, 'node-b': nodeB, 'far-pod': farPod, 'far-peer': farPeer} = this.#places;
    const {family} = this.cluster;
    const ip = (place: Namespace, ...lines: readonly string[]): void => place.ip(inFamily(family, lines.join('\n')));
    // Rules that drop everything would also drop what asks for the neighbours.
    const isDuplicateChecked = family === 'IPv4' ? '' : ' nodad';
    for (const place of Object.values(this.#places)) place.run('sysctl', ['-qw', ...kernel[family].everywhere]);
    for (const place of [nodeA, nodeB, client]) place.run('sysctl', ['-qw', ...kernel[family].routers]);
    ip(client, 'link set lo up', `link add br0 address ${macs.client} type bridge`, 'link set br0 up');
    ip(client, `address add 172.18.0.1/16 dev br0${isDuplicateChecked}`, `address add 203.0.113.9/32 dev lo`);
    for (const [node, name] of [
      [nodeA, 'node-a'],
      [nodeB, 'node-b'],
    ] as const) {
      ip(client, `link add ${name} type veth peer name eth0 address ${macs[name]} netns ${node.pid}`, `link set ${name} master br0 up`);
      ip(node, 'link set lo up', 'link set eth0 up', `address add ${senders[name].address}/16 dev eth0${isDuplicateChecked}`);
      ip(node, 'route add default via 172.18.0.1 dev eth0', `neighbour add 172.18.0.1 lladdr ${macs.client} dev eth0 nud permanent`);
      ip(client, `neighbour add ${senders[name].address} lladdr ${macs[name]} dev br0 nud permanent`);
    }
    ip(nodeA, `neighbour add ${senders['node-b'].address} lladdr ${macs['node-b']} dev eth0 nud permanent`);
    ip(nodeB, `neighbour add ${senders['node-a'].address} lladdr ${macs['node-a']} dev eth0 nud permanent`);
    ip(client, 'route add 198.51.100.10 via 172.18.0.11 src 203.0.113.9', 'route replace 172.18.0.11 dev br0 src 203.0.113.9');
    ip(nodeA, 'route add 203.0.113.9 via 172.18.0.1', 'route add 10.244.12.0/24 via 172.18.0.12');
    ip(nodeB, 'route add 203.0.113.9 via 172.18.0.1', 'route add 10.244.11.0/24 via 172.18.0.11');
    for (const [node, pod, link, name] of [
      [nodeA, pod4, 'cali4', 'pod4'],
      [nodeA, pod5, 'cali5', 'pod5'],
      [nodeB, farPod, 'cali4', 'far-pod'],
      [nodeB, farPeer, 'cali5', 'far-peer'],
    ] as const) {
      const {address} = senders[name];
      const peer = `peer name eth0 address ${macs[name]} netns ${pod.pid}`;
      ip(node, `link add ${link} address ${macs.gateway} type veth ${peer}`, `link set ${link} up`);
      ip(node, `route add ${address} dev ${link}`, `neighbour add ${address} lladdr ${macs[name]} dev ${link} nud permanent`);
      ip(pod, 'link set lo up', 'link set eth0 up', `address add ${address}/32 dev eth0${isDuplicateChecked}`);
      ip(pod, 'route add 169.254.1.1 dev eth0', `neighbour add 169.254.1.1 lladdr ${macs.gateway} dev eth0 nud permanent`);
      ip(pod, 'route add default via 169.254.1.1 dev eth0');
    }
    await Promise.all([pod4, pod5, farPod, nodeA, nodeB].map(place => place.listen([8080])));
    this.#loadKubeProxy('node-b');
  }
}

/** Switches of the kernel: everywhere, and where packets are forwarded. */
const kernel: Readonly<Record<Family, {readonly everywhere: readonly string[]; readonly routers: readonly string[]}>> = {
  IPv4: {
    everywhere: ['net.ipv4.icmp_ratemask=0'],
    routers: [
      ...['net.ipv4.ip_forward=1', 'net.ipv4.conf.all.rp_filter=0', 'net.ipv4.conf.default.rp_filter=0'],
      ...['net.ipv4.conf.all.send_redirects=0', 'net.ipv4.conf.default.send_redirects=0', 'net.ipv4.conf.all.route_localnet=1'],
    ],
  },
  IPv6: {
    everywhere: [
      ...['net.ipv6.icmp.ratelimit=0', 'net.ipv6.conf.all.accept_dad=0', 'net.ipv6.conf.default.accept_dad=0'],
      ...['net.ipv6.conf.all.accept_redirects=0', 'net.ipv6.conf.default.accept_redirects=0'],
    ],
    routers: ['net.ipv6.conf.all.forwarding=1'],
  },
};

const noRules = [
  'raw PREROUTING OUTPUT',
  'mangle PREROUTING INPUT FORWARD OUTPUT POSTROUTING',
  'nat PREROUTING INPUT OUTPUT POSTROUTING',
  'filter INPUT FORWARD OUTPUT',
  'security INPUT FORWARD OUTPUT',
]
  .map(line => line.split(' '))
  .map(([table, ...chains]) => `*${table}\n${chains.map(chain => `:${chain} ACCEPT [0:0]\n`).join('')}COMMIT\n`)
  .join('');
