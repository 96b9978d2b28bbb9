import type {NftHook, NftRule, NftRuleset} from '../../model/nft-ruleset.ts';
import type {Rule, RuleOption} from '../../model/ruleset.ts';
import type {NodeRule, Outcome} from '../../trace/walked-packet.ts';
import {plural} from '../../model/text.ts';
import {markChange} from '../../parse/iptables/comparable-rule.ts';
import {isHookedChain, isPolicyChain} from './iptables-rules.ts';

/** Whether a table is kube-proxy's own; null for those of iptables, which it shares with others. */
export function isOwnTable({table}: Pick<NodeRule, 'table'>): boolean | null {
  return isOfNft(table) ? /^ip6? kube-proxy$/.test(table) : table === 'ipvs' ? true : null;
}

/** Tables of nftables are named with their family: `inet filter`. */
function isOfNft(table: string): boolean {
  return table.includes(' ');
}

/** The text without a comment, which nftables have at the end. */
function bodyOf({text, body = text}: NodeRule): string {
  return body;
}

/** Whether a rule of iptables has one of these targets, or one of nftables one of these statements. */
function does(targets: readonly string[], statements: RegExp): (rule: NodeRule) => boolean {
  return rule => ('target' in rule ? targets.includes(rule.target?.name ?? '') : statements.test(bodyOf(rule)));
}

/** A rule that ends the path through its base chain, or rewrites the packet. */
export const takesPackets = does(
  ['ACCEPT', 'RETURN', 'DNAT', 'REDIRECT', 'NETMAP', 'NOTRACK', 'CT', 'TPROXY', 'MASQUERADE', 'SNAT'],
  /(?:^| )(?:accept|return|dnat|snat|redirect|masquerade|notrack|tproxy)(?: |$)/,
);
export const refusesPackets = does(['DROP', 'REJECT'], /(?:^| )(?:drop|reject)(?: |$)/);
export const acceptsPackets = does(['ACCEPT'], /(?:^| )accept(?: |$)/);
/** It refuses packets with some content, whatever connection they are of. */
export function filtersContent(rule: NodeRule): boolean {
  return refusesPackets(rule) && / -m string (?!.*! --(?:hex-)?string)/.test(rule.text);
}
export const rewrites = does(['DNAT', 'REDIRECT', 'NETMAP'], /(?:^| )(?:dnat|redirect)(?: |$)/);
export const setsMark = does(['MARK', 'CONNMARK'], /(?:^| )(?:meta|ct) mark set /);
/** It sets what rules of policy routing ask for. */
export const steers = does(['MARK', 'CONNMARK', 'TOS', 'DSCP'], /(?:^| )(?:(?:meta|ct) mark|ip6? dscp) set /);
/** It changes the source address. NETMAP does in POSTROUTING, and the destination elsewhere. */
export const masquerades = does(['MASQUERADE', 'SNAT', 'NETMAP'], /(?:^| )(?:masquerade|snat)(?: |$)/);
const captures = does(['TPROXY'], /(?:^| )tproxy(?: |$)/);
const setsZone = does(['CT'], /(?:^| )ct (?:original |reply )?zone set /);
const setsHops = does(['TTL', 'HL'], /(?:^| )(?:ip ttl|ip6 hoplimit) set /);

/** Switches connection tracking off, and address translation with it. */
export function untracks(rule: NodeRule): boolean {
  if ('target' in rule) return rule.target?.name === 'NOTRACK' || rule.text.includes(' --notrack');
  return /(?:^| )notrack(?: |$)/.test(bodyOf(rule));
}

/** It makes the kernel lose the packet later. */
export function decides(rule: NodeRule): boolean {
  return untracks(rule) || setsZone(rule) || setsHops(rule) || captures(rule);
}

/** It sends packets to the chain that kube-proxy marks packets in that the kubelet's rule drops. */
export function marksForDrop(rule: NodeRule): boolean {
  return 'target' in rule ? ['KUBE-MARK-DROP', 'MARK', 'CONNMARK'].includes(rule.target?.name ?? '') : setsMark(rule);
}

