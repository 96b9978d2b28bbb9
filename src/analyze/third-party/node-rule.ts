import type {NftHook, NftRule, NftRuleset} from '../../model/nft-ruleset.ts';
import type {Rule} from '../../model/ruleset.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {markChange} from '../../parse/iptables/comparable-rule.ts';
import {isKubeProxyChain, isPolicyChain} from './iptables-rules.ts';

/** A rule on the path through a node in nftables mode: of nftables, or of iptables. */
export type NodeRule = Rule | NftRule;

/** Whether kube-proxy wrote it: in its own table, or earlier in iptables. */
export function isKubeProxys({table, chain}: NodeRule, own: string): boolean {
  return table === own || (!isOfNft(table) && isKubeProxyChain(chain));
}

/** Tables of nftables are named with their family: `inet filter`. */
function isOfNft(table: string): boolean {
  return table.includes(' ');
}

/** A rule that ends the path through its base chain, or rewrites the packet. */
export function takesPackets(rule: NodeRule): boolean {
  return 'target' in rule
    ? ['ACCEPT', 'RETURN', 'DNAT', 'REDIRECT', 'NETMAP', 'NOTRACK', 'CT', 'MASQUERADE', 'SNAT'].includes(rule.target?.name ?? '')
    : /(?:^| )(?:accept|return|dnat|snat|redirect|masquerade|notrack)(?: |$)/.test(rule.body);
}

export function rewrites(rule: NodeRule): boolean {
  return 'target' in rule
    ? ['DNAT', 'REDIRECT', 'NETMAP'].includes(rule.target?.name ?? '')
    : /(?:^| )(?:dnat|redirect)(?: |$)/.test(rule.body);
}

/** Switches connection tracking off, and address translation with it. */
export function untracks(rule: NodeRule): boolean {
  return 'target' in rule ? rule.target?.name === 'NOTRACK' || rule.text.includes(' --notrack') : /(?:^| )notrack(?: |$)/.test(rule.body);
}

export function setsMark(rule: NodeRule): boolean {
  return 'target' in rule ? ['MARK', 'CONNMARK'].includes(rule.target?.name ?? '') : rule.body.includes('meta mark set ');
}

/** It changes at most the source address. */
export function masquerades(rule: NodeRule): boolean {
  return 'target' in rule ? ['MASQUERADE', 'SNAT'].includes(rule.target?.name ?? '') : /(?:^| )(?:masquerade|snat)(?: |$)/.test(rule.body);
}

/** The interface of a packet is often unknown, which is no fault of the rules. */
export function asksForInterface(rule: NodeRule): boolean {
  return 'target' in rule
    ? rule.options.some(({flag}) => flag === '-i' || flag === '-o')
    : /(?:^| )(?:[io]if(?:name|group|type|kind)?|[io]br(?:name)?) /.test(rule.body);
}

/** A rule that carries out network policies, or leads to those that do. */
export function isOfPolicy(rule: NodeRule): boolean {
  if ('target' in rule) return isPolicyChain(rule.chain) || isPolicyChain(rule.target?.name ?? '');
  return (
    / (?:calico|antrea|kube-router|.*network-?polic.*)$/.test(rule.table) ||
    isPolicyChain(rule.chain.replace(/^(?:filter|mangle|nat|raw)-/, ''))
  );
}

/**
 * The third-party rule of iptables that keeps a packet from being masqueraded in KUBE-POSTROUTING: it deletes kube-proxy's
 * mark, such as `0x4000`, or ends the path through `nat`. Null if there is none.
 */
export function unmasqueraderOf(path: readonly Rule[], mark: string): Rule | null {
  const thirdParty = (from: number): readonly Rule[] => path.slice(from).filter(({chain}) => !isKubeProxyChain(chain));
  const leaving = thirdParty(path.findIndex(({chain}) => chain === 'POSTROUTING'));
  const marking = path.findLastIndex(({chain, target}) => chain === 'KUBE-MARK-MASQ' && target?.name === 'MARK');
  const marked = marking < 0 ? [] : thirdParty(marking);
  return marked.findLast(rule => deletesMark(rule, Number(mark))) ?? leaving.findLast(endsPostrouting) ?? null;
}

/** RETURN ends the path through `nat` in the base chain only. */
function endsPostrouting(rule: Rule): boolean {
  return rule.table === 'nat' && takesPackets(rule) && (rule.target?.name !== 'RETURN' || rule.chain === 'POSTROUTING');
}

function deletesMark({target}: Rule, bit: number): boolean {
  if (target?.name !== 'MARK') return false;
  const [value = 0, mask = 0] = markChange(target.options).split('/').map(Number);
  return (((bit & ~mask) ^ value) & bit) === 0;
}

/** A rule that is about the address or the port that packets are sent to. */
export function namesDestination({body}: NftRule): boolean {
  return /(?:^| )(?:daddr|dport) |@/.test(body);
}

/** The hook at which an outcome was decided, by the base chain that its last rule was called from; null when the path does not show it. */
export function decidedAt({path, policy}: Outcome<NodeRule>, ruleset: NftRuleset): NftHook['hook'] | null {
  const decided = policy?.split('/', 2);
  if (decided !== undefined) return hookOf({table: decided[0] ?? '', chain: decided[1] ?? ''}, ruleset);
  const table = path.at(-1)?.table;
  for (const rule of path.toReversed()) {
    if (rule.table !== table) return null;
    const hook = hookOf(rule, ruleset);
    if (hook !== null) return hook;
  }
  return null;
}

function hookOf({table, chain}: Pick<NodeRule, 'table' | 'chain'>, {tables}: NftRuleset): NftHook['hook'] | null {
  if (isOfNft(table)) return tables.get(table)?.chains.get(chain)?.base?.hook ?? null;
  return /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/.test(chain) ? chain.toLowerCase() : null;
}
