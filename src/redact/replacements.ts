import {AddressMap} from './address-map.ts';
import {AddressText} from './address-text.ts';
import {ChainNames} from './chain-names.ts';
import {KeyedHash} from './keyed-hash.ts';
import {Names} from './names.ts';
import {Words} from './words.ts';

/** All replacements in one bundle, by one key. Equal texts have equal replacements. */
export class Replacements {
  readonly hash: KeyedHash;
  readonly addresses: AddressMap;
  readonly text: AddressText;
  readonly names: Names;
  readonly chains: ChainNames;
  readonly words: Words;

  constructor(key: string | Uint8Array) {
    this.hash = new KeyedHash(key);
    this.addresses = new AddressMap(this.hash);
    this.text = new AddressText(this.addresses, this.hash);
    this.names = new Names(this.hash, this.addresses);
    this.chains = new ChainNames(this.hash, this.names, this.text);
    this.words = new Words(this.names, this.text, this.chains);
  }

  /** The replacement of an object's unique id. */
  uid(text: string): string {
    const hex = this.hash.bytes('uid', text).toString('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
  }

  /** The name of an ipset or of a `recent` list: those of kube-proxy stay, or follow the chain that they are named after. */
  setName(text: string): string {
    if (/^KUBE-(?:SVC|SVL|EXT|FW|XLB|SEP)-/.test(text)) return this.chains.replace(text);
    if (isKubeProxySet(text) || text === 'DEFAULT') return text;
    return `set-${this.hash.letters('set', text, 12)}`;
  }
}

/** `KUBE-CLUSTER-IP`, and `KUBE-6-CLUSTER-IP` for IPv6, which is cut to 31 characters. */
function isKubeProxySet(name: string): boolean {
  const [kube, six] = [kubeProxySets, kubeProxySets.map(set => `KUBE-6-${set.slice(5)}`.slice(0, 31))];
  return kube.includes(name) || six.includes(name);
}

const kubeProxySets: readonly string[] = `
  KUBE-LOOP-BACK KUBE-CLUSTER-IP KUBE-EXTERNAL-IP KUBE-EXTERNAL-IP-LOCAL KUBE-LOAD-BALANCER KUBE-LOAD-BALANCER-LOCAL
  KUBE-LOAD-BALANCER-FW KUBE-LOAD-BALANCER-SOURCE-CIDR KUBE-LOAD-BALANCER-SOURCE-IP KUBE-NODE-PORT-TCP KUBE-NODE-PORT-UDP
  KUBE-NODE-PORT-LOCAL-TCP KUBE-NODE-PORT-LOCAL-UDP KUBE-NODE-PORT-SCTP-HASH KUBE-NODE-PORT-LOCAL-SCTP-HASH
  KUBE-HEALTH-CHECK-NODE-PORT KUBE-IPVS-IPS
`
  .trim()
  .split(/\s+/);
