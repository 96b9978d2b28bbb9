import {parseAddress} from '../model/address.ts';
import {holds, type Intervals} from '../model/intervals.ts';
import type {NftRuleset, NftTable} from '../model/nft-ruleset.ts';
import type {Ruleset, RuleText} from '../model/ruleset.ts';
import {someOf} from '../model/text.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';
import {walkPacket} from '../trace/iptables/walk-packet.ts';
import type {Environment, Outcome, Packet} from '../trace/packet.ts';
import {backendOf, type Side, walkConnection} from '../trace/side.ts';
import {listChain} from './iptables/chain-texts.ts';

/** An outcome; of a packet that is accepted although the connection fails, that of the reply or of the next packet. */
export interface PacketOutcome extends Outcome<RuleText> {
  readonly lost?: 'reply' | 'next';
  /** The node of the endpoint, to which the packet is sent on, and its rules on the path there; null if they were not read. */
  readonly onward?: {readonly node: string; readonly path: readonly RuleText[] | null};
}

/** A node's rules: of iptables in one family, also of the other backend, and of nftables. */
export type PacketRules =
  | {readonly iptables: Ruleset; readonly nft: NftRuleset | null; readonly others?: readonly Ruleset[]}
  | {readonly iptables: null; readonly nft: NftRuleset; readonly others?: readonly Ruleset[]};

export interface Walked {
  readonly packet: Packet;
  readonly environment: Environment;
  /** The addresses of the node's pods. */
  readonly pods: Intervals;
}

/** Walks a connection through all rules of a node: it is accepted only if the reply and the next packet arrive as well. */
export function walkRules({iptables, nft, others = []}: PacketRules, {packet, environment, pods}: Walked): readonly PacketOutcome[] {
  const side: Side = {iptables: [...(iptables === null ? [] : [iptables]), ...others], nft, environment};
  return walkConnection(side, packet, {pods, signature: text => text}).map(({lost, ...rest}) => {
    const outcome = withBackends(rest, side);
    const {sourceAfter, verdict, destination, path} = outcome;
    // A pod of the node answers through the node, whatever the address.
    const isHere = holds(pods, parseAddress(splitHostPort(destination ?? '').address)?.value ?? packet.destination.value);
    if (lost !== undefined) {
      const later = withBackends(lost.outcome, side);
      const {reason, policy} = later;
      return {
        ...outcome,
        ...{verdict: later.verdict, lost: lost.packet, path: [...path, ...later.path]},
        ...(reason === undefined ? {} : {reason}),
        ...(policy === undefined ? {} : {policy}),
      };
    }
    if (verdict !== 'accept' || sourceAfter === undefined || isHere || environment.isLocal(sourceAfter) !== false) return outcome;
    const reason = `the node does not have the address ${sourceAfter.text} that SNAT gave the packet, so the reply does not come back to it`;
    return {...outcome, verdict: 'drop', lost: 'reply', reason};
  });
}

/** Says of rules and of a policy which backend of iptables has them, where the node has rules in both. */
function withBackends({path, policy, ...outcome}: Outcome<RuleText>, side: Side): Outcome<RuleText> {
  const [table = '', chain = ''] = policy?.split('/', 2) ?? [];
  const holder = policy === undefined ? null : backendOf(side, {table, chain});
  return {
    ...outcome,
    path: path.map(rule => {
      const backend = backendOf(side, rule);
      return backend === null ? rule : {...rule, backend};
    }),
    ...(policy === undefined ? {} : {policy: holder === null ? policy : `${policy} in iptables-${holder}`}),
  };
}

/** Walks the rules of pasted text. An outcome stands only if the text shows every chain on the path to its end. */
export function walkShown(rules: PacketRules, shown: PacketRules, {packet, environment, pods}: Walked): readonly PacketOutcome[] {
  if (shown.iptables !== null && shown.nft === null && [...shown.iptables.tables.keys()].join() === 'filter')
    return walkFilterAlone(shown.iptables, packet, environment);
  const watched = rules.iptables === null ? null : watchChains(rules.iptables);
  const outcomes = walkRules(watched === null ? rules : {...rules, iptables: watched.ruleset}, {packet, environment, pods});
  const missing = rules.nft === null ? null : missingFromNft(rules.nft);
  const unseen = [
    ...(watched === null || shown.iptables === null ? [] : unseenChains(shown.iptables, watched.visited)),
    ...(missing === null ? [] : [missing]),
  ];
  return unseen.length === 0 ? outcomes : outcomes.map(outcome => undeterminedBy(outcome, unseen));
}

/** The text shows nothing but table filter: a packet that is dropped there is lost, whatever its destination was before. */
function walkFilterAlone(shown: Ruleset, packet: Packet, environment: Environment): readonly PacketOutcome[] {
  const missing = new Set<string>();
  // The end of a listed chain does not show; its policy is what happens there.
  const chain: Ruleset['chain'] = (table, name) => {
    const own = shown.chain(table, name);
    if (own === undefined && table === 'filter' && /^[A-Z]+[-_]/.test(name)) missing.add(`filter/${name}`);
    return own === undefined || own.policy === null ? own : listChain({table, name, policy: own.policy, complete: true}, own.rules());
  };
  const isLocal: Environment['isLocal'] = address => environment.isLocal(address) ?? false;
  return walkPacket({...shown, chain}, packet, {...environment, isLocal}).map(outcome => {
    const isOpen = outcome.verdict === 'accept' || dependsOnNat(shown) || environment.isLocal(packet.destination) === true;
    if (isOpen || missing.size > 0) return undeterminedBy(outcome, [...missing, 'table nat']);
    const parts = [outcome.reason, outcome.policy === undefined ? undefined : `by the policy of ${outcome.policy}`];
    return {...outcome, reason: [...parts.filter(part => part !== undefined), 'this text shows table filter alone'].join('; ')};
  });
}

