import {wordSet} from './known-words.ts';
import {endpointChainName, parseChainName, servicePortHash} from '../expect/iptables/chain-names.ts';
import type {AddressText, KeyedHash} from './addresses.ts';
import type {Names} from './names.ts';

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
    return `${this.#names.replace(namespace, 'namespace')}/${this.#names.replace(name, 'service')}${port && `:${this.#names.port(port.slice(1))}`}`;
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
    return this.#ports.get(hashOf(chain)) ?? null;
  }

  /** The endpoint that a chain name is derived from, in the spelling that was hashed; null if unknown. */
  endpointOf(chain: string): string | null {
    return this.#endpoints.get(hashOf(chain)) ?? null;
  }

  /** Whether the origin of the chain's name is known. */
  knows(chain: string): boolean {
    return this.#renamed.has(hashOf(chain));
  }

  replace(chain: string): string {
    const parsed = parseChainName(chain);
    if (parsed === null) return known.has(chain) ? chain : this.#thirdParty(chain);
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

/**
 * Built-in chains, targets of iptables, chains of kube-proxy and the kubelet that are not named after a Service, and those of common
 * programs.
 */
const known = wordSet(`
  PREROUTING INPUT FORWARD OUTPUT POSTROUTING
  ACCEPT DROP QUEUE RETURN AUDIT BPF CHECKSUM CLASSIFY CLUSTERIP CONNMARK CONNSECMARK CT DNAT DNPT DSCP ECN HL HMARK IDLETIMER LED LOG
  MARK MASQUERADE NETMAP NFLOG NFQUEUE NOTRACK RATEEST REDIRECT REJECT SECMARK SET SNAT SNPT SYNPROXY TCPMSS TCPOPTSTRIP TEE TOS TPROXY
  TRACE TTL ULOG
  KUBE-SERVICES KUBE-EXTERNAL-SERVICES KUBE-NODEPORTS KUBE-NODE-PORT KUBE-POSTROUTING KUBE-FORWARD KUBE-FIREWALL KUBE-PROXY-FIREWALL
  KUBE-MARK-MASQ KUBE-MARK-DROP KUBE-PROXY-CANARY KUBE-KUBELET-CANARY KUBE-IPTABLES-HINT KUBE-LOAD-BALANCER KUBE-IPVS-FILTER
  KUBE-IPVS-OUT-FILTER KUBE-SOURCE-RANGES-FIREWALL KUBE-PORTALS-CONTAINER KUBE-PORTALS-HOST KUBE-NODEPORT-CONTAINER KUBE-NODEPORT-HOST
  KUBE-ROUTER-INPUT KUBE-ROUTER-FORWARD KUBE-ROUTER-OUTPUT KUBE-ROUTER-SERVICES KUBE-NWPLCY-DEFAULT KUBE-NWPLCY-COMMON
  CNI-HOSTPORT-DNAT CNI-HOSTPORT-SETMARK CNI-HOSTPORT-MASQ CNI-FORWARD CNI-ADMIN
  DOCKER DOCKER-USER DOCKER-FORWARD DOCKER-BRIDGE DOCKER-CT DOCKER-INTERNAL DOCKER-ISOLATION-STAGE-1 DOCKER-ISOLATION-STAGE-2
  FLANNEL-POSTRTG FLANNEL-FWD IP-MASQ IP-MASQ-AGENT
  ISTIO_REDIRECT ISTIO_IN_REDIRECT ISTIO_INBOUND ISTIO_OUTPUT ISTIO_OUTPUT_DNS ISTIO_PRERT ISTIO_POSTRT ISTIO_DIVERT ISTIO_TPROXY
  CILIUM_INPUT CILIUM_OUTPUT CILIUM_FORWARD CILIUM_POST_nat CILIUM_PRE_nat CILIUM_OUTPUT_nat CILIUM_POST_mangle CILIUM_PRE_mangle
  CILIUM_OUTPUT_raw CILIUM_PRE_raw
  cali-INPUT cali-FORWARD cali-OUTPUT cali-PREROUTING cali-POSTROUTING cali-cidr-block cali-fip-dnat cali-fip-snat cali-nat-outgoing
  cali-failsafe-in cali-failsafe-out cali-forward-check cali-forward-endpoint-mark cali-from-endpoint-mark cali-from-hep-forward
  cali-from-host-endpoint cali-from-wl-dispatch cali-set-endpoint-mark cali-to-hep-forward cali-to-host-endpoint cali-to-wl-dispatch
  cali-wl-to-host cali-rpf-skip
  INPUT_direct FORWARD_direct OUTPUT_direct PREROUTING_direct POSTROUTING_direct INPUT_ZONES FORWARD_IN_ZONES FORWARD_OUT_ZONES
  FORWARD_ZONES PREROUTING_ZONES POSTROUTING_ZONES
`);
