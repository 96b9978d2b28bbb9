import {once} from '../../expect/api-index.ts';
import type {NftPort} from '../../expect/nftables/nft-port.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import {walkNftPacket} from '../../trace/nftables/walk-nft-packet.ts';
import type {Outcome} from '../../trace/outcome.ts';
import type {Environment, Packet} from '../../trace/packet.ts';
import {walkSide} from '../../trace/side.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {collectPathOutcome, hasSameKinds} from '../outcomes/path-outcome.ts';
import {groupPorts, maxNamed, type PortGroups, type Representative, representatives} from './port-groups.ts';
import {dropsByDefault, thirdPartyRules} from './iptables-rules.ts';
import {probesFor} from '../outcomes/probes.ts';
import {namesPort} from '../outcomes/rule-constants.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {compareThirdPartyOutcome} from './nft-outcome.ts';
import {namesDestination, type NodeRule} from './node-rule.ts';
import {thirdPartyConstants} from './nft-rule-text.ts';
import {effectKey, isKnownLocal, type NotedEffect, noteEffect, type RuleEffect, symptomOfNode, symptomOfPort} from './rule-effect.ts';
import type {NftCase} from '../nftables/nft-case.ts';
import {nftPathOutcome} from '../nftables/nft-outcome.ts';

export interface NftThirdPartyCase extends NftCase {
  /** Whether the objects of a Service port differ. */
  readonly differs: (item: NftPort) => boolean;
  readonly ruleset: NftRuleset;
  /** The node's iptables rules in this family; of both backends if both are in use. */
  readonly iptables: readonly Ruleset[];
  /** The node's ipsets, where they were read. */
  readonly sets: ReadonlyMap<string, IpSet>;
}

/**
 * What third-party rules in other tables and in iptables do to Services' packets. Packets are walked through all rules and through
 * kube-proxy's table alone.
 */
export function analyzeNftThirdPartyRules(given: NftThirdPartyCase): readonly Symptom[] {
  const {expected} = given;
  const iptables = given.iptables.filter(holdsRules);
  const inTables = thirdPartyConstants(given.ruleset, given.actual);
  if (inTables === null && iptables.length === 0) return [];
  const environment = environmentOf(expected.context.facts, {sets: given.sets});
  const rules = iptables.flatMap(thirdPartyRules);
  const {groups, specific} = groupPorts<NftPort>(expected, rules, environment);
  const isAsExpected = (item: NftPort): boolean => !given.differs(item) || reachesSameKinds(item, given, environment);
  const named = inTables === null ? [] : expected.ports.filter(item => namesPort(inTables, item, expected.context));
  const tried = chosenPorts(groups, {specific, named, isAsExpected});
  const walk = once((item: NftPort) => analyzeItem(item, {...given, iptables}, environment));
  const found = new Map<string, NotedEffect<NodeRule, NftPort>>();
  for (const {item, alike} of tried) for (const effect of walk(item)) noteEffect(found, effect, [item, ...alike]);
  return [...found].flatMap(([key, {effect, items}]) => {
    if (!isSpecific(effect.rule, items, {specific, ports: expected.ports.length}))
      return [symptomOfNode(effect, items, expected.context.family)];
    // Each Service port is walked itself, so that its finding describes its own packet.
    return [...items].flatMap(item => {
      const own = walk(item).find(one => effectKey(one) === key && (one.severity === 'info') === (effect.severity === 'info'));
      return own === undefined ? [] : [symptomOfPort(own, item)];
    });
  });
}

/** Base chains with rules, whoever wrote them, or with a policy that drops. */
function holdsRules(ruleset: Ruleset): boolean {
  if (dropsByDefault(ruleset)) return true;
  return [...ruleset.tables.values()].some(({chains}) =>
    [...chains.values()].some(({policy, ruleCount}) => policy !== null && ruleCount > 0),
  );
}

interface Chosen {
  /** Rules of iptables that name a few Service ports. */
  readonly specific: ReadonlySet<NodeRule>;
  /** The Service ports that third-party tables name. */
  readonly named: readonly NftPort[];
  readonly isAsExpected: (item: NftPort) => boolean;
}

