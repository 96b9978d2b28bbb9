import type {NftTable} from '../../model/nft-ruleset.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import type {InferredConfig} from '../iptables/infer-config.ts';
import {describeSeen, seenDetector, bypassDetector} from './seen-detector.ts';
import {localhostRejectChain, localhostRejectMap} from './localhost-node-ports.ts';
import {parseNftName} from './nft-names.ts';
import type {KubeProxyFields} from '../../parse/kube-proxy/kube-proxy-config.ts';

/** kube-proxy's settings as its tables show them. Used for nodes without another source. */
export function inferNftConfig(tables: readonly NftTable[]): InferredConfig {
  if (tables.length === 0) return {};
  const seen = tables.map(table => {
    const detector = seenDetector(table);
    return detector === null ? null : describeSeen(detector);
  });
  const masqueradeAll = seen.includes('all');
  const found = masqueradeAll ? tables.map(bypassDetector) : seen;
  const cidrs = found.flatMap(detector => (detector !== null && detector !== 'all' && detector.kind === 'cidr' ? [detector.cidr] : []));
  return {
    mode: 'nftables',
    clusterCIDRs: cidrs,
    ...(found.map(interfaceFields).find(fields => fields.detectLocalMode !== undefined) ?? {}),
    ...{masqueradeAll, nftMasqueradeAll: masqueradeAll, nftMasqueradeBit: masqueradeBit(tables)},
    nodePortAddresses: [...nodePortAddresses(tables), ...listenedLoopbacks(tables)],
    ...(tables.some(handlesLocalhost) ? {featureGates: {KubeProxyNFTablesLocalhostNodePorts: true}} : {}),
    tcpBeLiberal: !tables.some(table => (table.chain('forward')?.ruleCount ?? 0) > 0),
    version: fingerprint(tables),
  };
}

type Described = ReturnType<typeof describeSeen> | null;

function interfaceFields(detector: Described): KubeProxyFields {
  if (detector === null || detector === 'all') return {};
  if (detector.kind === 'bridge') return {detectLocalMode: 'BridgeInterface', bridgeInterface: detector.name};
  return detector.kind === 'prefix' ? {detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: detector.name} : {};
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
  if (tables.some(({sets}) => sets.has('hairpin-connections'))) return guessed(tables.some(mapsSingleEndpoint) ? 36 : 37);
  const has = (name: string): boolean => tables.some(({chains}) => chains.has(name));
  if (has('filter-prerouting-pre-dnat')) return guessed(tables.some(marksByPort) ? 33 : 35);
  return has('cluster-ips-check') ? guessed(32) : guessed(29);
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

function guessed(minor: number): KubeProxyVersion {
  return {text: `about v1.${minor}`, minor, patch: 0, guessed: true};
}
