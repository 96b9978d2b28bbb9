import {parseCidr} from '../../model/address.ts';
import type {Family} from '../../model/family.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';
import type {KubeProxyFields} from '../../parse/kube-proxy-config.ts';
import {parseRule} from '../../parse/rule.ts';
import {parseChainName} from './names.ts';

/** What a node's rules show of the kube-proxy that wrote them, for where nothing else tells. */
export interface InferredConfig extends KubeProxyFields {
  readonly version?: KubeProxyVersion;
}

/** Reads kube-proxy's settings off its rules: most Services agree on them, whatever is wrong with some. */
export function inferConfig(rulesets: ReadonlyMap<Family, Ruleset>): InferredConfig {
  const all = [...rulesets.values()];
  if (!all.some(ruleset => ruleset.chain('nat', 'KUBE-SERVICES') !== undefined)) return {};
  const detectors = all.map(ruleset => usualDetector(ruleset));
  const pods = all.map((ruleset, index) => (detectors[index]?.kind === 'all' ? externalDetector(ruleset) : (detectors[index] ?? null)));
  const cidrs = pods.flatMap(detector => (detector?.kind === 'cidr' ? [detector.value] : []));
  const link = pods.find(detector => detector?.kind === 'interface')?.value;
  return {
    clusterCIDRs: cidrs,
    ...(link === undefined ? {} : interfaceFields(link)),
    masqueradeAll: detectors.some(detector => detector?.kind === 'all'),
    masqueradeBit: masqueradeBit(all),
    nodePortAddresses: nodePortAddressesOf(all),
    localhostNodePorts: !all.some(ruleset => tail(ruleset).some(rule => negatesLoopback(rule))),
    tcpBeLiberal: !all.some(ruleset => (ruleset.chain('filter', 'KUBE-FORWARD')?.text() ?? '').includes('--ctstate INVALID')),
    version: fingerprint(rulesets),
  };
}

export type SeenDetector = {readonly kind: 'cidr' | 'interface'; readonly value: string} | {readonly kind: 'all'; readonly value: ''};

/** How most Services tell pods from other clients; null when none of them does. */
export function usualDetector(ruleset: Ruleset): SeenDetector | null {
  const votes = new Map<string, {detector: SeenDetector; count: number}>();
  for (const chain of ruleset.tables.get('nat')?.chains.values() ?? []) {
    const role = parseChainName(chain.name)?.role;
    if (role !== 'SVC' && role !== 'SVL' && chain.name !== 'KUBE-SERVICES') continue;
    for (const line of chain.text().split('\n')) {
      if (!line.endsWith('-j KUBE-MARK-MASQ') || !line.includes(' cluster IP"')) continue;
      const detector = detectorOf(parseRule(line, {table: 'nat', chain: chain.name, line: 0}));
      const key = `${detector.kind} ${detector.value}`;
      votes.set(key, {detector, count: (votes.get(key)?.count ?? 0) + 1});
      if (role !== undefined) break;
    }
  }
  return [...votes.values()].sort((a, b) => b.count - a.count)[0]?.detector ?? null;
}

function detectorOf({options}: Rule): SeenDetector {
  const source = options.find(({flag, negated}) => flag === '-s' && negated)?.values[0];
  if (source !== undefined) return {kind: 'cidr', value: parseCidr(source)?.text ?? source};
  const link = options.find(({flag, negated}) => flag === '-i' && negated)?.values[0];
  return link === undefined ? {kind: 'all', value: ''} : {kind: 'interface', value: link};
}

/** With masqueradeAll, pods are told from others only where external traffic is cut short to all endpoints. */
function externalDetector(ruleset: Ruleset): SeenDetector | null {
  for (const chain of ruleset.tables.get('nat')?.chains.values() ?? []) {
    const role = parseChainName(chain.name)?.role;
    if (role !== 'EXT' && role !== 'XLB') continue;
    const rule = chain.text().includes('pod traffic for') || role === 'XLB' ? chain.rules()[0] : undefined;
    const option = rule?.options.find(({flag, negated}) => (flag === '-s' || flag === '-i') && !negated);
    if (option?.values[0] !== undefined) return {kind: option.flag === '-s' ? 'cidr' : 'interface', value: option.values[0]};
  }
  return null;
}

