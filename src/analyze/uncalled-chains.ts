import {isBaseChain} from '../expect/iptables/expected-ruleset.ts';
import {joinHostPort, type Address} from '../model/address.ts';
import {type NftChain, type NftRuleset, type NftTable, unnamedTable} from '../model/nft-ruleset.ts';
import type {Ruleset, RuleText} from '../model/ruleset.ts';
import {someOf} from '../model/text.ts';
import {nftRule} from '../parse/nftables/nft-rule.ts';
import {type ChainResult, limitsFor} from '../trace/branch.ts';
import {walkIptablesChain} from '../trace/iptables/walk-packet.ts';
import {tablesOf, walkNftChain} from '../trace/nftables/walk-nft-packet.ts';
import type {Environment, NodeRule, Packet} from '../trace/walked-packet.ts';
import {pathRules} from '../trace/walked-packet.ts';
import {listChain} from './iptables/chain-texts.ts';
import {withChains} from './nftables/nft-case.ts';
import {isGap, mayNameInterface} from './iptables/text-gaps.ts';

/** What a chain does to a packet that the text shows without the rule that calls it. */
export interface UncalledChain {
  /** `filter/MY-FILTER`. */
  readonly place: string;
  /** In words: `dropped`, `sent to 10.244.1.5:80`; several for different packets. */
  readonly does: readonly string[];
  /** What follows: `, unless …`, ` if …`. */
  readonly conditions: string;
  /** The chains that it leads to, and that the text does not show: they decide. */
  readonly sentOnTo?: readonly string[];
  readonly verdict: ChainResult['verdict'];
  readonly path: readonly RuleText[];
}

/** What it does, in words. */
export function effectText({does, conditions}: UncalledChain): string {
  return does.join(' or ') + conditions;
}

interface Walk {
  readonly packet: Packet;
  readonly environment: Environment;
}