/** Whether rules match what table nat changes: the destination, the mark, the state of address translation. */
function dependsOnNat(shown: Ruleset): boolean {
  const chains = [...(shown.tables.get('filter')?.chains.values() ?? [])].filter(({name}) => name !== 'INPUT' && name !== 'OUTPUT');
  return chains.some(chain => /(?: |^)(?:-d|-o|--dports?|--mark|--match-set|--dst-type|--ctorig\w+) |DNAT/m.test(chain.text()));
}

/** The chains that a walk visited, `table/chain`. */
interface WatchedRuleset {
  readonly ruleset: Ruleset;
  readonly visited: ReadonlySet<string>;
}

/** Records every chain that a walk requests. */
function watchChains(ruleset: Ruleset): WatchedRuleset {
  const visited = new Set<string>();
  const chain: Ruleset['chain'] = (table, name) => {
    visited.add(`${table}/${name}`);
    return ruleset.chain(table, name);
  };
  return {ruleset: {...ruleset, chain}, visited};
}

/**
 * The chains on a packet's path that the text does not show completely. Tables that kube-proxy does not use are assumed to be empty if the
 * text does not show them.
 */
function unseenChains(shown: Ruleset, visited: ReadonlySet<string>): readonly string[] {
  return [...visited].filter(place => {
    const [table = '', name = ''] = place.split('/');
    const own = shown.tables.get(table);
    if (own === undefined) return (table === 'nat' || table === 'filter') && isBaseChain(name);
    const chain = own.chains.get(name);
    // The kernel allows no jump to a missing chain: the text leaves the chain out.
    if (chain === undefined) return isBaseChain(name) ? !own.complete : !isTarget(name);
    return !own.complete && !chain.complete;
  });
}

function isBaseChain(name: string): boolean {
  return /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/.test(name);
}

/** Targets of the kernel, not chains. A chain of this name would have been declared. */
function isTarget(name: string): boolean {
  return /^[A-Z]+$/.test(name);
}

/** An outcome that depends on rules that the text shows only in part. */
function undeterminedBy<R extends RuleText>(outcome: Outcome<R>, unseen: readonly string[]): Outcome<R> {
  const {verdict, destination, masquerade, rewrittenTo} = outcome;
  const names = someOf(unseen, {max: 4});
  const where = destination ?? rewrittenTo ?? null;
  const led =
    verdict === 'undecided'
      ? (outcome.reason ?? 'nowhere')
      : `${verdictWords[verdict]}${where === null ? '' : ` at ${where}`}${masquerade && verdict === 'accept' ? ', masqueraded' : ''}`;
  const reason = `this text does not show all rules of ${names}; by the rules that it shows the packet is ${led}`;
  const undetermined: Outcome<R> = {
    ...outcome,
    verdict: 'undecided',
    destination: null,
    reason: verdict === 'undecided' ? `this text does not show all rules of ${names}; ${led}` : reason,
  };
  return where === null ? undetermined : {...undetermined, rewrittenTo: where};
}

const verdictWords = {accept: 'accepted', reject: 'refused', drop: 'dropped'} as const;

/** What is missing from kube-proxy's table in nftables, as text; null if it is complete. */
function missingFromNft(nft: NftRuleset): string | null {
  if (nft.strays.some(({text}) => /^(?:\.{3,}|…+)$/.test(text))) return 'rules that were left out';
  for (const table of nft.tables.values()) {
    const missing = table.name === 'kube-proxy' ? missingFromTable(table) : null;
    if (missing !== null) return `${missing} of table ${table.id}`;
  }
  return null;
}

/** In every version of kube-proxy's nftables mode. */
const chainsOfProxy = [
  'filter-input',
  'filter-forward',
  'filter-output',
  'nat-prerouting',
  'nat-output',
  'nat-postrouting',
  'services',
  'masquerading',
  'firewall-check',
];

function missingFromTable({chains, sets}: NftTable): string | null {
  const chain = chainsOfProxy.find(name => !chains.has(name));
  if (chain !== undefined) return `chain ${chain}`;
  let checksFirewall = false;
  for (const {name, text} of textsOf({chains, sets})) {
    if (/^(?:\.{3,}|…+)$/m.test(text)) return `some rules of chain ${name}`;
    for (const [, target = ''] of text.matchAll(/\b(?:jump|goto) ([\w./-]+)/g)) {
      if (!chains.has(target)) return `chain ${target}`;
      checksFirewall ||= target === 'firewall-check';
    }
    for (const [, set = ''] of text.matchAll(/@([\w./-]+)/g)) if (!sets.has(set)) return `set or map ${set}`;
  }
  return checksFirewall ? null : 'the base chain that jumps to firewall-check';
}

function textsOf({chains, sets}: Pick<NftTable, 'chains' | 'sets'>): readonly {readonly name: string; readonly text: string}[] {
  return [
    ...[...chains.values()].map(chain => ({name: chain.name, text: chain.text().replace(/"[^"]*"/g, '""')})),
    ...[...sets.values()].map(set => ({name: set.name, text: [...set.elements.values()].map(({value}) => value ?? '').join('\n')})),
  ];
}
