import type {PacketAnswer} from '../../analyze/packet-query.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {nodeList} from '../names-of-nodes.ts';
import {escapeText, type Style} from '../terminal-text.ts';
import {dumpLine, percent, tableName} from '../trace-words.ts';

type Outcome = PacketAnswer['outcomes'][number];

/** One answer for all nodes: `on node-a: reaches no endpoint; on node-b, node-c: 3 endpoints, a third each`. */
export function answerOfNodes(
  groups: readonly {readonly nodes: readonly string[]; readonly outcomes: readonly Outcome[]}[],
  style: Style,
): string {
  const byText = Map.groupBy(groups, ({outcomes}) => answerText(outcomes, style));
  return [...byText].map(([text, own]) => `on ${nodeList(own.flatMap(({nodes}) => nodes))}: ${text}`).join('; ');
}

/** What happens to the packet, in one phrase: `3 endpoints, a third each`, `dropped by line 27, DROP of DOCKER-USER`. */
export function answerText(outcomes: readonly Outcome[], style: Style): string {
  const kinds = Map.groupBy(outcomes, outcome => phraseOf(outcome, style) ?? '');
  const parts = [...kinds].map(([phrase, own]) => ({
    isServed: phrase === '',
    text: phrase === '' ? style.green(servedText(own, kinds.size === 1)) : phrase,
    share: own.reduce((sum, {probability}) => sum + probability, 0),
    ends: new Set(own.map(({destination}) => destination)).size,
  }));
  const ends = new Set(outcomes.map(({rewrittenTo}) => rewrittenTo)).size;
  const conditions = new Set(
    outcomes.map(({condition = '', rewrittenTo = ''}) =>
      ends === 1 || rewrittenTo === '' ? condition : condition.replace(rewrittenTo, `one of ${ends} endpoints`),
    ),
  );
  const [condition = ''] = conditions.size === 1 ? conditions : [];
  // Of several endpoints beside something else, the text has the share of each.
  const texts = parts.map(({text, share, isServed, ends}) =>
    parts.length === 1 || (isServed && ends > 1) ? text : `${text} (${percent(share)})`,
  );
  return `${texts.join(' or ')}${condition === '' ? '' : `: ${escapeText(condition)}`}`;
}

/** Null for a packet that is sent to an endpoint. */
function phraseOf(outcome: Outcome, style: Style): string | null {
  const {verdict, lost, destination, noEndpointOf, onward} = outcome;
  if (lost !== undefined)
    return `${lost === 'reply' ? 'the reply' : 'the packet after the reply'} is ${style.red(verdictNames[verdict])}${causeText(outcome)}`;
  if (noEndpointOf !== undefined) return style.red(destination === null ? 'reaches no endpoint' : `sent to ${destination}, no endpoint`);
  if (verdict === 'undecided') return verdictText(verdict, style);
  if (verdict === 'accept') return destination === null ? `${verdictText(verdict, style)}, not rewritten` : null;
  return `${verdictText(verdict, style)}${onward === undefined ? '' : ` on ${escapeText(onward.node)}`}${causeText(outcome)}`;
}

/** In the color of the verdict. */
export function verdictText(verdict: Outcome['verdict'], style: Style): string {
  const text = verdictNames[verdict];
  if (verdict === 'accept') return style.green(text);
  return verdict === 'undecided' ? style.yellow(text) : style.red(text);
}

const verdictNames = {accept: 'accepted', reject: 'refused', drop: 'dropped', undecided: 'undetermined'} as const;

/** The rule, the policy or the reason; empty if none is known. */
function causeText({path, reason, policy, onward}: Outcome): string {
  if (reason !== undefined) return `: ${escapeText(reason)}`;
  if (policy !== undefined) return ` by the policy of ${escapeText(policy)}`;
  const rule = (onward?.path ?? path).at(-1);
  return rule === undefined ? '' : ` by ${ruleName(rule)}`;
}

/** `line 27, DROP of DOCKER-USER`. */
function ruleName(rule: RuleText): string {
  const line = dumpLine(rule);
  const target = / -j (\S+)/.exec(rule.text)?.[1];
  const what = target === undefined ? 'a rule' : target;
  const place = target === undefined ? `${tableName(rule)} ${rule.chain}` : rule.chain;
  return escapeText(`${line === 0 ? '' : `line ${line}, `}${what} of ${place}`);
}

/** `3 endpoints, a third each, masqueraded`. */
function servedText(outcomes: readonly Outcome[], isAll: boolean): string {
  const shares = new Map<string, number>();
  for (const {destination, probability} of outcomes) shares.set(destination ?? '', (shares.get(destination ?? '') ?? 0) + probability);
  const [[only] = ['']] = shares;
  const masked = new Set(outcomes.flatMap(({masquerade, destination}) => (masquerade ? [destination] : []))).size;
  const masquerade = masked === 0 ? '' : masked === shares.size ? ', masqueraded' : `, ${masked} of them masqueraded`;
  return shares.size === 1
    ? `sent to ${only}${masquerade}`
    : `${shares.size} endpoints, ${sharesText([...shares.values()], isAll)}${masquerade}`;
}

function sharesText(shares: readonly number[], areAll: boolean): string {
  const [least, most] = [Math.min(...shares), Math.max(...shares)];
  if (percent(least) !== percent(most)) return `${percent(least)} to ${percent(most)} each`;
  if (!areAll) return `${percent(least)} each`;
  return `${[undefined, undefined, 'half', 'a third', 'a quarter'][shares.length] ?? `1 in ${shares.length}`} each`;
}
