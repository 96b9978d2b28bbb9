import {isBaseChain} from '../expect/iptables/expected-ruleset.ts';
import type {NftChain, NftRuleset, NftTable} from '../model/nft-ruleset.ts';
import type {Rule, Ruleset, RuleText} from '../model/ruleset.ts';
import {joinHostPort} from '../model/virtual-server.ts';
import {nftRule} from '../parse/nftables/nft-rule.ts';
import {type ChainResult, limitsFor} from '../trace/branch.ts';
import {walkIptablesChain} from '../trace/iptables/walk-packet.ts';
import {tablesOf, walkNftChain} from '../trace/nftables/walk-nft-packet.ts';
import type {Environment, Packet} from '../trace/packet.ts';
import {pathRules} from '../trace/packet.ts';
import {listChain} from './iptables/chain-texts.ts';
import {withChains} from './nftables/nft-case.ts';
import {isGap, mayNameInterface} from './iptables/text-gaps.ts';

/** What a chain does to a packet that the text shows without the rule that calls it. */
export interface UncalledChain {
  /** `filter/MY-FILTER`. */
  readonly place: string;
  /** In words: `dropped`, `sent to 10.244.1.5:80`. */
  readonly effect: string;
  readonly verdict: ChainResult<RuleText>['verdict'];
  readonly path: readonly RuleText[];
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
    const names = [...table.chains.keys(), 'PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];
    const called = new Set(names.flatMap(name => rules.chain(table.name, name)?.rules() ?? []).map(({target}) => target?.name));
    const roots = [...table.chains.values()].filter(chain => chain.policy === null && !isBaseChain(chain.name) && !called.has(chain.name));
    return roots.flatMap(({name}) => {
      const chain = rules.chain(table.name, name);
      if (chain === undefined) return [];
      const ends = walkIptablesChain(context, chain, packet);
      return orSentOn(effectOf(`${table.name}/${name}`, ends), ends, shown);
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
      const found = roots.flatMap(chain =>
        effectOf(`${chain.name} of table ${table.id}`, walkNftChain(table, chain, {packet, environment})),
      );
      return [...found, ...unaskedMaps(table, {packet, environment})];
    });
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
  return {table: id, name, base: null, comment: null, ruleCount: 1, complete: true, ...rules};
}

function calledIn({chains, sets}: NftTable): ReadonlySet<string> {
  const texts = [
    ...[...chains.values()].map(chain => chain.text()),
    ...[...sets.values()].flatMap(({elements}) => [...elements.values()].map(({value}) => value ?? '')),
  ];
  return new Set(texts.flatMap(text => [...text.matchAll(/\b(?:jump|goto) ([\w./-]+)/g)].map(([, name = '']) => name)));
}

function effectOf<R extends RuleText>(place: string, ends: readonly ChainResult<R>[]): readonly UncalledChain[] {
  const acting = ends.filter(({verdict}) => verdict !== 'return');
  const sure = acting.filter(({supposed}) => supposed === null);
  const unsure = acting.filter(({supposed, verdict}) => supposed !== null && verdict !== 'undecided');
  const [first] = sure.length > 0 ? sure : unsure;
  if (first === undefined) return [];
  const words = sure.length > 0 ? sure.map(wordOf) : unsure.map(end => `${wordOf(end)} if ${conditionOf(end)}`);
  const passes = ends.some(({verdict, supposed}) => verdict === 'return' && supposed === null) && sure.length > 0;
  const path = pathRules(first.path).filter(rule => !isGap(rule));
  const hidden = path.some(mayNameInterface) ? ', unless a rule there names an interface, which iptables -L shows with -v alone' : '';
  return [{place, effect: [...new Set(words), ...(passes ? ['let through'] : [])].join(' or ') + hidden, verdict: first.verdict, path}];
}

/** A chain that only jumps to chains that are not shown: they decide. */
function orSentOn(found: readonly UncalledChain[], ends: readonly ChainResult<Rule>[], shown: Ruleset): readonly UncalledChain[] {
  const sure = ends.find(({supposed}) => supposed === null);
  if (found.length > 0 || sure === undefined) return found;
  const path = pathRules(sure.path);
  const isUnseen = (rule: Rule, at: number): boolean =>
    isGap(rule) && path[at - 1]?.line !== 0 && shown.chain(rule.table, rule.chain) === undefined;
  const unseen = path.filter(isUnseen).map(({chain}) => chain);
  const [first] = path;
  if (first === undefined || unseen.length === 0) return [];
  const effect = `sent on to ${unseen.join(' and then to ')}, which the text does not show`;
  return [{place: `${first.table}/${first.chain}`, effect, verdict: sure.verdict, path: path.filter(rule => !isGap(rule))}];
}

/** What a program of nat/PREROUTING does to a packet. */
export interface Taker {
  /** The chain that PREROUTING jumps to. */
  readonly name: string;
  readonly effect: string;
}

/** The programs whose rules of nat/PREROUTING take a packet. */
export function takersOf(shown: Ruleset, rules: Ruleset, {packet, environment}: Walk): readonly Taker[] {
  const chain = packet.origin === 'arriving' ? rules.chain('nat', 'PREROUTING') : undefined;
  if (chain === undefined) return [];
  const context = {rules, environment: {...environment, isLocal: () => true}, limits: limitsFor(rules)};
  const isKnown = environment.isLocal(packet.destination) !== null;
  return chain.rules().flatMap(rule => {
    const alone = listChain({table: 'nat', name: 'PREROUTING', policy: null, complete: true}, [rule]);
    const ends = walkIptablesChain(context, alone, packet);
    const [found] = orSentOn(effectOf('nat/PREROUTING', ends), ends, shown);
    if (found === undefined) return [];
    const ifLocal = !isKnown && / --dst-type LOCAL /.test(rule.text) ? ` if the node has ${packet.destination.text}` : '';
    const line = rule.line === 0 ? '' : ` (line ${rule.line})`;
    const name = rule.target?.name ?? '';
    return [{name, effect: `${name}${line}: ${found.effect}${ifLocal}`}];
  });
}

function wordOf({verdict, packet, reason}: ChainResult<RuleText>): string {
  const where = packet.rewritten ? ` to ${joinHostPort(packet.destination.text, packet.port)}` : '';
  if (verdict === 'accept') return where === '' ? 'accepted' : `sent${where}`;
  return verdict === 'drop' ? 'dropped' : verdict === 'reject' ? 'refused' : `undetermined (${reason ?? 'its match is unknown'})`;
}

/** Of the rule whose match is unknown: mostly it asks for a set that the text does not show. */
function conditionOf({supposed, packet}: ChainResult<RuleText>): string {
  const set = supposed === null ? undefined : / --match-set (\S+) /.exec(supposed.text)?.[1];
  const before =
    supposed?.chain === 'KUBE-IPVS-FILTER' ? `, and no rule that kube-proxy writes before it, and that is not shown, accepts the port` : '';
  if (set !== undefined) return `${set}, which the text does not show, has ${packet.destination.text}${before}`;
  return `this rule matches, which cannot be told: ${supposed?.text ?? ''}`;
}
