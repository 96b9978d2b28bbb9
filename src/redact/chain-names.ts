import {endpointChainName, parseChainName, servicePortHash} from '../expect/iptables/chain-names.ts';
import type {AddressText} from './address-text.ts';
import type {KeyedHash} from './keyed-hash.ts';
import type {Names} from './names.ts';
import {knownChainName} from './known-chains.ts';

const protocols = ['tcp', 'udp', 'sctp'];

/** `namespace/name:port` or `namespace/name`, as kube-proxy writes it in comments and hashes it into chain names. */
export const servicePortPattern = /^([a-z0-9][-a-z0-9]*)\/([a-z0-9][-a-z0-9.]*)(:[-a-z0-9]*)?$/;

interface ServicePortKey {
  readonly name: string;
  readonly protocol: string;
}

/**
 * Renames chains. A chain of a Service port or an endpoint gets the name that kube-proxy would derive from the new names and addresses; for
 * this, Service ports and endpoints must be learned first. A name with an unknown origin is replaced by one of the same form.
 */
export class ChainNames {
  readonly #hash: KeyedHash;
  readonly #names: Names;
  readonly #addresses: AddressText;
  readonly #ports = new Map<string, ServicePortKey>();
  readonly #learned = new Set<string>();
  readonly #renamed = new Map<string, string>();
  readonly #endpoints = new Map<string, string>();
  readonly #unknown = new Set<string>();

  constructor(hash: KeyedHash, names: Names, addresses: AddressText) {
    this.#hash = hash;
    this.#names = names;
    this.#addresses = addresses;
  }

  /** How many names of kube-proxy's chains have an unknown origin. */
  get unknownCount(): number {
    return this.#unknown.size;
  }

  /** The new form of `namespace/name:port`; null if the text has another form. */
  servicePort(text: string): string | null {
    const found = servicePortPattern.exec(text);
    if (found === null) return null;
    const [, namespace = '', name = '', port = ''] = found;
    return `${this.#names.replace(namespace, 'namespace')}/${this.#names.replace(name, 'service')}${port}`;
  }

  /** Learns a Service port, with the protocols that it may have. */
  learn(name: string, among: readonly string[] = protocols): void {
    for (const protocol of among) {
      const key = `${name} ${protocol}`;
      if (this.#learned.has(key)) continue;
      this.#learned.add(key);
      const renamed = this.servicePort(name);
      if (renamed === null) continue;
      const hash = servicePortHash(name, protocol);
      this.#ports.set(hash, {name, protocol});
      this.#renamed.set(hash, servicePortHash(renamed, protocol));
    }
  }

  /** Learns an endpoint (`address:port`, in the spelling that was hashed) of a Service port. */
  learnEndpoint(name: string, protocol: string, hostPort: string): void {
    const renamed = this.servicePort(name);
    if (renamed === null) return;
    const hash = hashOf(endpointChainName(name, protocol, hostPort));
    this.#endpoints.set(hash, hostPort);
    this.#renamed.set(hash, hashOf(endpointChainName(renamed, protocol, this.#addresses.replace(hostPort))));
  }

  /** The Service port that a chain name is derived from; null if unknown. */
  portOf(chain: string): ServicePortKey | null {
    const parsed = parseChainName(chain);
    return parsed === null ? null : (this.#ports.get(parsed.hash) ?? null);
  }

  /** The endpoint that a chain name is derived from, in the spelling that was hashed; null if unknown. */
  endpointOf(chain: string): string | null {
    const parsed = parseChainName(chain);
    return parsed === null ? null : (this.#endpoints.get(parsed.hash) ?? null);
  }

  /** Whether the origin of the chain's name is known. */
  knows(chain: string): boolean {
    const parsed = parseChainName(chain);
    return parsed !== null && this.#renamed.has(parsed.hash);
  }

  replace(chain: string): string {
    const parsed = parseChainName(chain);
    if (parsed === null) return knownChainName(chain) ? chain : this.#thirdParty(chain);
    return `KUBE-${parsed.role}-${this.#renamed.get(parsed.hash) ?? this.#lookalike(parsed.hash)}`;
  }

  #lookalike(hash: string): string {
    this.#unknown.add(hash);
    return this.#hash.letters('chain', hash, 16).toUpperCase();
  }

  /** The prefix shows which program created the chain; a chain name has at most 28 characters. */
  #thirdParty(chain: string): string {
    const beginning =
      /^(?:cali-|KUBE-NWPLCY-|KUBE-POD-FW-|KUBE-ROUTER-|KUBE-|ANTREA-|WEAVE-|CILIUM_|OVN-KUBE-|CNI-|DOCKER-|ISTIO_|ufw-|f2b-)/.exec(chain);
    const letters = this.#hash.letters('chain', chain, 12);
    return beginning === null ? `CHAIN-${letters.toUpperCase()}` : `${beginning[0]}${letters}`;
  }
}

function hashOf(chain: string): string {
  return parseChainName(chain)?.hash ?? '';
}
