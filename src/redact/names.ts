import type {AddressMap} from './addresses.ts';
import type {KeyedHash} from './keyed-hash.ts';

/** The kind of a name, which shows in the new name. `word` stands for every other kind. */
export type NameKind = 'namespace' | 'service' | 'pod' | 'node' | 'word';

const beginnings: Readonly<Record<NameKind, string>> = {namespace: 'ns', service: 'svc', pod: 'pod', node: 'node', word: 'name'};

/** Names that every cluster has. */
const common = new Set([
  ...['default', 'kube-system', 'kube-public', 'kube-node-lease', 'kubernetes', 'kube-dns', 'kube-proxy', 'kube-proxy-config'],
  ...['openshift-kube-proxy', 'openshift-sdn', 'proxy-config', 'sdn-config', 'sdn'],
  ...['localhost', 'None', 'none', 'true', 'false', 'linux', 'windows', 'amd64', 'arm64'],
]);

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