/** The Service ports to walk, and those that they stand for. A rule may single out or spare those that it names, so these stand for no others. */
function chosenPorts(groups: PortGroups<NftPort>['groups'], {specific, named, isAsExpected}: Chosen): readonly Representative<NftPort>[] {
  const [isNamed, isTried] = [new Set(named), new Set(named.slice(0, maxTried))];
  return groups.flatMap(({ports, rules}) => {
    const alone = rules.some(rule => specific.has(rule)) ? ports : ports.filter(item => isTried.has(item));
    if (alone.length === ports.length) return alone.map(item => ({item, alike: []}));
    const [left, others] = [ports.filter(item => isNamed.has(item) && !isTried.has(item)), ports.filter(item => !isNamed.has(item))];
    return [...alone.map(item => ({item, alike: []})), ...representatives(left, isAsExpected), ...representatives(others, isAsExpected)];
  });
}

/** Above this number, Service ports that third-party tables name are not probed one by one. */
const maxTried = 200;

/** Whether all packets to a Service port end in the kinds of outcomes that they should, by kube-proxy's table alone. */
function reachesSameKinds(item: NftPort, {expected, actual}: NftThirdPartyCase, environment: Environment): boolean {
  const probes = probesFor({item, context: expected.context, hairpins: []}).filter(({knownTo}) => knownTo.size === 0);
  return probes.every(({packet}) =>
    hasSameKinds(nftPathOutcome(expected, packet, environment), nftPathOutcome(actual, packet, environment)),
  );
}

function analyzeItem(item: NftPort, given: NftThirdPartyCase, environment: Environment): readonly RuleEffect[] {
  const usual = compareWalks(item, given, environment, packet => walkAll(given, packet, environment));
  if (!given.iptables.some(({tables}) => tables.has('nat'))) return usual;
  const {ruleset: nft, iptables} = given;
  const other = compareWalks(item, given, environment, packet => walkSide({iptables, nft, environment, younger: 'iptables'}, packet));
  const known = new Set(usual.map(effectKey));
  return [...usual, ...other.filter(found => !known.has(effectKey(found))).map(onlyIfYounger)];
}

function walkAll({ruleset: nft, iptables}: NftThirdPartyCase, packet: Packet, environment: Environment): readonly Outcome<NodeRule>[] {
  return iptables.length === 0 ? walkNftPacket(nft, packet, environment) : walkSide({iptables, nft, environment}, packet);
}

/** No dump shows which table translates first: the kernel calls the newest table first. */
function onlyIfYounger(found: RuleEffect): RuleEffect {
  const detail = `${found.detail}, if table nat of iptables was made after kube-proxy's, which no dump tells`;
  return {...found, severity: found.severity ?? 'warning', detail};
}

type Walk = (packet: Packet) => readonly Outcome<NodeRule>[];

function compareWalks(item: NftPort, given: NftThirdPartyCase, environment: Environment, walk: Walk): readonly RuleEffect[] {
  const {ruleset, actual, expected, iptables} = given;
  const {facts} = expected.context;
  const isCut = ruleset.cut !== null || iptables.some(({cut}) => cut !== null);
  return probesFor({item, context: expected.context, hairpins: []}).flatMap(probe => {
    if (probe.knownTo.size > 0) return [];
    const alone = nftPathOutcome(actual, probe.packet, environment);
    const outcomes = walk(probe.packet);
    const pathOutcome = collectPathOutcome(outcomes, () => null);
    const isLocal = isKnownLocal(probe, facts, environment);
    return outcomes.flatMap(
      outcome => compareThirdPartyOutcome(outcome, {probe, alone, pathOutcome, isLocal, own: actual.id, ruleset, isCut}) ?? [],
    );
  });
}

/** A rule that names Service ports is reported for each of them, all others for the node. */
function isSpecific(rule: NodeRule | null, items: ReadonlySet<NftPort>, {specific, ports}: Specific): boolean {
  if (rule === null) return false;
  return 'target' in rule ? specific.has(rule) : items.size <= maxNamed(ports) && namesDestination(rule);
}

interface Specific {
  /** Rules of iptables that name a few Service ports. */
  readonly specific: ReadonlySet<NodeRule>;
  /** How many Service ports there are. */
  readonly ports: number;
}
