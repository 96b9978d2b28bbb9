import {formatAddress, joinHostPort, parseAddress} from '../model/address.ts';
import {readJson, type Fields, isObject} from '../parse/attempt.ts';
import {mergeAddresses, networksIn, parseInterval} from '../parse/nftables/address-list.ts';
import {jsonItems} from '../parse/nftables/nft-json-bytes.ts';
import {isKnownText, wordSet} from './known-words.ts';
import type {Replacements} from './replacements.ts';
import {sortedOrder} from './addresses.ts';
import {hash8} from '../expect/name-hash.ts';

/**
 * The output of `nft -j`, of kube-proxy's tables or of all. Several documents one after another become one. A truncated one stays
 * truncated.
 */
export function redactNft(content: Buffer, replacements: Replacements): Buffer {
  const {items, truncatedAt} = jsonItems(content);
  const old = items.map(({start, end}) => readJson(content.toString('utf8', start, end)));
  const fresh = inOrder(
    old.map(object => redactObject(object, replacements)),
    old,
  );
  const parts = fresh.map((object, index) => Buffer.from(`${index === 0 ? '' : ', '}${JSON.stringify(object)}`));
  return Buffer.concat([Buffer.from('{"nftables": ['), ...parts, Buffer.from(truncatedAt === null ? ']}\n' : ', {"')]);
}

/** One `{"rule": {…}}`, `{"chain": {…}}` and so on. In tables of other programs, chains and sets are named as in iptables. */
function redactObject(object: unknown, replacements: Replacements): unknown {
  if (!isObject(object)) return null;
  // The version of nft and the name of its release.
  if ('metainfo' in object) return {metainfo: {json_schema_version: 1}};
  return Object.fromEntries(
    Object.entries(object).map(([kind, body]) => {
      const table = isObject(body) ? (kind === 'table' ? body['name'] : body['table']) : undefined;
      return [isKnownText(kind) ? kind : 'unknown', new NftRedaction(table === 'kube-proxy', replacements).part(body, kind)];
    }),
  );
}

class NftRedaction {
  readonly #isKubeProxy: boolean;
  readonly #replacements: Replacements;

  constructor(isKubeProxy: boolean, replacements: Replacements) {
    this.#isKubeProxy = isKubeProxy;
    this.#replacements = replacements;
  }

  part(value: unknown, key: string): unknown {
    if (typeof value === 'string') return this.#text(value, key);
    if (Array.isArray(value)) return value.flatMap(item => this.#item(item, key));
    if (!isObject(value)) return value;
    if (isObject(value['prefix'])) return {...this.#fields(value), prefix: this.#prefix(value['prefix'])};
    if (isNumbered(value)) return this.#numbered(value);
    if (Array.isArray(value['range'])) {
      const networks = this.#range(value['range']);
      return networks.length === 1 ? networks[0] : {set: networks};
    }
    if ('left' in value && 'right' in value) return this.#match(value);
    return Array.isArray(value['set']) ? this.#set(value, value['set']) : this.#fields(value);
  }

  /** nft lists the addresses of an anonymous set in their order, with adjacent ones merged. */
  #set(value: Fields, set: readonly unknown[]): Fields {
    const fresh = this.#fields(value);
    const [before, after] = [addressTexts(set), addressTexts(fresh['set'])];
    if (before === null || after === null || mergeAddresses(before)?.join() !== before.join()) return fresh;
    return {...fresh, set: (mergeAddresses(after) ?? []).map(addressElement)};
  }

  /** A range among the elements of a set is replaced by the networks that cover it. */
  #item(item: unknown, key: string): unknown {
    if (isObject(item) && Array.isArray(item['range'])) return this.#range(item['range']);
    return Array.isArray(item) ? [this.part(item, key)] : this.part(item, key);
  }

  /** Users, groups and control groups are names of somebody's. */
  #match(value: Fields): Fields {
    const {left, right} = value;
    const anonymous = isOfSomebody(left) ? withoutWords(right) : this.part(right, isInterface(left) ? interfaceKey : 'right');
    return {...this.#fields(value), left: this.part(left, 'left'), right: anonymous};
  }

  #fields(value: Fields): Fields {
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [this.#key(key), this.part(part, key)]));
  }

