import {type Family, parseCidr} from '../../model/address.ts';
import {mostCommon} from '../../model/lists.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import {type Rule, type Ruleset, optionOf} from '../../model/ruleset.ts';
import type {KubeProxyFields} from '../../parse/kube-proxy/kube-proxy-config.ts';
import {parseRule} from '../../parse/iptables/rule.ts';
import {chainsOfRoles, masqueradingChains, parseChainName} from './chain-names.ts';
import {interfaceDetector, type SeenDetector} from '../node-context.ts';
import {aboutMinor} from '../patch-releases.ts';

/** What a node's rules show of the kube-proxy that wrote them. Used if there is no other source. */
export interface InferredConfig extends KubeProxyFields {
  readonly version?: KubeProxyVersion;
}

/** Infers kube-proxy's settings from its rules: most Services agree on them, even if some are broken. */
export function inferConfig(rulesets: ReadonlyMap<Family, Ruleset>): InferredConfig {
  const all = [...rulesets.values()];
  if (!all.some(holdsServiceRules)) {
    if (all.some(ruleset => portals.some(name => (ruleset.chain('nat', name)?.ruleCount ?? 0) > 0))) return {mode: 'userspace'};
    return all.some(holdsEntries) ? {version: fingerprint(rulesets)} : {};
  }
  const detectors = all.map(ruleset => usualDetector(ruleset));
  const pods = all.map((ruleset, index) => podDetector(ruleset, detectors[index] ?? null));
  const bit = masqueradeBit(all);
  return {
    ...detectorFields(pods),
    masqueradeAll: detectors.includes('all'),
    ...(bit === undefined ? {} : {masqueradeBit: bit}),
    nodePortAddresses: nodePortAddressesOf(all),
    localhostNodePorts: !all.some(ruleset => tail(ruleset).some(rule => negatesLoopback(rule))),
    tcpBeLiberal: !all.some(ruleset => (ruleset.chain('filter', 'KUBE-FORWARD')?.text() ?? '').includes('--ctstate INVALID')),
    version: fingerprint(rulesets),
  };
}

/** How the rules of most Services distinguish pods from other clients; null if none does. */
export function usualDetector(ruleset: Ruleset): SeenDetector | null {
  const seen: SeenDetector[] = [];
  for (const chain of masqueradingChains(ruleset)) {
    for (const line of chain.text().split('\n')) {
      if (!line.endsWith('-j KUBE-MARK-MASQ') || !line.includes(' cluster IP"')) continue;
      seen.push(detectorIn(line) ?? detectorOf(parseRule(line, {table: 'nat', chain: chain.name, line: 0})));
      if (chain.name !== 'KUBE-SERVICES') break;
    }
  }
  const usual = mostCommon(seen) ?? null;
  return usual !== null && usual !== 'all' && usual.kind === 'cidr' ? cidrDetector(parseCidr(usual.cidr)?.text ?? usual.cidr) : usual;
}

/** By far most rules begin with the network: to parse each would take longer than all else here. */
function detectorIn(line: string): SeenDetector | null {
  const source = /^-A \S+ ! -s (\S+) -d /.exec(line)?.[1];
  return source === undefined ? null : cidrDetector(source);
}

function detectorOf({options}: Rule): SeenDetector {
  const source = options.find(({flag, negated}) => flag === '-s' && negated)?.values[0];
  if (source !== undefined) return cidrDetector(source);
  const link = options.find(({flag, negated}) => flag === '-i' && negated)?.values[0];
  return link === undefined ? 'all' : interfaceDetector(link);
}

/** With masqueradeAll, and in a truncated dump, only the bypass for external traffic distinguishes pods from other clients. */
function podDetector(ruleset: Ruleset, usual: SeenDetector | null): SeenDetector | null {
  return usual === null || usual === 'all' ? externalDetector(ruleset) : usual;
}

function externalDetector(ruleset: Ruleset): SeenDetector | null {
  for (const chain of chainsOfRoles(ruleset, ['EXT', 'XLB'])) {
    const rule = chain.text().includes('pod traffic for') || chain.name.startsWith('KUBE-XLB-') ? chain.rules()[0] : undefined;
    const option = rule?.options.find(({flag, negated}) => (flag === '-s' || flag === '-i') && !negated);
    if (option?.values[0] !== undefined) return option.flag === '-s' ? cidrDetector(option.values[0]) : interfaceDetector(option.values[0]);
  }
  return null;
}

function cidrDetector(cidr: string): SeenDetector {
  return {kind: 'cidr', cidr};
}