/** One of the jumps by which kube-proxy itself is hooked in. */
export function leadsToHook(rule: NodeRule): boolean {
  return 'target' in rule && isHookedChain(rule.target?.name ?? '');
}

/** It leads into chains of kube-proxy that only kube-proxy's own rules should lead to. */
export function leadsAstray(rule: NodeRule): boolean {
  const name = 'target' in rule ? (rule.target?.name ?? '') : '';
  return name.startsWith('KUBE-') && !isHookedChain(name);
}

/** A rule that carries out network policies, or leads to those that do. */
export function isOfPolicy(rule: NodeRule): boolean {
  // Calico drops what it knows no workload for, and by a setting what pods send to their node: no policy says so.
  if (/Unknown interface|DefaultEndpointToHostAction/i.test(rule.text)) return false;
  if ('target' in rule) return isPolicyChain(rule.chain) || isPolicyChain(rule.target?.name ?? '');
  return (
    / (?:calico|antrea|kube-router|.*network-?polic.*)$/.test(rule.table) ||
    isPolicyChain(rule.chain.replace(/^(?:filter|mangle|nat|raw)-/, ''))
  );
}

/** The third-party rule that keeps a packet from being rewritten by kube-proxy's rules. */
export function interceptorOf(thirdParty: readonly NodeRule[]): NodeRule | null {
  const after = thirdParty.findIndex(
    ({table, chain}) => !isOfNft(table) && (table === 'filter' || ['INPUT', 'FORWARD', 'POSTROUTING'].includes(chain)),
  );
  const before = after < 0 ? thirdParty : thirdParty.slice(0, after);
  return (
    before.find(rule => untracks(rule) || captures(rule)) ??
    before.findLast(rule => takesPackets(rule) && (isOfNft(rule.table) ? true : rule.table === 'nat')) ??
    null
  );
}

/** The third-party rule that keeps a packet from being masqueraded: it deletes kube-proxy's mark (`0x4000`), or ends the path through `nat`. */
export function unmasqueraderOf(path: readonly NodeRule[], isOwn: (rule: NodeRule) => boolean, mark: string): NodeRule | null {
  const from = (index: number): readonly NodeRule[] => path.slice(Math.max(index, 0)).filter(rule => !isOwn(rule));
  const marking = path.findLastIndex(rule => isOwn(rule) && 'target' in rule && rule.chain === 'KUBE-MARK-MASQ');
  const leaving = path.findIndex(({chain}) => chain === 'POSTROUTING');
  const deleting = from(marking).findLast(rule => ('target' in rule ? deletesMark(rule, Number(mark)) : setsMark(rule)));
  return (
    deleting ??
    (leaving < 0 ? [] : from(leaving)).findLast(endsPostrouting) ??
    path.findLast(rule => !isOwn(rule) && isOfNft(rule.table) && takesPackets(rule)) ??
    // In IPVS mode a rule that keeps packets from kube-proxy's chains keeps them from being marked, and not from being balanced.
    (marking < 0 ? interceptorOf(from(0)) : null)
  );
}

/** RETURN ends the path through `nat` in the base chain only. */
function endsPostrouting(rule: NodeRule): boolean {
  if (!('target' in rule)) return takesPackets(rule);
  return rule.table === 'nat' && takesPackets(rule) && (rule.target?.name !== 'RETURN' || rule.chain === 'POSTROUTING');
}

function deletesMark({target}: NodeRule, bit: number): boolean {
  if (target?.name === 'CONNMARK') return target.options.some(({flag}) => flag === '--restore-mark');
  if (target?.name !== 'MARK') return false;
  const [value = 0, mask = 0] = markChange(target.options).split('/').map(Number);
  return (((bit & ~mask) ^ value) & bit) === 0;
}