  #key(key: string): string {
    return isKnownText(key) ? key : this.#replacements.names.replace(key);
  }

  #text(text: string, key: string): string {
    const {interfaces} = this.#replacements;
    if (key === 'comment' || key === 'prefix') return this.#replacements.comment(text);
    if (nameKeys.has(key)) return this.#name(text);
    if (key === 'table') return commonTables.has(text) ? text : this.#replacements.setName(text);
    if (text.startsWith('@')) return `@${this.#name(text.slice(1))}`;
    return key === interfaceKey ? interfaces.replace(text) : this.#replacements.token(text, word => interfaces.replace(word));
  }

  #name(name: string): string {
    return redactObjectName(name, this.#isKubeProxy, this.#replacements);
  }

  #prefix({addr, len}: Fields): Fields {
    const base = typeof addr === 'string' && typeof len === 'number' ? this.#replacements.addresses.base(addr, len) : null;
    return {addr: base ?? this.part(addr, 'addr'), len: this.part(len, 'len')};
  }

  /** A network keeps its content; a range of addresses does not, and may consist of several networks. */
  #range([first, last]: readonly unknown[]): readonly unknown[] {
    const interval = typeof first === 'string' && typeof last === 'string' ? parseInterval(`${first}-${last}`) : null;
    const networks =
      interval === null ? [] : networksIn(interval).map(({family, base, prefix}) => ({addr: formatAddress(family, base), len: prefix}));
    const {addresses} = this.#replacements;
    if (networks.every(({addr, len}) => addresses.base(addr, len) === addr)) return [{range: [first, last]}];
    return networks.map(network => ({prefix: this.#prefix(network)}));
  }

  /** `numgen random mod n map { 0 : …, 1 : … }`: the endpoints are in their order. */
  #numbered(value: Fields & {readonly data: {readonly set: readonly (readonly [unknown, unknown])[]}}): Fields {
    const {set} = value.data;
    const fresh = set.map(([, target]) => this.part(target, ''));
    const order = newOrder(
      set.map(([, target]) => target),
      fresh,
    );
    return {...this.#fields(value), data: {set: set.map(([number], place) => [number, fresh[order?.[place] ?? place]])}};
  }
}

/** Where a text is the name of an interface. */
const interfaceKey = 'dev';

function isInterface(left: unknown): boolean {
  const key = isObject(left) && isObject(left['meta']) ? String(left['meta']['key']) : '';
  return /^(?:[iosd]*i?f?name|[io]if|[io]brname|sdif)$/.test(key);
}

/** Keys whose text names an object of the table, or one that somebody made. */
const nameKeys = new Set([
  'name',
  'target',
  'chain',
  'counter',
  'quota',
  'limit',
  'synproxy',
  'secmark',
  'flowtable',
  'ct helper',
  'ct timeout',
  'ct expectation',
]);

function isOfSomebody(left: unknown): boolean {
  const key = isObject(left) && isObject(left['meta']) ? left['meta']['key'] : null;
  return (
    /^(?:skuid|skgid|rtclassid|iifgroup|oifgroup|cgroup)$/.test(String(key)) ||
    (isObject(left) && ('socket' in left || JSON.stringify(left).includes('"label"')))
  );
}

function withoutWords(value: unknown): unknown {
  if (typeof value === 'string') return 'name';
  if (Array.isArray(value)) return value.map(withoutWords);
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([key, part]) => [isKnownText(key) ? key : 'name', withoutWords(part)]))
    : value;
}

/** `10.0.0.1`, `10.0.0.0/8` and `10.0.0.1-10.0.0.9`; null if there are other elements. */
function addressTexts(elements: unknown): readonly string[] | null {
  if (!Array.isArray(elements)) return null;
  const texts = elements.map((element: unknown) => {
    if (!isObject(element)) return String(element);
    const {prefix, range} = element;
    if (isObject(prefix)) return `${prefix['addr']}/${prefix['len']}`;
    return Array.isArray(range) ? range.join('-') : '';
  });
  return mergeAddresses(texts) === null ? null : texts;
}

function addressElement(text: string): unknown {
  const [addr, len] = text.split('/');
  if (len !== undefined) return {prefix: {addr, len: Number(len)}};
  return text.includes('-') ? {range: text.split('-')} : text;
}

function isNumbered(value: Fields): value is Fields & {readonly data: {readonly set: readonly (readonly [unknown, unknown])[]}} {
  const {key, data} = value;
  return isObject(key) && 'numgen' in key && isObject(data) && Array.isArray(data['set']) && data['set'].every(Array.isArray);
}

/** Rules for returning clients, one for each endpoint, are in the order of the endpoints too. */
function inOrder(fresh: readonly unknown[], old: readonly unknown[]): readonly unknown[] {
  const result = [...fresh];
  for (let start = 0; start < old.length; ) {
    let end = start + 1;
    if (affinityTarget(old[start]) !== null)
      while (end < old.length && chainOf(old[end]) === chainOf(old[start]) && affinityTarget(old[end]) !== null) end++;
    const order = newOrder(old.slice(start, end).map(affinityTarget), fresh.slice(start, end).map(affinityTarget));
    for (const [place, index] of (order ?? []).entries())
      result[start + place] = {rule: {...ruleOf(fresh[start + place]), expr: ruleOf(fresh[start + index])?.['expr']}};
    start = end;
  }
  return result;
}

