import {append} from '../../model/lists.ts';
import {families, type Family, parseAddress} from '../../model/address.ts';
import {once} from '../../model/once.ts';
import type {ChainsByName, Rule, Ruleset, RuleText} from '../../model/ruleset.ts';
import {isAtLeast, plural} from '../../model/text.ts';
import {serviceChains} from './resolve-version.ts';

/** Rules that a dump does not show as they are: another version of iptables wrote them than the one that printed them. */
export interface Misprint {
  /** What is wrong with the text, in words. */
  readonly what: string;
  /** Of the program that printed the rules, compared with the one that wrote them. */
  readonly reader: 'older' | 'newer';
  /** The version that printed them; null if the text has no header. */
  readonly version: string | null;
  readonly rules: readonly RuleText[];
}

/**
 * The families whose rules were misprinted. A version alone proves nothing, because it prints its own rules correctly: what most of the
 * rules show that kube-proxy writes the same way does. One rule that differs from the others of its kind was changed on the node.
 */
export const misprintsOf = once((rulesets: ReadonlyMap<Family, Ruleset>): ReadonlyMap<Family, Misprint> => {
  const found = new Map<Family, Misprint>();
  for (const family of families) {
    const ruleset = rulesets.get(family);
    const misprint = ruleset === undefined ? null : misprintOf(ruleset, [...rulesets.values()]);
    if (misprint !== null) found.set(family, misprint);
  }
  return found;
});

/** Why a family was not checked. */
export function whyMisprinted({what, reader, version}: Misprint): string {
  const program = version === null ? 'an iptables' : `iptables ${version}, which is`;
  return `the dump was made by ${program} ${reader} than the one that wrote the rules: ${what}`;
}

export function misprintRemedy({reader}: Misprint): string {
  if (reader === 'newer') return 'Read the node with the iptables that wrote the rules: --transport exec uses the one of kube-proxy.';
  return 'Read the node with the iptables that wrote the rules (--transport exec uses the one of kube-proxy), or with 1.8.9 or later. Never restore rules from this dump.';
}

function misprintOf(ruleset: Ruleset, all: readonly Ruleset[]): Misprint | null {
  const {toolVersion: version} = ruleset;
  const invalid = invalidRules(ruleset);
  if (invalid.length > 0) return {...invalidTargets(invalid, version), version, rules: invalid};
  if (ruleset.backend === 'legacy') return null;
  const alike = all.filter(other => other.toolVersion === version).map(signsOf);
  for (const {kind, what} of kinds) {
    const {lost} = signsOf(ruleset)[kind];
    if (lost.length > 0 && isMost(alike, kind)) return {what: what(lost), reader: 'older', version, rules: lost};
  }
  return null;
}

/** 1.8.9 and later cannot print what 1.4 and 1.6 wrote; earlier ones cannot print what is newer than they are. */
function invalidTargets(rules: readonly RuleText[], version: string | null): Pick<Misprint, 'what' | 'reader'> {
  const isUnsupported = rules.some(({text}) => text.includes('[unsupported revision]'));
  const what = `the destination of DNAT rules reads as ${isUnsupported ? '"[unsupported revision]"' : '":0 --persistent" or 0.0.0.0:0'}`;
  return {what, reader: isUnsupported && version !== null && isAtLeast(version, [1, 8, 8]) ? 'newer' : 'older'};
}

/**
 * DNAT rules whose destination cannot be read: they show that another iptables wrote them than the one that printed them
 * (kubernetes#112477). One of many was changed on the node. Several checks of a node ask, and a large node has a quarter of a million such
 * chains.
 * @internal
 */
export const invalidRules = once(({tables}: Ruleset): readonly Rule[] => {
  const chains = tables.get('nat')?.chains;
  if (chains === undefined || !texts.some(text => chains.mayContain?.(text) ?? true)) return [];
  const invalid: Rule[] = [];
  let all = 0;
  for (const chain of chains.startingWith('KUBE-SEP-')) {
    all++;
    if (!pattern.test(chain.text())) continue;
    append(
      invalid,
      chain.rules().filter(({target}) => target?.name === 'DNAT'),
    );
  }
  return 2 * invalid.length > all ? invalid : [];
});

const pattern = /--to-destination (?::0|0\.0\.0\.0:0|\S+ --random --persistent)|DNAT \[unsupported revision\]/;