function interfaceFields(link: string): KubeProxyFields {
  return link.endsWith('+')
    ? {detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: link.slice(0, -1)}
    : {detectLocalMode: 'BridgeInterface', bridgeInterface: link};
}

function masqueradeBit(rulesets: readonly Ruleset[]): number {
  for (const ruleset of rulesets) {
    const mark = /--(?:set-xmark|or-mark|set-mark) (0x[0-9a-f]+)/.exec(ruleset.chain('nat', 'KUBE-MARK-MASQ')?.text() ?? '');
    const bit = mark === null ? Number.NaN : Math.log2(Number(mark[1]));
    if (Number.isInteger(bit)) return bit;
  }
  return 14;
}

function tail(ruleset: Ruleset): readonly Rule[] {
  return (ruleset.chain('nat', 'KUBE-SERVICES')?.rules() ?? []).filter(({target}) => target?.name === 'KUBE-NODEPORTS');
}

/** A family without any jump to its node ports, beside one whose jumps name addresses, is one whose addresses none of the CIDRs holds. */
function nodePortAddressesOf(rulesets: readonly Ruleset[]): readonly string[] {
  const given = rulesets.flatMap(nodePortAddresses);
  const without = rulesets.filter(ruleset => tail(ruleset).length === 0 && ruleset.chain('nat', 'KUBE-SERVICES') !== undefined);
  return given.length === 0 ? [] : [...given, ...without.map(({family}) => (family === 'IPv4' ? '0.0.0.0/32' : '::/128'))];
}

function nodePortAddresses(ruleset: Ruleset): readonly string[] {
  return tail(ruleset).flatMap(({options}) => options.find(({flag, negated}) => flag === '-d' && !negated)?.values[0] ?? []);
}

function negatesLoopback({options}: Rule): boolean {
  return options.some(({flag, negated, values}) => flag === '-d' && negated && values[0] === '127.0.0.0/8');
}

/** The newest version that fits, by what only some versions write. */
function fingerprint(rulesets: ReadonlyMap<Family, Ruleset>): KubeProxyVersion {
  const all = [...rulesets.values()];
  const has = (table: string, chain: string): boolean => all.some(ruleset => ruleset.chain(table, chain) !== undefined);
  const says = (table: string, chain: string, text: string): boolean =>
    all.some(ruleset => ruleset.chain(table, chain)?.text().includes(text));
  const roles = new Set(
    all.flatMap(ruleset => [...(ruleset.tables.get('nat')?.chains.keys() ?? [])].map(name => parseChainName(name)?.role)),
  );
  const six = rulesets.get('IPv6');
  if (!has('filter', 'KUBE-PROXY-FIREWALL')) {
    if (roles.has('EXT')) return minor(24);
    if (says('filter', 'KUBE-FORWARD', 'forwarding conntrack rule')) return minor(23);
    return says('nat', 'KUBE-SERVICES', '-j KUBE-MARK-MASQ') ? minor(21) : minor(22);
  }
  const writesFirewall =
    six === undefined ? says('filter', 'KUBE-FIREWALL', 'block incoming localnet') : six.chain('filter', 'KUBE-FIREWALL') !== undefined;
  if (writesFirewall || says('filter', 'KUBE-FORWARD', 'nfacct')) return minor(36);
  return six !== undefined && (six.chain('nat', 'KUBE-SERVICES')?.text() ?? '').includes('! -d ::1/128') ? minor(26) : minor(25);
}

function minor(number: number): KubeProxyVersion {
  return {text: `about v1.${number}`, minor: number, patch: 0, guessed: true};
}