function newOrder(old: readonly unknown[], fresh: readonly unknown[]): readonly number[] | null {
  const [before, after] = [old.map(endpointOf), fresh.map(endpointOf)];
  return before.includes(null) || after.includes(null) ? null : sortedOrder(before.map(String), after.map(String));
}

/** `{"goto": {"target": "endpoint-…"}}` or `{"concat": ["10.0.0.1", 80]}`. */
function endpointOf(target: unknown): string | null {
  if (!isObject(target)) return null;
  const {goto, concat} = target;
  if (isObject(goto) && typeof goto['target'] === 'string') return nftEndpoint(goto['target']);
  if (!Array.isArray(concat)) return null;
  const [address, port] = concat;
  return joinHostPort(String(address), String(port));
}

function ruleOf(object: unknown): Fields | null {
  return isObject(object) && isObject(object['rule']) ? object['rule'] : null;
}

function chainOf(object: unknown): unknown {
  const rule = ruleOf(object);
  return `${rule?.['family']} ${rule?.['chain']}`;
}

/** The jump of a rule for the clients of one endpoint; null for all others. */
function affinityTarget(object: unknown): Fields | null {
  const expressions = ruleOf(object)?.['expr'];
  if (!Array.isArray(expressions) || expressions.length !== 2) return null;
  const [, target] = expressions;
  return isObject(target) && endpointOf(target) !== null ? target : null;
}

/** `service-HASH-namespace/name/protocol/port`, and for an endpoint `__address/port` behind it, with dots in place of the colons of IPv6. */
const nameOfPort =
  /^(?<role>service|local|external|firewall|endpoint|affinity)-(?<hash>[A-Z2-7]{8})-(?<content>(?<namespace>[^/]+)\/(?<service>[^/]+)\/(?<protocol>[a-z]+)\/(?<port>[^_]*)(?:__(?<address>[^/]+)\/(?<endpointPort>\d+))?)$/;

/** The new name of a chain or set: for those of a Service port or an endpoint, the name that kube-proxy would derive from the new names. */
export function redactNftName(name: string, {names, addresses, hash: keyed}: Replacements): string {
  const {groups} = nameOfPort.exec(name) ?? {};
  if (groups === undefined) return name.includes('/') ? `name-${keyed.letters('nft', name, 12)}` : name;
  const {role, hash = '', content = '', namespace = '', service = '', protocol, port = '', address, endpointPort} = groups;
  const owner = `${names.replace(namespace, 'namespace')}/${names.replace(service, 'service')}/${protocol}/${names.port(port)}`;
  const plain = plainAddress(address ?? '');
  const endpoint = address === undefined ? '' : `__${(addresses.replace(plain) ?? plain).replaceAll(':', '.')}/${endpointPort}`;
  const isRight = hash8(content) === hash;
  return `${role}-${isRight ? hash8(owner + endpoint) : keyed.letters('nft', hash, 8).toUpperCase()}-${owner}${endpoint}`;
}

/** The new name of a chain, set or other object of a table. In tables of other programs, they are named as in iptables. */
export function redactObjectName(name: string, isKubeProxys: boolean, replacements: Replacements): string {
  if (isKubeProxys && (nameOfPort.test(name) || kubeProxyNames.has(name))) return redactNftName(name, replacements);
  return commonTables.has(name) ? name : replacements.chains.replace(name);
}

/** Names of tables that every cluster may have. */
export const commonTables: ReadonlySet<string> = new Set(['kube-proxy', 'filter', 'nat', 'mangle', 'raw', 'security', 'firewalld']);

/** The chains, sets and maps of kube-proxy that are not of one Service. */
const kubeProxyNames = wordSet(`
  services service-endpoints-check nodeport-endpoints-check cluster-ips-check firewall-check firewall-allow-check reject-chain masquerading
  mark-for-masquerade nat-prerouting nat-postrouting nat-output filter-prerouting filter-prerouting-pre-dnat filter-input filter-forward
  filter-output filter-output-pre-dnat filter-output-post-dnat cluster-ips nodeport-ips service-ips service-nodeports no-endpoint-services
  no-endpoint-nodeports firewall-ips firewall-allow hairpin-connections
`);

/** The endpoint (`address:port`) in a chain's name; null for other chains. */
function nftEndpoint(name: string): string | null {
  const {address, endpointPort = ''} = nameOfPort.exec(name)?.groups ?? {};
  return address === undefined ? null : joinHostPort(plainAddress(address), endpointPort);
}

function plainAddress(written: string): string {
  return parseAddress(written) === null ? written.replaceAll('.', ':') : written;
}
