import {once} from '../../model/once.ts';
import {parseCidr} from '../../model/address.ts';
import {mostCommon} from '../../model/lists.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import {detectorFields, type InferredConfig} from '../iptables/infer-config.ts';
import {interfaceDetector, type SeenDetector} from '../node-context.ts';
import {isServiceCIDRRule} from './base-chains.ts';
import {localhostRejectChain, localhostRejectMap, parseNftName} from './nft-names.ts';
import {aboutMinor} from '../patch-releases.ts';

/** kube-proxy's settings as its tables show them. Used for nodes without another source. */
export function inferNftConfig(tables: readonly NftTable[]): InferredConfig {
  if (tables.length === 0) return {};
  const seen = tables.map(seenDetector);
  const masqueradeAll = seen.includes('all');
  return {
    mode: 'nftables',
    ...detectorFields(masqueradeAll ? tables.map(bypassDetector) : seen),
    masqueradeAll,
    nftMasqueradeAll: masqueradeAll,
    nftMasqueradeBit: masqueradeBit(tables),
    nodePortAddresses: [...nodePortAddresses(tables), ...listenedLoopbacks(tables)],
    ...(tables.some(handlesLocalhost) ? {featureGates: {KubeProxyNFTablesLocalhostNodePorts: true}} : {}),
    tcpBeLiberal: !tables.some(table => (table.chain('forward')?.ruleCount ?? 0) > 0),
    version: fingerprint(tables),
  };
}

function masqueradeBit(tables: readonly NftTable[]): number {
  for (const table of tables) {
    const mark = /meta mark & (0x[0-9a-f]+)/.exec(table.chain('masquerading')?.text() ?? '');
    const bit = mark === null ? Number.NaN : Math.log2(Number(mark[1]));
    if (Number.isInteger(bit)) return bit;
  }
  return 14;
}

/** A family without a set of addresses answers on all addresses. */
function nodePortAddresses(tables: readonly NftTable[]): readonly string[] {
  return tables.flatMap(table => {
    const set = table.set('nodeport-ips');
    if (set === undefined) return [table.family === 'ip' ? '0.0.0.0/0' : '::/0'];
    const addresses = [...set.elements.keys()];
    return addresses.length > 0 ? addresses : [table.family === 'ip' ? '0.0.0.0/32' : '::/128'];
  });
}

function handlesLocalhost({sets}: NftTable): boolean {
  return sets.has(localhostRejectMap);
}

/** kube-proxy listens for TCP itself if no chain rejects TCP. */
function listenedLoopbacks(tables: readonly NftTable[]): readonly string[] {
  const listened = tables.filter(table => handlesLocalhost(table) && !table.chains.has(localhostRejectChain('tcp')));
  return listened.map(({family}) => (family === 'ip' ? '127.0.0.0/8' : '::1/128'));
}

/**
 * The newest version that matches, by objects that only some versions create. An upgrade leaves base chains behind, so only new objects
 * count.
 */
function fingerprint(tables: readonly NftTable[]): KubeProxyVersion {
  if (tables.some(({sets}) => sets.has('hairpin-connections'))) return aboutMinor(tables.some(mapsSingleEndpoint) ? 36 : 37);
  if (tables.some(filtersAfterDNAT)) return aboutMinor(tables.some(marksByPort) ? 33 : 35);
  const checks = tables.flatMap(table => table.chain('cluster-ips-check') ?? []);
  if (checks.length === 0) return aboutMinor(29);
  return aboutMinor(checks.some(chain => chain.rules().some(({body}) => isServiceCIDRRule(body))) ? 33 : 32);
}

/** The chains `…-pre-dnat` stay behind when an older kube-proxy follows, so the priority of the others counts. */
function filtersAfterDNAT(table: NftTable): boolean {
  return ['filter-output', 'filter-forward', 'filter-input'].some(name => table.chain(name)?.base?.priority === 0);
}

/** 1.36 uses a map even for a single endpoint. */
function mapsSingleEndpoint(table: NftTable): boolean {
  return [...table.chains.values()].some(
    chain => /^(?:service|local)-/.test(chain.name) && / dnat ip6? to numgen random mod 1 map /.test(chain.text()),
  );
}

function marksByPort(table: NftTable): boolean {
  for (const chain of table.chains.values()) {
    const role = parseNftName(chain.name)?.role;
    if (role !== 'service' && role !== 'local') continue;
    const mark = /^ip6? daddr \S+( \w+ dport \d+)?.* jump mark-for-masquerade/m.exec(chain.text());
    if (mark !== null) return mark[1] !== undefined;
  }
  return false;
}

/** Null if the table does not show it. From 1.36 on, one rule shows it for all Services; before, the majority of their chains decides. */
export function seenDetector(table: NftTable): SeenDetector | null {
  if (table.sets.has('hairpin-connections')) return inServicesChain(table);
  const seen = inner(table)
    .filter(({name}) => isInner(table, name))
    .map(({text}) => detectorOf(/^ip6? daddr \S+(?: (?:tcp|udp|sctp) dport \d+)?(.*) jump mark-for-masquerade/m.exec(text)));
  return seen.length < 3 ? null : (mostCommon(seen) ?? null);
}

function inServicesChain(table: NftTable): SeenDetector | null {
  const chain = table.chain('services');
  if (chain === undefined) return null;
  return detectorOf(/^ip6? daddr @cluster-ips(.*) meta mark set /m.exec(chain.text()));
}

/** The detector in the condition of the rule that masquerades other clients. */
function detectorOf(match: RegExpExecArray | null): SeenDetector {
  const text = (match?.[1] ?? '').trim();
  if (match !== null && text === '') return 'all';
  const link = /^iif(?:name)? != "(.+)"$/.exec(text)?.[1];
  if (link !== undefined) return interfaceDetector(link);
  const parsed = parseCidr(/^ip6? saddr != (\S+)$/.exec(text)?.[1] ?? '');
  return parsed === null ? {kind: 'none'} : {kind: 'cidr', cidr: parsed.text};
}

function inner(table: NftTable): readonly {readonly name: string; readonly text: string}[] {
  return [...table.chains.values()].flatMap(chain => {
    const role = parseNftName(chain.name)?.role;
    return (role === 'service' || role === 'local') && chain.ruleCount > 0 ? [{name: chain.name, text: chain.text()}] : [];
  });
}

const leadsOf = once((table: NftTable) => new Set([...(table.set('service-ips')?.elements.values() ?? [])].map(({value}) => value)));

/** A chain for a cluster IP, not only for external traffic. */
function isInner(table: NftTable, name: string): boolean {
  return leadsOf(table).has(`goto ${name}`);
}

/** The detector in the bypass for pods of external chains, which masqueradeAll does not change; null without such a rule. */
export function bypassDetector(table: NftTable): SeenDetector | null {
  for (const chain of table.chains.values()) {
    if (parseNftName(chain.name)?.role !== 'external') continue;
    const text = chain.text().replaceAll(/^(iif(?:name)?|ip6? saddr) /gm, '$1 != ');
    const match = /^(.*?) goto service-\S+ comment "short-circuit pod traffic"/m.exec(text);
    if (match !== null) return detectorOf(match);
  }
  return null;
}
