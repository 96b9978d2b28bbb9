import {setName, type SetRole, setTypes} from '../expect/ipvs/ipvs-sets.ts';
import {families} from '../model/address.ts';
import {AddressMap, AddressText, KeyedHash, looksLikeAddress} from './addresses.ts';
import {ChainNames} from './redact-chain-names.ts';
import {isKnownText, wordSet} from './known-words.ts';
import {Interfaces, Names, type NameKind} from './names.ts';
import type {PathTree} from '../model/path-tree.ts';

/** All replacements in one bundle, by one key. Equal texts have equal replacements. */
export class Replacements {
  readonly hash: KeyedHash;
  readonly addresses: AddressMap;
  readonly text: AddressText;
  readonly names: Names;
  readonly interfaces: Interfaces;
  readonly chains: ChainNames;

  constructor(key: string | Uint8Array) {
    this.hash = new KeyedHash(key);
    this.addresses = new AddressMap(this.hash);
    this.text = new AddressText(this.addresses, this.hash);
    this.names = new Names(this.hash, this.addresses);
    this.interfaces = new Interfaces(this.hash);
    this.chains = new ChainNames(this.hash, this.names, this.text);
  }

  /** The replacement of an object's unique id. */
  uid(text: string): string {
    const hex = this.hash.bytes('uid', text).toString('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
  }

  /**
   * A word of a dump, or several joined by commas and the like: only what is known to be no name stays. Anything else, its addresses aside, is
   * replaced as a name, or by `other`.
   */
  token(token: string, other: (text: string) => string = text => this.names.replace(text)): string {
    if (isKnownText(token) && !/[.:]/.test(token)) return token;
    return token
      .split(',')
      .map(part => this.#part(part, other))
      .join(',');
  }

  #part(part: string, other: (text: string) => string): string {
    const replaced = this.text.replace(part);
    if (looksLikeAddress(part)) return replaced;
    if (isKnownText(replaced)) return replaced;
    return replaced.replace(/[^:/=|!&<>(){}[\]^;@"]+/g, text => (isKnownText(text) ? text : other(text)));
  }

  /** The name of an ipset or of a `recent` list: those of kube-proxy stay, or follow the chain that they are named after. */
  setName(text: string): string {
    if (/^KUBE-(?:SVC|SVL|EXT|FW|XLB|SEP)-/.test(text)) return this.chains.replace(text);
    if (isKubeProxySet(text) || text === 'DEFAULT') return text;
    return `set-${this.hash.letters('set', text, 12)}`;
  }

  /** A comment: replaces all words except the few that kube-proxy uses. */
  comment(text: string): string {
    return text.replace(/[^\s"\\]+/g, word => this.#commentWord(word));
  }

  /**
   * A message of this program or of one that it ran: replaces known names, host names and addresses. Of the other words only those of
   * messages are kept: a user, a group, a context or a path can have any name.
   */
  message(text: string): string {
    const anonymous = text.replace(/\b(User|user|Group|group|ServiceAccount) "[^"]+"/g, '$1 "…"');
    return anonymous.replace(/[^\s"'`(),;]+/g, word => this.#messageWord(word)).replace(/…(?:[-\s./:@=,]*…)+/g, '…');
  }

  #commentWord(word: string): string {
    if (vocabulary.has(word.toLowerCase().replace(/[;:,.']$/, '')) || /^\d{1,5}$/.test(word)) return word;
    const chain = /^KUBE-[A-Z]+-?[-A-Z0-9]*$/.test(word) ? this.chains.replace(word) : null;
    return chain ?? this.chains.servicePort(word) ?? this.#addressOr(word, () => this.names.replace(word));
  }

  #addressOr(word: string, otherwise: () => string): string {
    const replaced = this.text.replace(word);
    return replaced !== word || looksLikeAddress(word) ? replaced : otherwise();
  }

  #messageWord(word: string): string {
    const parts = this.text.replace(word).split(/([^\w.-]+)/);
    return parts.map(part => this.#messagePart(part)).join('');
  }

  #messagePart(part: string): string {
    const [, body = '', end = ''] = /^(.*?)([.-]*)$/s.exec(part) ?? [];
    const known = this.names.known(body);
    if (known !== null) return known + end;
    const chain = /^KUBE-[-A-Z0-9]+$/.test(body) ? this.chains.replace(body) : null;
    if (chain !== null) return chain + end;
    if (isOfMessages(body)) return body + end;
    return (looksLikeHost(body) ? this.names.replace(body) : '…') + end;
  }
}

function isKubeProxySet(name: string): boolean {
  return Object.keys(setTypes).some(role => families.some(family => setName(role as SetRole, family) === name));
}

/** Words in the comments of kube-proxy and the kubelet, which explain rules. */
const vocabulary = wordSet(`
  a accepted all and balancing block by chain check checks clusterip cluster conntrack connections destinations dropped endpoints
  external externally-visible filter firewall firewalled for forwarding from has health host hairpin incoming internal invalid ip ips
  ipvs kube-proxy kubernetes load balancer loadbalancer local localnet lb masquerade no node nodeport nodeports not of other out pod pods
  portals ports port postrouting reach redirect requiring route rule rules service services snat traffic trying the to vip
  will access active clusterips allowed reject in on unallocated drop last must note this be packet packets marked source destination
  udp tcp sctp purpose type hash externaltrafficpolicy=local cidr using nodeports -> + -
`);

/** Words of messages, numbers, codes, flags and versions. A long number can be that of an account. */
function isOfMessages(text: string): boolean {
  const word = text.replace(/^[-.]+/, '').toLowerCase();
  if (!/[a-z0-9]/.test(word)) return !/[^\x20-\x7e…]/.test(word);
  return (
    messageWords.has(word) ||
    /^(?:metadata|spec|status|net)\.[\w.]+$/.test(word) ||
    /^(?:v?\d{1,5}(?:\.\d{1,5})*(?:ms|s|m|h|[kmg]i?b?)?|st\d{3})$/.test(word)
  );
}

/** A name with dots that is neither a file of a bundle, nor a setting, nor a number. */
function looksLikeHost(text: string): boolean {
  return (
    /^[a-z0-9][-a-z0-9]*(?:\.[a-z0-9][-a-z0-9]*)+$/i.test(text) &&
    /[a-z]/i.test(text) &&
    !/\.(?:json|yaml)$|^v?\d|^(?:metadata|spec|status|net)\./.test(text)
  );
}

/**
 * The words that messages keep when they are redacted: those of this program, and those that the API server, ssh, TLS, the kernel and
 * kube-proxy explain failures with. None is a name.
 */
const messageWords: ReadonlySet<string> = wordSet(`
  a able about add accept accept-new accepts access accessible account addr address addresses addresses.json addresstype after afterwards
  again against agent agents agents-namespace agents-selector agents-token-file ago algorithm all allow allowed allows alone already
  alternative an and annotation another answer answered any api apigroup apiversion app apparmor applied apply archive are argument
  arguments as ask asked asks assertion at attach auth auth-provider authenticate authentication authorities authority authorized bad
  banner be because before begins begun behind being between bigger binary bind body both bridgeinterface broken buffer bundle bundles
  busy but by bytes ca cache called can can't cannot capture case cause certificate certificate-authority certificate-authority-data chain
  change changed changes changing check checked choose chosen cidr client client-certificate client-certificate-data client-key
  client-key-data client.authentication.k8s.io clientip clock close closed cluster cluster-cidr clustercidr clusterip clusterips
  clusterrole clusterrole.rbac.authorization.k8s.io cni code com combined come command commands commit compare compiled-in complete
  component components concurrency config configmap configmaps configuration configz configz.json connect connected connection connections
  conntrack container containers contains context continue contradict contradicts converged copy core correct corrected could couldn
  couldn't count counters counting create created creates creating credential credentials curl current current-context cut daemonset daddr data deadline
  debug debug-image debug-namespace decode decoding default delete deleted denial denials denied denies deploy deployment deployments
  describe destination detectlocal determine device dial did didn differ different differs digits directory disconnected discovery.k8s.io
  dns do does doesn doesn't domain done dropped ds due dump dumped dumps duration e eacces each earlier econnrefused econnreset
  ehostunreach either else elsewhere empty encoded encoding end ended endpoint endpoints endpoints.json endpointslice endpointslices
  endpointslices.discovery.k8s.io endpointslices.json enetunreach enotfound environment eof epipe entry error errors etimedout event events
  eventually every everyone everything exceeded exec execcredential executable execute exist exists exit exited expected expired expires
  explain export extension external externalip extra f fail failed failing fails failure false families family fargate fatal fault fib field
  fields file files filter find finding firewall first flag flags folder follow for for-node forbidden form format found fqdn from full function
  gateway gather gave generated get getting give given go got group groups gssapi-keyex gssapi-with-mic had hand handshake hangs hardware has
  hashsize have head headers health healthy healthz healthz.json held help here higher hold holding holds host hostkey hostname
  hostname-override how http https https_proxy i i/o id identity if iifname image image-pull-secret impersonate in incompatible incomplete
  index info ing ingress init initialization initialize inotify input insecure insecure-http insecure-skip-tls-verify insmod insert install
  installed instances intercepted interface interfacenameprefix interfaces internal internalip interrupted into invalid invocation io ip
  ip-rules.json ip6-rules.json ip6tables ip6tables-legacy-save ip6tables-nft-save ip6tables-restore ip6tables-save ip_tables ip_vs ip_vs_rr ip_vs_sh ip_vs_wlc
  ip_vs_wrr ips ipset ipset-save iptables iptables-legacy-save iptables-nft iptables-nft-save iptables-restore iptables-save
  iptables-version ipv4 ipv6 ipvs ipvsadm ipvsadm-save is isn isn't issuer it item items its itself j journalctl json jump k3s keep keeps
  kept kernel kernel-modules-extra kex key keyboard-interactive keys killed kind know known kube-ipvs0 kube-ipvs0.json kube-proxy
  kube-proxy-config.yaml kube-proxy-version kube-proxy.log kube-system kubeconfig kubectl kubelet kubernetes l label labels lacks last
  later latest leaf leave leaves left legacy less let limit line lines links.json linux linux-modules-extra list listed listen listening
  listens lists load loadbalancing loaded local local-address localhost lock log logged login logins logs long longer look lookup loopback
  lost lower machine made make makes malformed managed-by many map mapping mark mask masquerade match matches matching max may me mean
  memory message metadata method metrics minute minutes missing mode modprobe module modules more most move much must n name named names
  namespace namespaces nat native need needed needs negotiate neither net netlink network networking.k8s.io networks never new newer next
  nf_conntrack nf_conntrack_max nf_tables nfacct nft nft-ruleset.json nft.json nftables no no_proxy node node-proxier node-selector
  node-timeout nodeport nodeportaddresses nodes nodes.json none nor not nothing now null number o object objects of off offending offer
  often oidc ok old older on once one ones only open openid operation option options or other others otherwise out output over overload
  own owner packet packets page parameters parse parseip parsing part parts password patch path pattern peer perhaps permanent permission
  permissions permitted place plain please plugin pod pods pods.json pods/exec pods/log policies policy port portions ports possible
  preauth prefix print printed prints private privileged probe problem problems proc process program programs progress prometheus promise
  protocol provide provided proxier proxy proxy-mode proxy-url proxyjump public publickey pull put query quits quote quotes r raise raises
  random-fully range rate rbac rbac.authorization.k8s.io re-checks reach reached read read-only readable reading ready reason record refuse refused
  refuses reinstall reinstalled reject rejected rejects release remedy remote remove renew renewed replace replaced replay reply reported
  request request-timeout requested requests requires reset resolve resource resources response restart restarted restore restores result
  results retries retrieve retry return returned returns reverse review revision revoked rewritten right rights rke2 role
  role.rbac.authorization.k8s.io roles root route routes routes.json rule rules ruleset run running runs s saddr same save say says scope sctp
  second seconds securitycontext.privileged see segmentation select selector self self-signed self-subject-access-review selinux serve
  served server server's servers serves service serviceaccount serviceaccounts servicecidr servicecidrs services services.json session
  sessionaffinity set sets setting settings several should shows sign signal signature signed since sleep smaller snapshot.json so socket
  some something soon source spec specified split ss ssh ssh-add ssh-address ssh-keygen ssh-option ssh-port ssh-user standard start
  started starting startup state statefulset states statistic statistics status stay stderr stdin stdout still stop stopped stops stream
  strict stricthostkeychecking string sts subject subjectaccessreview subprotocol such sudo sufficient support sure supported svc-trace sync
  synced syncing sys sysctl sysctls system t table tables taken takes talk target tcp temporarily ten terminal terminated test text than
  that the their them then there these they this those throttled through time timed timeout timer times tls tls-server-name to token
  tokenreview tokens too took tool tools trace tracked transport trim true truncated trust trusted try trying tty two type types udp uid
  unable unallocated unauthorized unavailable undefined under understand understood unexpected unfinished unknown unless unmarshaling
  unreachable unread unreadable unresolved unsupported until up update upgrade url use used user username uses using utf8 v valid value
  values variable variants verb verbs verification verified verify version versions via view virtual virtual-kubelet w wait waited waiting
  want warning was watch watched watches way we websocket well were wget what when where whether which while who whole why will windows
  with within without work works would write writing written wrong wrote x509 xor-mark xt_nfacct xtables xtables.lock yaml yet yml you
  your zone zones
  `);

/**
 * How to redact a part of a JSON document. A part without a treatment is left out, so that nothing is kept unchecked. A part of an
 * unexpected shape is replaced like a name, and so is a text that is to be kept and has an unknown word.
 */
export type Treatment = 'kept' | TextTreatment | ((value: unknown, replacements: Replacements) => unknown) | PathTree<Treatment>;

type TextTreatment = 'address' | 'hardware' | 'uid' | NameKind;

export function treat(value: unknown, treatment: Treatment, replacements: Replacements): unknown {
  if (value === null) return value;
  if (treatment === 'kept') return known(value, replacements);
  if (typeof treatment === 'function') return treatment(value, replacements);
  if (typeof treatment === 'string') return typeof value === 'string' ? treatText(value, treatment, replacements) : scalar(value);
  const {'[]': ofItems} = treatment;
  if (ofItems !== undefined)
    return Array.isArray(value) ? value.map(item => treat(item, ofItems, replacements)) : malformed(value, replacements);
  if (typeof value !== 'object' || Array.isArray(value)) return malformed(value, replacements);
  const entries = Object.entries(value).flatMap(([name, part]) => {
    const ofField = Object.hasOwn(treatment, name) ? treatment[name] : undefined;
    return ofField === undefined ? [] : [[name, treat(part, ofField, replacements)] as const];
  });
  return Object.fromEntries(entries);
}

/** An address, or a name in place of one. */
export function treatAddress(text: string, {addresses, text: inText, names}: Replacements): string {
  const trimmed = text.trim();
  if (addresses.replace(trimmed) !== null) return text.replace(trimmed, addresses.replace(trimmed) ?? '');
  const replaced = inText.replace(text);
  return replaced !== text || looksLikeAddress(text) ? replaced : names.replace(text);
}

/** Numbers and known words, also in lists and as fields. */
function known(value: unknown, replacements: Replacements): unknown {
  if (typeof value === 'string') return isKnownText(value) ? value : replacements.names.replace(value);
  if (Array.isArray(value)) return value.map(item => known(item, replacements));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).flatMap(([key, part]) => (isKnownText(key) ? [[key, known(part, replacements)]] : [])));
}

function treatText(text: string, treatment: TextTreatment, replacements: Replacements): unknown {
  if (text === '') return text;
  if (treatment === 'address') return treatAddress(text, replacements);
  if (treatment === 'hardware') return replacements.text.hardware(text);
  if (treatment === 'uid') return replacements.uid(text);
  return replacements.names.replace(text, treatment);
}

function malformed(value: unknown, {names}: Replacements): unknown {
  return typeof value === 'string' ? names.replace(value) : scalar(value);
}

function scalar(value: unknown): unknown {
  return typeof value === 'number' || typeof value === 'boolean' ? value : null;
}