/** A rule that is about the address or the port that packets are sent to. */
export function namesDestination(rule: NodeRule): boolean {
  if (!('target' in rule)) return /(?:^| )(?:daddr|dport) |@/.test(bodyOf(rule));
  const flags = [...(rule.options ?? []), ...(rule.matches ?? []).flatMap(({options}) => options)];
  return flags.some(
    ({flag, values}) =>
      ['-d', '--dport', '--dports', '--dst-range'].includes(flag) || (flag === '--match-set' && values[1]?.includes('dst')),
  );
}

/** A rule that every first packet of a connection matches, whoever sends it to whom. */
export function isUnconditional(rule: NodeRule, isOfAllPods: (network: string) => boolean): boolean {
  const {options = [], matches = []} = rule;
  if ('target' in rule) return options.every(option => isForEach(option, isOfAllPods)) && matches.every(isOfEach);
  const others = bodyOf(rule)
    .replaceAll(/\bip6? daddr ([0-9a-f.:/]+)/g, (text, network: string) => (isOfAllPods(network) ? '' : text))
    .replaceAll(
      /counter packets \d+ bytes \d+|comment "[^"]*"|meta l4proto \S+|iif(?:name)? != "?lo"?|ct state (?:\{ )?[\w, ]*\bnew\b[\w, ]*(?: \})?/g,
      '',
    );
  return /^(?:drop|reject.*|accept|return|(?:jump|goto) \S+|meta mark set .*)?$/.test(others.trim());
}

function isForEach({flag, values: [value = ''], negated}: RuleOption, isOfAllPods: (network: string) => boolean): boolean {
  return flag === '-p' || (flag === '-i' && negated && value === 'lo') || (flag === '-d' && !negated && isOfAllPods(value));
}

/** A mark is what the rules before it made of the packet. */
function isOfEach({name, options}: Rule['matches'][number]): boolean {
  if (name === 'comment' || name === 'mark') return true;
  return options.every(({flag, values}) => /^--(?:ct)?state$/.test(flag) && values.join().includes('NEW'));
}

/** A rule that is about the interface by which packets arrive or leave. */
export function namesInterface(rule: NodeRule): boolean {
  return rule.options?.some(({flag}) => flag === '-i' || flag === '-o') ?? /(?:^| )[io]if(?:name)? /.test(bodyOf(rule));
}

/** A number of packets or connections above which a rule treats them differently. */
interface PacketLimit {
  /** In words: `3 packets a minute for each source`. */
  readonly text: string;
  /** Far above what Services are usually asked for. */
  readonly isHigh: boolean;
}

/** What a rule limits packets to, itself or by a limit that its table declares; null if it limits none. */
export function limitOf(rule: NodeRule, nft: NftRuleset | null): PacketLimit | null {
  const text = bodyOf(rule).replace(/(limit|quota) name "(.+?)"/, (whole, kind: string, name: string) => {
    const declared = nft?.tables.get(rule.table)?.others.find(one => one.startsWith(`${kind} ${name} {`));
    return declared?.replace(`${name} { `, '') ?? whole;
  });
  const [, low, high = low] =
    /(?:--to-ports |--to-source (?:\S*\]|[\d.-]+):|(?:masquerade|snat) (?:\S* )*?to \S*:)(\d+)(?:-(\d+))?/.exec(text) ?? [];
  if (low === undefined || !masquerades(rule)) return limitIn(text);
  return {text: `${plural(Number(high) - Number(low) + 1, 'connection')} at a time to each endpoint`, isHigh: false};
}

/** Whether packets match the condition of a limit that is far above what Services are usually asked for; null for other conditions. */
export function matchBelowLimit(condition: string): 0 | 1 | null {
  return limitIn(condition)?.isHigh === true ? (/-above | over |--connbytes |--hitcount /.test(condition) ? 0 : 1) : null;
}

