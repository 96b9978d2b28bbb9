import type {NftPort} from '../../expect/nftables/nft-port.ts';
import {addressesProbed, type ForeignText, foreignText, namesPort} from './foreign-text.ts';
import type {NftRule, NftRuleset} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {walkNftPacket} from '../../trace/nftables/walk-nft-packet.ts';
import {environmentOf} from '../environment.ts';
import {describeFate, type Fate} from '../fate.ts';
import {type Probe, probesFor} from '../probes.ts';
import {whose} from '../judge-fates.ts';
import type {Symptom, SymptomKind} from '../symptom.ts';
import {shapeOf} from './frame-probes.ts';
import type {NftCase} from './nft-case.ts';
import {fateOfOutcomes, nftFate} from './nft-fate.ts';

export interface NftForeignCase extends NftCase {
  readonly ruleset: NftRuleset;
}

/** What tables that are not kube-proxy's do to Services' packets, which are walked through all tables and through kube-proxy's alone. */
export function judgeNftForeign(given: NftForeignCase): readonly Symptom[] {
  const {ruleset, actual, expected} = given;
  const foreign = foreignText(ruleset, actual);
  if (foreign === null) return [];
  const found = new Map<string, {readonly found: Found; readonly items: NftPort[]}>();
  for (const item of portsToTry(given, foreign)) {
    for (const one of judgeItem(item, given)) {
      const key = `${one.kind} ${one.rule.table} ${one.rule.chain} ${one.rule.text}`;
      const known = found.get(key);
      if (known === undefined) found.set(key, {found: one, items: [item]});
      else if (!known.items.includes(item)) known.items.push(item);
    }
  }
  return [...found.values()].flatMap(({found: one, items}) =>
    isSpecific(one, foreign, items) ? items.map(item => ofPort(one, item)) : [ofNode(one, alike(items, given), expected.context.family)],
  );
}

/** Service ports that a foreign rule names, and one of each shape beside them. */
function portsToTry({expected}: NftForeignCase, foreign: ForeignText): readonly NftPort[] {
  const {facts} = expected.context;
  const byShape = new Map(expected.ports.toReversed().map(item => [shapeOf(item, facts.hostIPs), item]));
  const named = expected.ports.filter(item => namesPort(foreign, addressesProbed(item, expected.context))).slice(0, mostNamed);
  return [...new Set([...named, ...byShape.values()])];
}

/** All Service ports of the shapes that were tried. */
function alike(items: readonly NftPort[], {expected}: NftForeignCase): readonly NftPort[] {
  const {hostIPs} = expected.context.facts;
  const shapes = new Set(items.map(item => shapeOf(item, hostIPs)));
  return expected.ports.filter(item => shapes.has(shapeOf(item, hostIPs)));
}

/** More Service ports than this that a rule names are not tried one by one. */
const mostNamed = 200;

interface Found {
  readonly kind: SymptomKind;
  readonly probe: Probe;
  readonly detail: string;
  readonly rule: RuleText;
}

function judgeItem(item: NftPort, {ruleset, actual, expected}: NftForeignCase): readonly Found[] {
  const environment = environmentOf(expected.context.facts);
  return probesFor({item, context: expected.context, hairpins: []}).flatMap(probe => {
    if (probe.knownTo.size > 0) return [];
    const alone = nftFate(actual, probe.packet, environment);
    const outcomes = walkNftPacket(ruleset, probe.packet, environment);
    const fate = fateOfOutcomes(outcomes);
    return outcomes.flatMap(outcome => judgeOutcome(outcome, {probe, alone, fate, own: actual.id}) ?? []);
  });
}

interface Walked {
  readonly probe: Probe;
  /** The fate by kube-proxy's table alone. */
  readonly alone: Fate<RuleText>;
  readonly fate: Fate<RuleText>;
  /** The table that is kube-proxy's. */
  readonly own: string;
}