/** The settings by which kube-proxy detects pods as the rules of its families show it. */
export function detectorFields(seen: readonly (SeenDetector | null)[]): KubeProxyFields {
  const found = seen.filter(detector => detector !== null && detector !== 'all');
  const clusterCIDRs = found.flatMap(detector => (detector.kind === 'cidr' ? [detector.cidr] : []));
  const [name] = found.flatMap(detector => (detector.kind === 'interface' ? [detector.name] : []));
  if (name?.endsWith('+')) return {clusterCIDRs, detectLocalMode: 'InterfaceNamePrefix', interfaceNamePrefix: name.slice(0, -1)};
  return name === undefined ? {clusterCIDRs} : {clusterCIDRs, detectLocalMode: 'BridgeInterface', bridgeInterface: name};
}

/**
 * Undefined for a mark of several bits, such as the four letters `MASQ` of kube-proxy 1.1: later versions cannot be configured like this.
 */
function masqueradeBit(rulesets: readonly Ruleset[]): number | undefined {
  const marks = rulesets.flatMap(
    ruleset => /--(?:set-xmark|or-mark|set-mark) (0x[0-9a-f]+)/.exec(ruleset.chain('nat', 'KUBE-MARK-MASQ')?.text() ?? '')?.[1] ?? [],
  );
  const bit = marks.map(mark => Math.log2(Number(mark))).find(Number.isInteger);
  return bit ?? (marks.length === 0 ? 14 : undefined);
}

function tail(ruleset: Ruleset): readonly Rule[] {
  return (ruleset.chain('nat', 'KUBE-SERVICES')?.rules() ?? []).filter(({target}) => target?.name === 'KUBE-NODEPORTS');
}

/** A family without a jump to node ports, while the other family's jumps name addresses, has no address in any of the CIDRs. */
function nodePortAddressesOf(rulesets: readonly Ruleset[]): readonly string[] {
  const given = rulesets.flatMap(ruleset => tail(ruleset).flatMap(rule => optionOf(rule, '-d') ?? []));
  const without = rulesets.filter(ruleset => tail(ruleset).length === 0 && ruleset.chain('nat', 'KUBE-SERVICES') !== undefined);
  return given.length === 0 ? [] : [...given, ...without.map(({family}) => (family === 'IPv4' ? '0.0.0.0/32' : '::/128'))];
}

function negatesLoopback({options}: Rule): boolean {
  return options.some(({flag, negated, values}) => flag === '-d' && negated && values[0] === '127.0.0.0/8');
}

/** The newest version that matches, by rules that only some versions write. */
function fingerprint(rulesets: ReadonlyMap<Family, Ruleset>): KubeProxyVersion {
  const all = [...rulesets.values()];
  const six = rulesets.get('IPv6');
  if (!all.some(showsFilter)) return aboutMinor(minorOfNat(all));
  if (!has(all, 'filter', 'KUBE-PROXY-FIREWALL')) return aboutMinor(minorBefore125(all));
  const writesFirewall =
    six === undefined
      ? says(all, 'filter', 'KUBE-FIREWALL', 'block incoming localnet')
      : six.chain('filter', 'KUBE-FIREWALL') !== undefined;
  if (writesFirewall || says(all, 'filter', 'KUBE-FORWARD', 'nfacct')) return aboutMinor(36);
  return aboutMinor(six !== undefined && (six.chain('nat', 'KUBE-SERVICES')?.text() ?? '').includes('! -d ::1/128') ? 26 : 25);
}

/** In pasted text, rules that are missing from table filter prove nothing. */
function showsFilter({tables, truncation}: Ruleset): boolean {
  const filter = tables.get('filter');
  return (
    filter !== undefined &&
    (filter.complete || truncation !== null || ['KUBE-FORWARD', 'KUBE-PROXY-FIREWALL'].some(name => filter.chains.has(name)))
  );
}

const portals = ['KUBE-PORTALS-CONTAINER', 'KUBE-PORTALS-HOST', 'KUBE-NODEPORT-CONTAINER', 'KUBE-NODEPORT-HOST'];

/** An excerpt may contain only the chains of a few Services. */
function holdsServiceRules(ruleset: Ruleset): boolean {
  if (ruleset.chain('nat', 'KUBE-SERVICES') !== undefined) return true;
  return chainsOfRoles(ruleset, ['SVC', 'SVL', 'EXT', 'FW', 'XLB', 'SEP']).next().done !== true;
}

/** Refusals and node ports, which have their versions' form, without the chains of Services. */
function holdsEntries(ruleset: Ruleset): boolean {
  const places = [
    ...['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES'].map(name => ['filter', name] as const),
    ['nat', 'KUBE-NODEPORTS'] as const,
  ];
  return places.some(([table, name]) => (ruleset.chain(table, name)?.ruleCount ?? 0) > 0);
}