/** The chains that no rule of the text calls, and that do something to the packet if they are called. `rules` are those with gaps. */
export function uncalledChains(shown: Ruleset, rules: Ruleset, {packet, environment}: Walk): readonly UncalledChain[] {
  const context = {rules, environment, limits: limitsFor(rules)};
  return [...shown.tables.values()].flatMap(table => {
    if (table.complete) return [];
    const names = [...table.chains.keys(), 'KUBE-SERVICES', 'PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];
    const called = new Set(names.flatMap(name => rules.chain(table.name, name)?.rules() ?? []).map(({target}) => target?.name));
    const roots = [...table.chains.values()].filter(chain => chain.policy === null && !isBaseChain(chain.name) && !called.has(chain.name));
    return roots.flatMap(({name}) => {
      const chain = rules.chain(table.name, name);
      if (chain === undefined) return [];
      const ends = walkIptablesChain(context, chain, packet);
      return orSentOn(effectOf(`${table.name}/${name}`, ends), ends, shown).map(found => unlessBefore(found, ends, shown));
    });
  });
}

/** The same for nftables. */
export function uncalledNftChains(nft: NftRuleset, {packet, environment}: Walk): readonly UncalledChain[] {
  const wanted = new Set(tablesOf(nft, packet.family).map(({id}) => id));
  return [...nft.tables.values()]
    .filter(({id}) => wanted.has(id))
    .flatMap(table => {
      const called = calledIn(table);
      const roots = [...table.chains.values()].filter(({base, name}) => base === null && !called.has(name));
      const found = roots.flatMap(chain => {
        const where = table.name === unnamedTable ? '' : ` of table ${table.id}`;
        const [place, ends] = [`${chain.name}${where}`, walkNftChain(table, chain, {packet, environment})];
        const known = effectOf(place, ends).map(one => orToUnseen(one, table));
        return known.length > 0 ? known : toUnseen(place, ends, table);
      });
      return [...found, ...unaskedMaps(table, {packet, environment})];
    });
}

/** The walk takes a chain that is not shown as one without rules. */
function orToUnseen(found: UncalledChain, table: NftTable): UncalledChain {
  const unseen = unseenOn(found.path, table);
  if (unseen.length === 0) return found;
  const does = found.conditions === '' ? found.does.filter(word => word !== letThrough) : found.does;
  return {...found, does, conditions: `${found.conditions}, or sent on to ${someOf(unseen)}${notShown}`};
}

/** A chain that does nothing by what is shown of it. */
function toUnseen(place: string, ends: readonly ChainResult[], table: NftTable): readonly UncalledChain[] {
  const all = ends.flatMap(end => (end.supposed === null ? pathRules(end.path) : []));
  // Nothing comes back from a chain by goto.
  const last = all.findIndex(rule => / goto /.test(` ${rule.text}`) && unseenOn([rule], table).length > 0);
  const path = last < 0 ? all : all.slice(0, last + 1);
  const unseen = unseenOn(path, table);
  if (unseen.length === 0) return [];
  return [{place, does: [`sent on to ${someOf(unseen)}`], conditions: notShown, sentOnTo: unseen, verdict: 'undecided', path}];
}

function unseenOn(path: readonly RuleText[], table: NftTable): readonly string[] {
  return [...new Set(path.flatMap(({text}) => jumpsOf(text)))].filter(name => !table.chains.has(name));
}

function jumpsOf(text: string): readonly string[] {
  return [...text.matchAll(/\b(?:jump|goto) ([\w./-]+)/g)].map(([, name = '']) => name);
}

/** The maps of kube-proxy that no shown rule asks: each is asked as kube-proxy does. */
function unaskedMaps(table: NftTable, walk: Walk): readonly UncalledChain[] {
  if (table.name !== 'kube-proxy') return [];
  const texts = [...table.chains.values()].map(chain => chain.text());
  const address = table.family === 'ip6' ? 'ip6 daddr' : 'ip daddr';
  const source = table.chains.has('reject-chain')
    ? table
    : withChains(table, new Map([['reject-chain', chainOf(table, 'reject-chain', 'reject')]]));
  return Object.entries(questions).flatMap(([map, question]) => {
    if (!table.sets.has(map) || texts.some(text => text.includes(`@${map}`))) return [];
    const chain = chainOf(table, map, `${question.replace('ADDRESS', address)} vmap @${map}`);
    return effectOf(`map ${map} of table ${table.id}`, walkNftChain(source, chain, walk));
  });
}

const questions = {
  'service-ips': 'ADDRESS . meta l4proto . th dport',
  'service-nodeports': 'fib daddr type local meta l4proto . th dport',
  'no-endpoint-services': 'ADDRESS . meta l4proto . th dport',
  'no-endpoint-nodeports': 'fib daddr type local meta l4proto . th dport',
};

function chainOf({id}: NftTable, name: string, text: string): NftChain {
  const rule = nftRule({table: id, chain: name, line: 0, text});
  const rules = {text: () => text, holds: (texts: readonly string[]) => texts.join() === text, rules: () => [rule]};
  return {table: id, name, base: null, ruleCount: 1, complete: true, ...rules};
}

function calledIn({chains, sets}: NftTable): ReadonlySet<string> {
  const texts = [
    ...[...chains.values()].map(chain => chain.text()),
    ...[...sets.values()].flatMap(({elements}) => [...elements.values()].map(({value}) => value ?? '')),
  ];
  return new Set(texts.flatMap(jumpsOf));
}

function effectOf(place: string, ends: readonly ChainResult[]): readonly UncalledChain[] {
  const acting = ends.filter(({verdict}) => verdict !== 'return');
  const sure = acting.filter(({supposed}) => supposed === null);
  const unsure = acting.filter(({supposed, verdict}) => supposed !== null && verdict !== 'undecided');
  const [first] = sure.length > 0 ? sure : unsure;
  if (first === undefined) return [];
  const passes = ends.some(({verdict, supposed}) => verdict === 'return' && supposed === null) && sure.length > 0;
  const path = pathRules(first.path).filter(rule => !isGap(rule));
  const doubts = sure.length === 0 ? [] : ends.filter(end => end.supposed !== null && end.verdict !== first.verdict);
  const unless = doubts.length === 0 ? '' : `, unless ${doubtsIn(doubts)}`;
  const hidden = path.some(mayNameInterface) ? ', unless a rule there names an interface, which iptables -L shows with -v alone' : '';
  const {verdict} = first;
  if (sure.length > 0)
    return [{place, does: [...new Set(sure.map(wordOf)), ...(passes ? [letThrough] : [])], conditions: unless + hidden, verdict, path}];
  // Of rules whose match is unknown, the first that matches decides.
  const [, ...others] = new Set(unsure.map(end => `${wordOf(end)} if ${conditionOf(end)}`));
  const conditions = [` if ${conditionOf(first)}`, ...others].join(', or else ') + hidden;
  return [{place, does: [wordOf(first)], conditions, verdict, path}];
}

const letThrough = 'let through';
const notShown = ', which the text does not show';

/** A chain that only jumps to chains that are not shown: they decide. */
function orSentOn(found: readonly UncalledChain[], ends: readonly ChainResult[], shown: Ruleset): readonly UncalledChain[] {
  const sure = ends.find(({supposed}) => supposed === null);
  if (found.length > 0 || sure === undefined) return found;
  const path = pathRules(sure.path);
  const unseen = unseenOf(path, shown);
  const [first] = path;
  if (first === undefined || unseen.length === 0) return [];
  const does = [`sent on to ${unseen.join(' and then to ')}`];
  const place = `${first.table}/${first.chain}`;
  return [{place, does, conditions: notShown, sentOnTo: unseen, verdict: sure.verdict, path: path.filter(rule => !isGap(rule))}];
}

/** The chains that shown rules jump to and that are not shown. */
function unseenOf(path: readonly NodeRule[], shown: Ruleset): readonly string[] {
  const isUnseen = (rule: NodeRule, at: number): boolean =>
    isGap(rule) && path[at - 1]?.line !== 0 && shown.chain(rule.table, rule.chain) === undefined;
  return path.filter(isUnseen).map(({chain}) => chain);
}

/** A chain that the text does not show, and that the packet meets before its end. */
function unlessBefore(found: UncalledChain, ends: readonly ChainResult[], shown: Ruleset): UncalledChain {
  const end = ends.find(({verdict}) => verdict === found.verdict);
  if (end === undefined || (found.verdict !== 'drop' && found.verdict !== 'reject')) return found;
  const before = [...new Set(unseenOf(pathRules(end.path), shown))];
  if (before.length === 0) return found;
  return {...found, conditions: `${found.conditions}, unless ${someOf(before)}${notShown}, takes it before`};
}

/** What a program of nat/PREROUTING does to a packet. */
export interface Taker {
  /** The chain that PREROUTING jumps to. */
  readonly name: string;
  /** The chain, its line, and on what the jump depends. */
  readonly label: string;
  /** The jump is a rule of the text, not one that is assumed. */
  readonly isShown: boolean;
  readonly effect: string;
  /** It leads to chains that the text does not show, beyond the one that PREROUTING jumps to. */
  readonly isSentOn: boolean;
}

/** The programs whose rules of nat/PREROUTING take a packet. */
export function takersOf(shown: Ruleset, rules: Ruleset, {packet, environment}: Walk): readonly Taker[] {
  const chain = packet.origin === 'arriving' ? rules.chain('nat', 'PREROUTING') : undefined;
  if (chain === undefined) return [];
  const context = {
    rules,
    environment: {...environment, isLocal: (address: Address) => environment.isLocal(address) ?? true},
    limits: limitsFor(rules),
  };
  const isKnown = environment.isLocal(packet.destination) !== null;
  return chain.rules().flatMap(rule => {
    if (isGap(rule)) return [];
    const alone = listChain({table: 'nat', name: 'PREROUTING', policy: null, complete: true}, [rule]);
    const ends = walkIptablesChain(context, alone, packet);
    const [found] = orSentOn(effectOf('nat/PREROUTING', ends), ends, shown);
    if (found === undefined) return [];
    const where = [
      ...(rule.line === 0 ? [] : [`line ${rule.line}`]),
      ...(!isKnown && / --dst-type LOCAL /.test(rule.text) ? [`if the node has ${packet.destination.text}`] : []),
    ];
    const name = rule.target?.name ?? '';
    const isUnseen = found.sentOnTo?.join() === name;
    const effect = isUnseen ? 'its rules are not shown' : effectText(found);
    const isSentOn = !isUnseen && found.sentOnTo !== undefined;
    return [{name, effect, isSentOn, isShown: rule.line > 0, label: `${name}${where.length === 0 ? '' : ` (${where.join(', ')})`}`}];
  });
}

/** Several programs that are asked for a packet; undefined if there is one. */
export function rivalsOf(takers: readonly Taker[]): {readonly reason: string; readonly condition: string} | undefined {
  const names = [...new Set(takers.map(({name}) => name))];
  if (names.length < 2) return undefined;
  const order = takers.every(({isShown}) => isShown) ? 'in this order' : 'in an order that is not shown';
  const each = takers.slice(0, 6).map(({label, effect}) => `${label}: ${effect}`);
  const reason = `${names.length} programs are asked ${order}, and the first that translates the packet wins: ${each.join('; ')}`;
  return {reason, condition: `${someOf(names)} are asked ${order}, and the first that translates it wins`};
}

function wordOf({verdict, packet, reason}: ChainResult): string {
  const where = packet.rewritten ? ` to ${joinHostPort(packet.destination.text, packet.port)}` : '';
  if (verdict === 'accept') return where === '' ? 'accepted' : `sent${where}`;
  return verdict === 'drop' ? 'dropped' : verdict === 'reject' ? 'refused' : `undetermined (${reason ?? 'its match is unknown'})`;
}

/** The rules before, whose match is unknown. */
function doubtsIn(ends: readonly ChainResult[]): string {
  const [first] = ends;
  const sets = ends.flatMap(({supposed}) => / --match-set (\S+) /.exec(supposed?.text ?? '')?.[1] ?? []);
  if (first === undefined || sets.length === 0) return `a rule before matches, which cannot be told: ${first?.supposed?.text ?? ''}`;
  return `${someOf([...new Set(sets)], {max: 2})}, which the text does not show, has ${first.packet.destination.text}`;
}

/** Of the rule whose match is unknown: mostly it asks for a set that the text does not show. */
function conditionOf({supposed, packet}: ChainResult): string {
  const set = supposed === null ? undefined : / --match-set (\S+) /.exec(supposed.text)?.[1];
  const before =
    supposed?.chain === 'KUBE-IPVS-FILTER' ? `, and no rule that kube-proxy writes before it, and that is not shown, accepts the port` : '';
  if (set !== undefined) return `${set}, which the text does not show, has ${packet.destination.text}${before}`;
  return `this rule matches, which cannot be told: ${supposed?.text ?? ''}`;
}