function limitIn(text: string): PacketLimit | null {
  const [, amount = '', size, period = ''] =
    /(?:--limit|--hashlimit(?:-upto|-above)?|limit rate(?: over)?) (\d+)(?: ?([kmg]?)b(?:ytes)?)?\/([smhd])/.exec(text) ?? [];
  const each = /--hashlimit-mode \S*srcip|--connlimit-saddr|saddr[^{}]*(?:limit rate|ct count)/.test(text) ? ' for each source' : '';
  if (amount !== '') {
    const [name = '', seconds = 1] = units[period] ?? [];
    const perSecond = Number(amount) / seconds;
    // Connections get slower, and are not lost.
    if (size !== undefined) return {text: `${amount} ${size}bytes a ${name}${each}`, isHigh: bytesOf(perSecond, size) >= 2 ** 20};
    const [, burst = '5'] = / (?:--(?:hash)?limit-burst|burst) (\d+)/.exec(text) ?? [];
    // Connections come in bursts: above what may come at once, they are lost at any lower rate.
    const isHigh = perSecond >= 50_000 || (perSecond >= 1000 && Number(burst) >= 50);
    return {text: `${plural(Number(amount), 'packet')} a ${name}${each}`, isHigh};
  }
  const [, time, hits] = /--(?:rcheck|update) .*--seconds (\d+) .*--hitcount (\d+)/.exec(text) ?? [];
  if (hits !== undefined)
    return {text: `${hits} packets in ${plural(Number(time), 'second')} for each source`, isHigh: Number(hits) >= 100 * Number(time)};
  const [, count = ''] = /(?:--connlimit-(?:above|upto)|ct count(?: over)?) (\d+)/.exec(text) ?? [];
  if (count === '') return volumeOf(text);
  // Without further flags, connlimit counts those of each source.
  const own = text.includes('--connlimit-') && !text.includes('--connlimit-daddr') ? ' for each source' : each;
  return {text: `${plural(Number(count), 'connection')} at a time${own}`, isHigh: Number(count) >= (own === '' ? 1000 : 256)};
}

/** What one connection may carry, or by a quota of nftables all packets that meet the rule. */
function volumeOf(text: string): PacketLimit | null {
  const [, quota, measure = ''] = /(?:^| )quota (?:over )?(\d+) (\w+)/.exec(text) ?? [];
  if (quota !== undefined) return {text: `${quota} ${measure} in all`, isHigh: bytesOf(Number(quota), measure.charAt(0)) >= 2 ** 30};
  const [, size, kind, nftKind, nftSize] =
    /(?<!! )--connbytes (\d+)(?::\d*)? --connbytes-mode (bytes|packets)|ct (?:original |reply )?(bytes|packets) >=? (\d+)/.exec(text) ?? [];
  const [count, unit = 'bytes'] = [Number(size ?? nftSize ?? 0), kind ?? nftKind];
  if (count === 0) return null;
  return {text: `${count} ${unit} a connection`, isHigh: count >= (unit === 'bytes' ? 100 * 2 ** 20 : 100_000)};
}

/** Of `k`, `m` and `g`; any other letter, or none, is for bytes. */
function bytesOf(count: number, unit: string): number {
  return count * 1024 ** ('kmg'.indexOf(unit || 'b') + 1);
}

const units: Readonly<Record<string, readonly [name: string, seconds: number]>> = {
  s: ['second', 1],
  m: ['minute', 60],
  h: ['hour', 3600],
  d: ['day', 86_400],
};

/** The hook at which an outcome was decided, by the base chain that its last rule was called from; null when the path does not show it. */
export function decidedAt({path, policy}: Outcome, nft: NftRuleset | null): NftHook['hook'] | null {
  const decided = policy?.split('/', 2);
  if (decided !== undefined) return hookOf({table: decided[0] ?? '', chain: decided[1] ?? ''}, nft);
  const table = path.at(-1)?.table;
  for (const rule of path.toReversed()) {
    if (rule.table !== table) return null;
    const hook = hookOf(rule, nft);
    if (hook !== null) return hook;
  }
  return null;
}

function hookOf({table, chain}: Pick<NftRule, 'table' | 'chain'>, nft: NftRuleset | null): NftHook['hook'] | null {
  if (isOfNft(table)) return nft?.tables.get(table)?.chains.get(chain)?.base?.hook ?? null;
  return /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/.test(chain) ? chain.toLowerCase() : null;
}
