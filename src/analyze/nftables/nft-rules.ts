import type {NftMisprint, NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import {ruleTextOf} from '../../model/ruleset.ts';
import type {NodeDump} from '../../model/snapshot.ts';
import {isAtLeast} from '../../model/text.ts';
import {parseNftDump} from '../../parse/nftables/nft-dump.ts';
import {countsOf} from '../../parse/nftables/nft-elements.ts';

/**
 * A node's nftables; null if they were not read. The dump of the whole ruleset has precedence over that of kube-proxy's tables; if it is
 * truncated, these are taken from one that is not. One that was misprinted is used where there is no other.
 */
export function readNft(node: NodeDump): NftRuleset | null {
  let found: NftRuleset | null = null;
  for (const file of ['nft-ruleset.json', 'nft.json', 'nft.txt']) {
    const content = node.read(file);
    if (content === null || (content.length < 1024 && content.toString('utf8').trim() === '')) continue;
    const ruleset = parsed(content);
    if (found === null || (found.misprint !== undefined && ruleset.misprint === undefined)) found = ruleset;
    else if (ruleset.truncation === null && ruleset.misprint === undefined) return withTables(found, kubeProxyTables(ruleset));
    if (found.truncation === null && found.misprint === undefined) return found;
  }
  return found;
}

function parsed(content: Buffer): NftRuleset {
  const ruleset = parseNftDump(content);
  const misprint = mayBeMisprinted(content) ? misprintIn(ruleset) : null;
  return misprint === null ? ruleset : {...ruleset, misprint};
}

export function isMisprinted(content: Buffer): boolean {
  return mayBeMisprinted(content) && parsed(content).misprint !== undefined;
}

/**
 * What nft 1.0.2 prints for chains in maps, and 0.9.3 for networks: in text, and in JSON. kube-proxy writes neither. To search a large dump
 * takes time, and JSON has the version at its beginning.
 */
function mayBeMisprinted(content: Buffer): boolean {
  const version = /"metainfo": ?\{"version": ?"([\d.]+)"/.exec(content.toString('latin1', 0, 4096))?.[1];
  if (version !== undefined && isAtLeast(version, [1, 0, 4])) return false;
  return ['[invalid type]', '@nh,', '"nh"'].some(text => content.includes(text));
}

function misprintIn(ruleset: NftRuleset): NftMisprint | null {
  const rules = kubeProxyTables(ruleset)
    .flatMap(({chains}) => [...chains.values()])
    .flatMap(chain => chain.rules().filter(({text}) => misprinted.test(text)));
  const text = misprinted.exec(rules[0]?.text ?? '')?.[0];
  return text === undefined ? null : {text, rules: rules.slice(0, 3).map(ruleTextOf)};
}

const misprinted = /\[invalid type\]|@nh,\d+,\d+/;

/** Why no rule was checked; the version is in JSON only. */
export function whyNftMisprinted({text}: NftMisprint, version: string | null): string {
  return `the dump was made by ${version === null ? 'an nft' : `nft ${version}, which is`} older than the one that wrote the rules: they read as "${text}"`;
}

function withTables(ruleset: NftRuleset, whole: readonly NftTable[]): NftRuleset {
  const tables = new Map([...ruleset.tables, ...whole.map(table => [table.id, table] as const)]);
  const all = [...tables.values()];
  return {...ruleset, tables, tableSources: all, ...countsOf(all)};
}

/** kube-proxy's tables: `ip kube-proxy` and `ip6 kube-proxy`. */
export function kubeProxyTables(ruleset: NftRuleset | null): readonly NftTable[] {
  return ['ip kube-proxy', 'ip6 kube-proxy'].flatMap(id => ruleset?.tables.get(id) ?? []);
}

/**
 * An `nft -j list ruleset` without what kube-proxy wrote for other Services than these; null where the text is not whole. `addresses` are
 * those of other Services alone.
 */
export function narrowNftJson(text: string, to: NarrowTo, addresses: ReadonlySet<string>): string | null {
  const list = objectsIn(text);
  if (list === null) return null;
  const kept = list.flatMap(object => {
    const {chain, rule, set, map} = object;
    if (isChainOfOthers(chain?.name ?? rule?.chain ?? set?.name ?? map?.name ?? '', to)) return [];
    const isOwn = (element: unknown): boolean => !isElementOfOthers(element, to, addresses);
    if (set?.elem !== undefined) return [{...object, set: {...set, elem: set.elem.filter(isOwn)}}];
    if (map?.elem !== undefined) return [{...object, map: {...map, elem: map.elem.filter(isOwn)}}];
    return [object];
  });
  return JSON.stringify({nftables: kept});
}

interface NftContainer {
  readonly name: string;
  readonly elem?: readonly unknown[];
}

interface NftObject {
  readonly chain?: {readonly name: string};
  readonly rule?: {readonly chain: string};
  readonly set?: NftContainer;
  readonly map?: NftContainer;
}

function objectsIn(text: string): readonly NftObject[] | null {
  try {
    const {nftables} = JSON.parse(text) as {readonly nftables?: readonly NftObject[]};
    return Array.isArray(nftables) ? nftables : null;
  } catch (error) {
    // A truncated dump is read as far as it goes, and not narrowed.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** By the name of a chain or set. */
function isChainOfOthers(name: string, {services}: NarrowTo): boolean {
  const [, service] = /^(?:service|local|external|firewall|endpoint|affinity)-[A-Z0-9]{8}-([^/]+\/[^/]+)\//.exec(name) ?? [];
  return service !== undefined && !services.has(service);
}

function isElementOfOthers(element: unknown, to: NarrowTo, addresses: ReadonlySet<string>): boolean {
  if (typeof element === 'string') return addresses.has(element);
  const text = JSON.stringify(element);
  const [, chain] = /"target":"([^"]+)"/.exec(text) ?? [];
  if (chain?.includes('/')) return isChainOfOthers(chain, to);
  const [, service] = /"comment":"([^"/]+\/[^":]+)/.exec(text) ?? [];
  return service !== undefined && !to.services.has(service);
}

/** The Services that a narrowed dump is about. */
export interface NarrowTo {
  /** `namespace/name`. */
  readonly services: ReadonlySet<string>;
  /** The 16 characters in the names of their chains in iptables mode, in every state that they had. */
  readonly hashes: ReadonlySet<string>;
}
