import {existsSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {basename, join} from 'node:path';
import type {Family} from '../../../src/model/address.ts';
import {loadRules} from '../kernel/load-rules.ts';
import {Namespace} from '../kernel/namespace.ts';
import type {NodeServers} from './node-servers.ts';

const dumps = [
  {family: 'IPv4', file: 'iptables-save'},
  {family: 'IPv6', file: 'ip6tables-save'},
] as const satisfies readonly {readonly family: Family; readonly file: string}[];

/**
 * A node that is a network namespace: with the addresses of a captured node, its rules loaded into the kernel, and a server that
 * answers on the ports of kube-proxy as its kube-proxy did.
 */
export class LiveNode implements AsyncDisposable {
  readonly name: string;
  readonly #namespace: Namespace;
  /** What was captured of the node; its own copy. */
  readonly #folder: string;

  private constructor(name: string, namespace: Namespace, folder: string) {
    this.name = name;
    this.#namespace = namespace;
    this.#folder = folder;
  }

  static async open(name: string, folder: string, ways: Pick<NodeServers, 'forward' | 'inward'>): Promise<LiveNode> {
    const servers: NodeServers = {answers: answersOf(folder), ...ways};
    const program = [join(import.meta.dirname, 'node-servers.ts'), JSON.stringify(servers)];
    const node = new LiveNode(name, await Namespace.open(program), folder);
    node.#namespace.ip(linkCommands(readCaptured(folder, 'addresses.json') ?? '[]'));
    // Captures made before it was read do not say so.
    node.#setSysctl('net.ipv6.conf.all.forwarding = 1');
    for (const line of (readCaptured(folder, 'sysctls') ?? '').split('\n')) node.#setSysctl(line);
    node.heal();
    return node;
  }

  /** What goes before a command that is to run on the node. */
  get enter(): readonly [string, ...string[]] {
    return this.#namespace.enter;
  }

  /** Runs a command on the node and gives what it prints. Throws with what it said when it fails. */
  run(command: string, ...args: readonly string[]): string {
    return this.#namespace.run(command, args);
  }

  /** Gives it the rules that were captured, whatever it holds now. Those of nftables are all that it holds then. */
  heal(): void {
    const nft = readCaptured(this.#folder, 'nft.txt');
    if (nft !== null) this.#namespace.run('nft', ['-f', '-'], `flush ruleset\n${nft}`);
    for (const {family, file} of dumps) {
      const dump = readCaptured(this.#folder, file);
      if (dump !== null) this.load(family, dump);
    }
  }

  /** From now on its kube-proxy says of itself what that of a captured node said, under the name of this one. */
  answerAs(folder: string): void {
    for (const file of ['proxy-mode', 'configz.json', 'kube-proxy-config.yaml', 'metrics']) {
      const said = readCaptured(folder, file)?.replaceAll(basename(folder), this.name);
      if (said === undefined) rmSync(join(this.#folder, file), {force: true});
      else writeFileSync(join(this.#folder, file), said);
    }
  }

  /** Puts these rules in the place of all that it has of the family. */
  load(family: Family, dump: string): void {
    const backend = dump.split('\n', 1)[0]?.includes('nf_tables') ? 'nft' : 'legacy';
    const {leftOut} = loadRules(this.#namespace, backend, {family, dump});
    if (leftOut.length > 0)
      throw new Error(`this kernel does not know ${leftOut.join(' and ')}: the rules of ${this.name} cannot be loaded`);
  }

  /** What the kernel holds now, by the name that it has in a bundle. */
  dumps(): Readonly<Record<string, string>> {
    const iptables = Object.fromEntries(dumps.map(({file}) => [file, this.run(file)]));
    return existsSync(join(this.#folder, 'nft.txt'))
      ? {...iptables, 'nft-ruleset.json': this.run('nft', '-j', 'list', 'ruleset')}
      : iptables;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#namespace[Symbol.asyncDispose]();
  }

  #setSysctl(line: string): void {
    const [name = '', value = ''] = line.split(' = ');
    if (/^net\.ipv[46]\./.test(name)) this.#namespace.run('sysctl', ['-q', '-w', `${name}=${value}`]);
  }
}

function answersOf(folder: string): NodeServers['answers'] {
  const answers = (paths: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(paths).map(([path, file]) => [path, join(folder, file)]));
  return {
    10249: answers({'/proxyMode': 'proxy-mode', '/configz': 'configz.json', '/metrics': 'metrics'}),
    10256: answers({'/healthz': 'healthz.json'}),
  };
}

interface Link {
  readonly ifname: string;
  readonly addr_info: readonly {readonly local: string; readonly prefixlen: number; readonly scope: string}[];
}

/**
 * An interface is one end of a pair, both of which are on the node: not every kernel has dummy interfaces. All other addresses are beyond
 * the first.
 */
function linkCommands(addresses: string): string {
  const links = (JSON.parse(addresses) as readonly Link[]).filter(({ifname}) => ifname !== 'lo');
  const routes = links.slice(0, 1).flatMap(({ifname}) => ['0.0.0.0/0', '::/0'].map(all => `route add ${all} dev ${ifname}`));
  return links
    .flatMap(({ifname, addr_info}, index) => [
      `link add ${ifname} type veth peer name far-end-${index}`,
      // Without its other end it has no carrier, and what is sent there is lost.
      `link set far-end-${index} up`,
      `link set ${ifname} up`,
      ...addr_info
        .filter(({scope}) => scope === 'global')
        .map(({local, prefixlen}) => `address add ${local}/${prefixlen} dev ${ifname}${local.includes(':') ? ' nodad' : ''}`),
    ])
    .concat(routes)
    .join('\n');
}

function readCaptured(folder: string, file: string): string | null {
  const path = join(folder, file);
  return existsSync(path) ? readFileSync(path, 'utf8') : null;
}