/** A table that is missing from the dump proves nothing: an excerpt of table nat may be from any version with such rules. */
function minorOfNat(all: readonly Ruleset[]): number {
  if (says(all, 'filter', 'KUBE-SERVICES', '--dst-type LOCAL') || says(all, 'filter', 'INPUT', '-j KUBE-SERVICES')) return 18;
  const chains = all.flatMap(ruleset => [...(ruleset.tables.get('nat')?.chains.values() ?? [])]);
  const holds = (role: string, pattern: RegExp): boolean =>
    chains.some(chain => parseChainName(chain.name)?.role === role && pattern.test(chain.text()));
  if (usesLocalChains(all)) {
    if (all.some(endsNamesWithColon)) return 18;
    if (holds('SVC', /-j KUBE-MARK-MASQ/)) return holds('XLB', /"Balancing rule /) ? 22 : 23;
    return says(all, 'nat', 'KUBE-SERVICES', '-j KUBE-MARK-MASQ') || says(all, 'nat', 'KUBE-NODEPORTS', '-j KUBE-MARK-MASQ') ? 21 : 23;
  }
  if (holds('SVC', / -> \S+"/)) return 36;
  if (chains.some(({name}) => ['EXT', 'SVL'].includes(parseChainName(name)?.role ?? ''))) return 36;
  if (all.some(endsNamesWithColon)) return 18;
  if (holds('SVC', /-j KUBE-MARK-MASQ/)) return 23;
  return says(all, 'nat', 'KUBE-SERVICES', '-j KUBE-MARK-MASQ') || says(all, 'nat', 'KUBE-NODEPORTS', '-j KUBE-MARK-MASQ') ? 21 : 36;
}

/** Up to 1.23, rules of other chains jump to KUBE-XLB. Nothing jumps to chains that 1.24 and later left behind. */
export function usesLocalChains(all: readonly Ruleset[]): boolean {
  return all.some(({tables}) =>
    [...(tables.get('nat')?.chains.startingWith('KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-FW-') ?? [])].some(chain =>
      / -j KUBE-XLB-/.test(chain.text()),
    ),
  );
}

function minorBefore125(all: readonly Ruleset[]): number {
  const roles = new Set(
    all.flatMap(ruleset => [...(ruleset.tables.get('nat')?.chains.keys() ?? [])].map(name => parseChainName(name)?.role)),
  );
  if (roles.has('EXT')) return 24;
  if (says(all, 'filter', 'KUBE-FORWARD', 'forwarding conntrack rule')) return 23;
  if (has(all, 'filter', 'KUBE-NODEPORTS')) return says(all, 'nat', 'KUBE-SERVICES', '-j KUBE-MARK-MASQ') ? 21 : 22;
  const oldMasquerade = all.some(ruleset => /--mark \S+ -j MASQUERADE/.test(ruleset.chain('nat', 'KUBE-POSTROUTING')?.text() ?? ''));
  if (!oldMasquerade && !all.some(endsNamesWithColon)) return has(all, 'filter', 'KUBE-FORWARD') ? 20 : 21;
  const whole = all.filter(ruleset => ruleset.tables.get('filter')?.complete === true);
  if (whole.length === 0) return 18;
  if (!has(whole, 'filter', 'KUBE-EXTERNAL-SERVICES')) return 5;
  if (!says(whole, 'filter', 'FORWARD', '-j KUBE-SERVICES')) return 13;
  if (!has(whole, 'filter', 'KUBE-PROXY-CANARY')) return 14;
  return /-[sd] \S+ -m comment --comment "kubernetes forwarding conntrack/.test(whole[0]?.chain('filter', 'KUBE-FORWARD')?.text() ?? '')
    ? 17
    : 18;
}

function has(rulesets: readonly Ruleset[], table: string, chain: string): boolean {
  return rulesets.some(ruleset => ruleset.chain(table, chain) !== undefined);
}

function says(rulesets: readonly Ruleset[], table: string, chain: string, text: string): boolean {
  return rulesets.some(ruleset => ruleset.chain(table, chain)?.text().includes(text));
}

/** Up to 1.19: `"default/web: cluster IP"` for a port without a name. */
function endsNamesWithColon(ruleset: Ruleset): boolean {
  const chains = ['nat', 'filter'].flatMap(table => [...(ruleset.tables.get(table)?.chains.values() ?? [])]);
  return chains.some(chain => /"[^"/ ]+\/[^":/ ]+:(?: [^"]*)?"/.test(chain.text()));
}