/** Null when the outcome is the one of kube-proxy's table alone, or is not somebody else's doing. */
function judgeOutcome(outcome: Outcome<NftRule>, {probe, alone, fate, own}: Walked): Found | null {
  const foreign = outcome.path.filter(({table}) => table !== own);
  const last = outcome.doubt ?? outcome.path.at(-1);
  const who = whose(probe);
  if (outcome.verdict === 'undecided') {
    if (alone.undecided > 0 || last === undefined || last.table === own) return null;
    return {kind: 'undecided-path', probe, rule: last, detail: `what becomes of ${who} cannot be told: ${outcome.reason ?? ''}`};
  }
  if (outcome.verdict === 'drop' || outcome.verdict === 'reject') return refusal(outcome, {alone, probe, own});
  const [rule] = foreign.filter(takesPackets);
  if (rule === undefined) return null;
  if (outcome.destination !== null && !alone.destinations.has(outcome.destination)) {
    const detail = `${who} are taken to ${outcome.destination} by a rule that is not kube-proxy's and stands before its own`;
    return {kind: 'entry-taken-by-other-rule', probe, rule: foreign.findLast(takesPackets) ?? rule, detail};
  }
  if (outcome.destination === null && alone.destinations.size > 0) {
    const detail = `${who} never reach kube-proxy's rules, because a rule of somebody else's stands before them; they should go to ${describeFate(alone)}`;
    return {kind: 'entry-taken-by-other-rule', probe, rule, detail};
  }
  const share = alone.destinations.get(outcome.destination ?? '');
  if (share?.masquerade && fate.destinations.get(outcome.destination ?? '')?.masquerade === false) {
    const detail = `${who} should be masqueraded, and a rule of somebody else's takes them before kube-proxy's`;
    return {kind: 'postrouting-broken', probe, rule: foreign.findLast(takesPackets) ?? rule, detail};
  }
  return null;
}

function refusal(
  {verdict, path, policy, destination}: Outcome<NftRule>,
  {alone, probe, own}: Pick<Walked, 'alone' | 'probe' | 'own'>,
): Found | null {
  if (alone.destinations.size === 0) return null;
  const last = path.at(-1);
  const byPolicy = policy !== undefined;
  if (!byPolicy && (last === undefined || last.table === own)) return null;
  const refused = verdict === 'reject' ? 'refused' : 'dropped';
  const by = byPolicy ? `by the policy of ${policy}` : "by a rule that is not kube-proxy's";
  const rule: RuleText = !byPolicy && last !== undefined ? last : {table: policy ?? '', chain: '', line: 0, text: `policy of ${policy}`};
  const rewritten = destination !== null || path.some(({text}) => /(?:^| )dnat /.test(text));
  const kind = rewritten ? ('forward-blocked' as const) : ('dropped-by-other-rule' as const);
  const detail = rewritten ? `${whose(probe)} are sent to an endpoint and then ${refused} ${by}` : `${whose(probe)} are ${refused} ${by}`;
  return {kind, probe, rule, detail};
}

/** A rule that ends the way through its base chain, or rewrites the packet. */
function takesPackets({text}: RuleText): boolean {
  return /(?:^| )(?:accept|return|dnat|snat|redirect|masquerade|notrack)(?: |$)/.test(text);
}

/** A rule that names the Service ports it concerns is said of each of them, all others of the node. */
function isSpecific({rule}: Found, foreign: ForeignText, items: readonly NftPort[]): boolean {
  return rule.line > 0 && items.length <= mostSaid && foreign.naming.has(`${rule.table} ${rule.chain} ${rule.text}`);
}

const mostSaid = 50;

function ofPort({kind, probe, detail, rule}: Found, {port}: NftPort): Symptom {
  return {kind, family: port.family, port, entry: probe.entry, detail, expected: [], actual: evidenceOf(rule)};
}

function ofNode({kind, detail, rule}: Found, items: readonly NftPort[], family: Symptom['family']): Symptom {
  const scope = `${items.length} Service ${items.length === 1 ? 'port' : 'ports'}, such as ${items[0]?.port.servicePortName ?? ''}`;
  return {kind, family, port: null, detail: `${detail.replace(' its ', ' the ')} (${scope})`, expected: [], actual: evidenceOf(rule)};
}

function evidenceOf(rule: RuleText): readonly RuleText[] {
  return rule.line > 0 ? [rule] : [];
}