/** A rule that the pattern matches contains one of these. */
const texts = ['--to-destination :0', '--to-destination 0.0.0.0:0', ' --random --persistent', 'DNAT [unsupported revision]'];

type Kind = 'ports' | 'marks' | 'firewall' | 'loopback' | 'networks' | 'addresses';

interface Sign {
  readonly lost: readonly RuleText[];
  readonly kept: number;
}

type Signs = Readonly<Record<Kind, Sign>>;

/** Whether most rules of the kind show it. The rules of Services tell more than the base rules, which are few. */
function isMost(all: readonly Signs[], kind: Kind): boolean {
  const decisive = kind === 'marks' && all.some(({ports}) => ports.lost.length + ports.kept > 0) ? 'ports' : kind;
  const lost = all.reduce((sum, {[decisive]: sign}) => sum + sign.lost.length, 0);
  return lost > all.reduce((sum, {[decisive]: sign}) => sum + sign.kept, 0);
}

const kinds: readonly {readonly kind: Kind; readonly what: (rules: readonly RuleText[]) => string}[] = [
  {kind: 'ports', what: ({length}) => `${plural(length, 'rule')} of kube-proxy for TCP or UDP ${length === 1 ? 'shows' : 'show'} no port`},
  {kind: 'marks', what: () => "kube-proxy's rules for marked packets show no mark"},
  {kind: 'firewall', what: () => 'the rule of KUBE-FIREWALL that drops marked packets shows no mark'},
  {kind: 'loopback', what: () => 'the loopback network reads as 127.0.0.0/32'},
  {kind: 'networks', what: rules => `networks read as single addresses, such as ${addressIn(rules)}`},
  {kind: 'addresses', what: rules => `addresses read as other parts of their rules, such as ${addressIn(rules)}`},
];

function addressIn(rules: readonly RuleText[]): string {
  return / -[sd] (\S+\.0\/32|\S+::\/\d+|\S+)/.exec(rules[0]?.text ?? '')?.[1] ?? '';
}

/** What each kind of rule shows, and does not. A version that prints a kind correctly, whoever wrote it, has no signs. */
const signsOf = once((ruleset: Ruleset): Signs => {
  const isOf = (from: readonly number[], to: readonly number[]): boolean =>
    ruleset.toolVersion === null || (isAtLeast(ruleset.toolVersion, from) && !isAtLeast(ruleset.toolVersion, to));
  const [losesMatches, losesPrefixes, losesAddresses] = [
    isOf([1, 8, 0], [1, 8, 8]),
    isOf([1, 8, 0], [1, 8, 7]),
    isOf([1, 8, 8], [1, 8, 9]),
  ];
  return {
    ports: losesMatches ? portSigns(ruleset) : none,
    marks: losesMatches ? markSigns(ruleset) : none,
    firewall: losesMatches ? firewallSigns(ruleset, text => text.includes(firewallComment) && !text.includes(' --mark ')) : none,
    loopback: losesPrefixes ? firewallSigns(ruleset, text => / -d 127\.0\.0\.0\/32 /.test(text)) : none,
    networks: losesPrefixes ? networkSigns(ruleset) : none,
    addresses: losesAddresses ? addressSigns(ruleset) : none,
  };
});

const none: Sign = {lost: [], kept: 0};

/** kube-proxy writes no rule for TCP or UDP into these chains that has no port, in any version. */
const portChains = [...serviceChains, 'nat/KUBE-PORTALS-HOST', 'nat/KUBE-PORTALS-CONTAINER'];

function portSigns(ruleset: Ruleset): Sign {
  // In IPVS mode sets have the ports.
  const isOfPort = (text: string): boolean => / -p (?:tcp|udp) /.test(text) && !text.includes(' --match-set ');
  // In a row of `iptables -L` the name of a port may be unknown, or its end be truncated.
  const isKept = (text: string): boolean => text.includes(' --dport ') || text.includes(' -m not-understood ');
  const found = signs(linesIn(ruleset, portChains), isOfPort, isKept);
  if (found.lost.length + found.kept > 0) return found;
  const own = linesOf(ruleset.tables.get('nat')?.chains, 'KUBE-SVC-', 'KUBE-SVL-');
  return signs(own, text => isOfPort(text) && text.endsWith(' -j KUBE-MARK-MASQ'), isKept);
}

