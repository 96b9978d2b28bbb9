import type {AddressMap, KeyedHash} from './addresses.ts';
import {wordSet} from './known-words.ts';

/** The kind of a name, which shows in the new name. `word` stands for every other kind. */
export type NameKind = 'namespace' | 'service' | 'pod' | 'node' | 'word';

const beginnings: Readonly<Record<NameKind, string>> = {namespace: 'ns', service: 'svc', pod: 'pod', node: 'node', word: 'name'};

/** Names that every cluster has. */
const common = wordSet(`
  default kube-system kube-public kube-node-lease kubernetes kube-dns kube-proxy kube-proxy-config openshift-kube-proxy openshift-sdn
  proxy-config sdn-config sdn cilium cilium-config localhost None none true false linux windows amd64 arm64
`);

const commonPorts = wordSet(
  'http https http1 http2 h2c grpc grpcs tcp udp sctp tls ssl dns dns-tcp metrics http-metrics https-metrics health healthz web',
);

/**
 * Replaces names. The same text always gets the same replacement, whatever it names: a Service and a label of its pods, a node and its host
 * name. The replacement shows the kind that was seen first.
 */
export class Names {
  readonly #hash: KeyedHash;
  readonly #addresses: AddressMap;
  readonly #known = new Map<string, string>();
  readonly #counts = new Map<NameKind, number>();

  constructor(hash: KeyedHash, addresses: AddressMap) {
    this.#hash = hash;
    this.#addresses = addresses;
  }

  /** The new name. Each part of a name with dots is replaced separately. Case does not matter, as in kube-proxy. */
  replace(text: string, kind: NameKind = 'word'): string {
    const key = text.trim().toLowerCase();
    if (key === '' || common.has(text)) return text;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const address = this.#addresses.replace(key);
    if (address !== null) return address;
    if (key.includes('.'))
      return key
        .split('.')
        .map(part => this.replace(part, kind))
        .join('.');
    return this.#add(key, kind);
  }

  /** The name of a port. Those that many Services use stay. */
  port(text: string): string {
    return commonPorts.has(text) ? text : this.replace(text);
  }

  /** The new name of a text that was replaced before as the name of an object; null for others, because ordinary words can be anything. */
  known(text: string): string | null {
    const name = this.#known.get(text.toLowerCase());
    return name === undefined || name.startsWith(`${beginnings.word}-`) ? null : name;
  }

  counts(): ReadonlyMap<NameKind, number> {
    return this.#counts;
  }

  /** The names of kube-proxy's pods are recognized by their prefix. */
  #add(key: string, kind: NameKind): string {
    const beginning = /^(?:kube-proxy|openshift-kube-proxy|sdn)(?=-)/.exec(key)?.[0] ?? beginnings[kind];
    const name = `${beginning}-${this.#hash.letters('name', key, 10)}`;
    this.#known.set(key, name);
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    return name;
  }
}

/**
 * Replaces names of interfaces letter by letter. Each letter depends on those before it and on the key: two names share as many first letters
 * as before, so that `-i acme+` still covers the same interfaces. Names that systems give (`eth0`, `enp3s0`, `flannel.1`) stay; in those that
 * are made from hashes or hardware addresses (`cali…`, `veth…`, `enx…`) the digits are replaced too.
 */
export class Interfaces {
  readonly #hash: KeyedHash;
  readonly #names = new Map<string, string>();
  readonly #letters = new Map<string, readonly number[]>();

  constructor(hash: KeyedHash) {
    this.#hash = hash;
  }

  /** A name, or the beginning of one with `+` or `*`. `eth0@if3` and `eth0:1` are kept. */
  replace(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    let fresh = '';
    for (const [at, char] of [...name].entries()) fresh += this.#char(name.slice(0, at), char);
    this.#names.set(name, fresh);
    return fresh;
  }

  #char(before: string, char: string): string {
    if (/[^\x20-\x7e]/.test(char)) return 'x';
    const begun = before.replace(/^.*[@:]/, '');
    if (hashed.test(begun) && /[\da-f]/i.test(char)) return this.#permuted(begun, char, '0123456789abcdef');
    return /[a-z]/i.test(char) ? this.#permuted(begun, char, hashed.test(begun) ? 'ghijklmnopqrstuvwxyz' : alphabetOfNames) : char;
  }

  #permuted(before: string, char: string, alphabet: string): string {
    const free = [...alphabet].filter(letter => !isOfSystem(before, letter));
    const lower = char.toLowerCase();
    const place = free.indexOf(lower);
    if (place < 0) return char;
    const key = `${before} ${alphabet.length}`;
    const order = this.#letters.get(key) ?? shuffled(free.length, this.#hash.bytes('interface name', key));
    this.#letters.set(key, order);
    const fresh = free[order[place] ?? place] ?? lower;
    return char === lower ? fresh : fresh.toUpperCase();
  }
}

const alphabetOfNames = 'abcdefghijklmnopqrstuvwxyz';

/** The beginnings of names that the system, or a common network plugin, gives to interfaces. */
const ofSystem: readonly string[] = [
  ...wordSet(`
  antrea-egress antrea-gw aws azv bond br-ex br-int cali cbr cilium_host cilium_net cilium_vxlan cilium_wg cni-podman cni dummy en eni eth ib wl ww
  flannel-v6 flannel flannel-wg gdns genev_sys gre gretap geneve if ip6gre ip6tnl ipip ip_vti kube-bridge kube-dummy-if kube-ipvs
  lo lxc lxc_health lxcbr lxdbr nerdctl nflog nodelocaldns ovn-k8s-mp ovs-system pod podman sit tap team tun tunl usb veth virbr vlan vmbr
  vxlan vxlan.calico vxlan-v6.calico vxlan_sys wg wireguard.cali docker weave vethwe-bridge vethwe-datapath
`),
];

/** What follows was made from the name of a pod, a container or a network, or is a hardware address. */
const hashed = /^(?:cali|veth|lxc|eni|gke|azv|tap|br-|enx|wlx)[\da-f]*$/;

/** Whether names of systems can continue with this letter. Names of hardware are like `enp3s0f1np0`: no more than two of their letters at a time. */
function isOfSystem(before: string, letter: string): boolean {
  const begun = before + letter;
  return ofSystem.some(name => name.startsWith(begun)) || /^(?:en|wl|ww|ib)(?:[bcdfnopsuvx]{1,2}\d+)*[bcdfnopsuvx]{1,2}$/i.test(begun);
}

/** A permutation of so many places, drawn from random bytes. */
function shuffled(count: number, bytes: Buffer): readonly number[] {
  const order = Array.from({length: count}, (_, place) => place);
  for (let last = count - 1; last > 0; last--) {
    const other = (bytes[last] ?? 0) % (last + 1);
    [order[last], order[other]] = [order[other] ?? other, order[last] ?? last];
  }
  return order;
}
