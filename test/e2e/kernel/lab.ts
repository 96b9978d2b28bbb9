import type {Flow, Sight} from './agent.ts';
import {type Connection, flowKey, readConnections} from './connections.ts';
import {type PathOutcome, pathOutcomeOf} from './outcome.ts';
import {Namespace} from './namespace.ts';

/** Where packets come from: the node under test, its pods, or everybody else, who all are one neighbour. */
export type Place = 'node' | 'pods' | 'outside';

export interface LabSettings {
  /** 11 is node-a: it has 172.18.0.11 and its pods 10.244.11.x. */
  readonly number: number;
  /** The node's interface to its pods. */
  readonly podInterface: string;
  /** Addresses that the node has besides. */
  readonly addresses: readonly string[];
  /** Ports at which the node itself answers. */
  readonly ports: readonly number[];
}

/** A packet that was sent, with its outcome. */
export interface Sent {
  readonly flow: PlacedFlow;
  /** The node's conntrack entry of it; null when there is none. */
  readonly connection: Connection | null;
  readonly pathOutcome: PathOutcome;
}

/**
 * A node, its pods and the rest of the world, each in a network namespace:
 *
 *     outside (172.18.0.1, the other nodes and their pods, clients) ── eth0 node podInterface ── pods
 *
 * Pods and external hosts never answer, so a conntrack entry is still there when it is read, and a packet that is refused was
 * refused by a rule. The node itself answers at all ports that anything is sent to, for the same reason.
 */
export class Lab implements AsyncDisposable {
  readonly #places: Readonly<Record<Place, Namespace>>;
  readonly #own = new Set<string>();
  #port = firstPort;

  private constructor(places: Readonly<Record<Place, Namespace>>) {
    this.#places = places;
  }

  static async open(settings: LabSettings): Promise<Lab> {
    const [node, pods, outside] = await Promise.all([Namespace.open(), Namespace.open(), Namespace.open()]);
    const lab = new Lab({node, pods, outside});
    try {
      await lab.#build(settings);
    } catch (error) {
      await lab[Symbol.asyncDispose]();
      throw error;
    }
    return lab;
  }

  get node(): Namespace {
    return this.#places.node;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Object.values(this.#places).map(place => place[Symbol.asyncDispose]()));
  }

  /** A source port that no other flow has, and that no Service listens at. */
  freshPort(): number {
    this.#port = this.#port === 29_999 ? 33_000 : this.#port >= 65_535 ? firstPort : this.#port + 1;
    return this.#port;
  }

  /**
   * Sends all flows and returns the outcome of each. One that seems to be lost is sent again with a longer timeout: an IPv6 refusal
   * that comes while `connect` is still at work is told only when the packet is sent a second time, after a second.
   */
  async send(flows: readonly PlacedFlow[]): Promise<readonly Sent[]> {
    const usual = (await this.#sendAgain(flows.filter(({isDrawn}) => !isDrawn))).values();
    // Shorter than the second after which TCP sends by itself again.
    const drawn = (
      await this.#sendOnce(
        flows.filter(({isDrawn}) => isDrawn),
        300,
      )
    ).values();
    return flows.flatMap(({isDrawn}) => (isDrawn ? drawn : usual).next().value ?? []);
  }

  async #sendAgain(flows: readonly PlacedFlow[]): Promise<readonly Sent[]> {
    const sent = await this.#sendOnce(flows, 10);
    const again = sent.filter(({pathOutcome}) => pathOutcome === 'drop').map(({flow}) => ({...flow, sourcePort: this.freshPort()}));
    const patience = again.some(({source}) => source.includes(':')) ? 1500 : 300;
    const second = (again.length === 0 ? [] : await this.#sendOnce(again, patience)).values();
    return sent.map(first => (first.pathOutcome === 'drop' ? (second.next().value ?? first) : first));
  }