/** Up to 1.18 the rule that masquerades has the mark; later one before it lets unmarked packets return. */
function markSigns(ruleset: Ruleset): Sign {
  const lines = linesIn(ruleset, ['nat/KUBE-POSTROUTING', 'filter/KUBE-FORWARD']);
  const returns = lines.some(({text}) => text.endsWith(' -j RETURN'));
  const isOfMark = (text: string): boolean =>
    / -j RETURN$|"kubernetes forwarding rules" .*-j ACCEPT$/.test(text) || (!returns && / requiring SNAT" .*-j MASQUERADE/.test(text));
  return signs(lines, isOfMark, text => text.includes(' --mark '));
}

/** The kubelet writes this chain up to 1.26, with the iptables of the host: it may be misprinted where the rules of kube-proxy are not. */
function firewallSigns(ruleset: Ruleset, isLost: (text: string) => boolean): Sign {
  return {lost: linesIn(ruleset, ['filter/KUBE-FIREWALL']).filter(({text}) => isLost(text)), kept: 0};
}

const firewallComment = '"kubernetes firewall for dropping marked packets"';

/** Prefixes of whole bytes are lost, and others never: those of pods, and of loopback addresses. */
function networkSigns(ruleset: Ruleset): Sign {
  const own = linesOf(ruleset.tables.get('nat')?.chains, 'KUBE-SVC-', 'KUBE-SVL-', 'KUBE-EXT-', 'KUBE-XLB-');
  const lines = [...linesIn(ruleset, ['nat/KUBE-NODEPORTS', 'nat/KUBE-SERVICES']), ...own];
  const isOfNetwork = (text: string): boolean => lostNetwork.test(text) || keptNetwork.test(text);
  return signs(lines, isOfNetwork, text => !lostNetwork.test(text));
}

const lostNetwork = / -s (?:\d+\.){3}0\/32 | -s [\da-f:]+::\/128 | -d 127\.0\.0\.0\/32 /;
const keptNetwork = / -s \S+\/(?:8|16|24|40|48|56|64|72|80|88|96) | -d 127\.0\.0\.0\/8 /;

/** In place of the address, 1.8.8 prints what the next part of a rule of 1.8.10 compares: the protocol's number, or an interface. */
function addressSigns(ruleset: Ruleset): Sign {
  const lines = [...ruleset.tables.values()].flatMap(({chains}) => linesOf(chains, 'KUBE-'));
  return signs(lines, isOverwritten, () => false);
}

const protocolNumbers: Readonly<Record<string, string>> = {tcp: '6', udp: '11', sctp: '84', 'ipv6-icmp': '3a'};

function isOverwritten(text: string): boolean {
  const name = / -[io] ([^\s+]+)/.exec(text)?.[1];
  const number = protocolNumbers[/ -p (\S+)/.exec(text)?.[1] ?? ''];
  return [...text.matchAll(/ -[sd] (\S+)\/\d+/g)].some(([, address = '']) => {
    const asNumber = number === undefined ? null : `${number}00::`;
    return address === asNumber || (name !== undefined && isNameOf(address, name));
  });
}

/** The address is the first bytes of the name. */
function isNameOf(text: string, name: string): boolean {
  const address = parseAddress(text);
  if (address === null) return false;
  const length = address.family === 'IPv4' ? 4 : 16;
  const bytes = Array.from({length}, (_, at) => BigInt(name.charCodeAt(at) || 0));
  return bytes.reduce((value, byte) => value * 256n + byte, 0n) === address.value;
}

function signs(lines: readonly RuleText[], isOfKind: (text: string) => boolean, isKept: (text: string) => boolean): Sign {
  const own = lines.filter(({text}) => isOfKind(text));
  const lost = own.filter(({text}) => !isKept(text));
  return {lost, kept: own.length - lost.length};
}

function linesIn({tables}: Ruleset, places: readonly string[]): readonly RuleText[] {
  return places.flatMap(place => {
    const [table = '', chain = ''] = place.split('/');
    const chains = tables.get(table)?.chains;
    const at = chains?.placeOf(chain) ?? -1;
    return chains === undefined || at < 0 ? [] : chains.linesAt(at).map(line => ({table, chain, ...line}));
  });
}

function linesOf(chains: ChainsByName | undefined, ...prefixes: readonly string[]): readonly RuleText[] {
  return [...(chains?.startingWith(...prefixes) ?? [])].flatMap(({table, name: chain}) =>
    (chains?.linesAt(chains.placeOf(chain)) ?? []).map(({text, line}) => ({table, chain, line, text})),
  );
}