  async #sendOnce(flows: readonly PlacedFlow[], patience: number): Promise<readonly Sent[]> {
    const sights = new Map<PlacedFlow, Sight>();
    await Promise.all(
      (['node', 'pods', 'outside'] as const).map(async place => {
        const own = flows.filter(({from}) => from === place);
        const seen = await this.#places[place].send(own, patience);
        for (const [at, flow] of own.entries()) sights.set(flow, seen[at] ?? 'silent');
      }),
    );
    const connections = readConnections(this.node);
    return flows.map(flow => {
      const connection = connections.get(flowKey(flow)) ?? null;
      return {flow, connection, pathOutcome: pathOutcomeOf(flow, {sight: sights.get(flow) ?? 'silent', connection, onNode: this.#own})};
    });
  }

  async #build(settings: LabSettings): Promise<void> {
    const {node, pods, outside} = this.#places;
    await Promise.all([node.write(nodeSettings), ...[pods, outside].map(place => place.write(thirdPartySettings))]);
    node.ip(nodeCommands(settings, {pods: pods.pid, outside: outside.pid}));
    pods.ip(podCommands(settings));
    outside.ip(outsideCommands(settings));
    for (const place of [pods, outside]) for (const tool of ['iptables-nft-restore', 'ip6tables-nft-restore']) place.run(tool, [], silence);
    await node.listen(settings.ports);
    const links = JSON.parse(node.run('ip', ['-j', 'address'])) as readonly {readonly addr_info: readonly {readonly local: string}[]}[];
    for (const {local} of links.flatMap(link => link.addr_info)) this.#own.add(local);
  }
}

const silence = `*filter
-A INPUT -p tcp --syn -j DROP
-A INPUT -p udp -j DROP
COMMIT
`;

export interface PlacedFlow extends Flow {
  readonly from: Place;
  /** It may be dropped by chance: sent again, the random match would be evaluated again. */
  readonly isDrawn: boolean;
}

const firstPort = 10_300;

const nodeSettings = {
  '/proc/sys/net/ipv4/ip_forward': '1',
  '/proc/sys/net/ipv6/conf/all/forwarding': '1',
  '/proc/sys/net/ipv4/conf/all/route_localnet': '1',
  '/proc/sys/net/ipv4/conf/all/rp_filter': '0',
  '/proc/sys/net/ipv4/conf/default/rp_filter': '0',
  '/proc/sys/net/ipv4/conf/all/send_redirects': '0',
  '/proc/sys/net/ipv4/conf/default/send_redirects': '0',
  // The kernel must report every refusal, not only a few per second.
  '/proc/sys/net/ipv4/icmp_ratemask': '0',
  '/proc/sys/net/ipv6/icmp/ratelimit': '0',
} as const;

const thirdPartySettings = {
  '/proc/sys/net/ipv4/conf/all/rp_filter': '0',
  '/proc/sys/net/ipv4/conf/default/rp_filter': '0',
  '/proc/sys/net/ipv4/conf/all/route_localnet': '1',
  '/proc/sys/net/ipv6/ip_nonlocal_bind': '1',
} as const;

const macs = {node: '02:00:00:00:00:01', outside: '02:00:00:00:00:02', nodeToPods: '02:00:00:00:00:03', pods: '02:00:00:00:00:04'};

function nodeCommands({number, podInterface, addresses}: LabSettings, pids: {readonly pods: number; readonly outside: number}): string {
  return `
    link set lo up
    link add eth0 address ${macs.node} type veth peer name eth0 address ${macs.outside} netns ${pids.outside}
    link add ${podInterface} address ${macs.nodeToPods} type veth peer name eth0 address ${macs.pods} netns ${pids.pods}
    link set eth0 up
    link set ${podInterface} up
    address add 172.18.0.${number}/16 dev eth0
    address add fd00:172:18::${number}/64 dev eth0 nodad
    address add 10.244.${number}.1/32 dev ${podInterface}
    address add fd00:10:244:${number}::1/128 dev ${podInterface} nodad
    ${addresses.map(address => `address add ${address} dev lo`).join('\n')}
    ${['172.18.0.1', 'fd00:172:18::1', ...otherNodes(number).map(other => `172.18.0.${other}`)]
      .map(address => `neighbour add ${address} lladdr ${macs.outside} dev eth0 nud permanent`)
      .join('\n')}
    neighbour add 10.244.${number}.254 lladdr ${macs.pods} dev ${podInterface} nud permanent
    neighbour add fd00:10:244:${number}::2 lladdr ${macs.pods} dev ${podInterface} nud permanent
    route add default via 172.18.0.1
    route add default via fd00:172:18::1
    route add 10.244.${number}.254/32 dev ${podInterface}
    route add 10.244.${number}.0/24 via 10.244.${number}.254
    route add fd00:10:244:${number}::2/128 dev ${podInterface}
    route add fd00:10:244:${number}::/64 via fd00:10:244:${number}::2
  `;
}

/** All pods of the node, in one: every address of theirs but the node's own, which is the first. */
function podCommands({number}: LabSettings): string {
  return `
    link set lo up
    link set eth0 up
    address add 10.244.${number}.254/32 dev eth0
    address add fd00:10:244:${number}::2/128 dev eth0 nodad
    ${[4, 8, 16, 32, 64, 128].map(first => `route add local 10.244.${number}.${first}/${32 - Math.log2(first)} dev lo`).join('\n')}
    route add local fd00:10:244:${number}::8/125 dev lo
    route add local fd00:10:244:${number}::1:0/112 dev lo
    neighbour add 10.244.${number}.1 lladdr ${macs.nodeToPods} dev eth0 nud permanent
    neighbour add fd00:10:244:${number}::1 lladdr ${macs.nodeToPods} dev eth0 nud permanent
    route add 10.244.${number}.1/32 dev eth0
    route add fd00:10:244:${number}::1/128 dev eth0
    route add default via 10.244.${number}.1
    route add default via fd00:10:244:${number}::1
  `;
}

/** The rest of the world sends everything that is not its own to the node, even what is meant for 127.0.0.1. */
function outsideCommands({number}: LabSettings): string {
  const others = otherNodes(number);
  const own = ['198.18.77.0/24', '192.0.2.0/24', '198.51.100.128/25', '203.0.113.3/32', '2001:db8::/32'];
  const pods = others.flatMap(other => [`10.244.${other}.0/24`, `fd00:10:244:${other}::/64`]);
  return `
    link set lo up
    link set eth0 up
    address add 172.18.0.1/16 dev eth0
    address add fd00:172:18::1/64 dev eth0 nodad
    ${others.map(other => `address add 172.18.0.${other}/32 dev eth0`).join('\n')}
    ${[...own, ...pods].map(network => `route add local ${network} dev lo`).join('\n')}
    neighbour add 172.18.0.${number} lladdr ${macs.node} dev eth0 nud permanent
    neighbour add fd00:172:18::${number} lladdr ${macs.node} dev eth0 nud permanent
    route del local 127.0.0.0/8 dev lo table local
    route del local 127.0.0.1 dev lo table local
    route add 127.0.0.1/32 via 172.18.0.${number}
    route add default via 172.18.0.${number}
    route add default via fd00:172:18::${number}
  `;
}

export function otherNodes(number: number): readonly number[] {
  return [11, 12, 13].filter(other => other !== number);
}
