import {largest} from '../../model/lists.ts';
import type {PacketAnswer} from '../../analyze/packet-query.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {dumpLine, percent, tableName} from '../trace-words.ts';
import {escapeText, type Style, styleOf, wrap, wrapLines, type RenderOptions} from '../renderer.ts';
import {place, schemaVersion, toJson, toYaml} from '../json.ts';
import {nodeList} from '../finding-blocks.ts';
import {joinHostPort} from '../../model/address.ts';

/** Renders what nodes do to a packet: one node gives one object in JSON and YAML, several give a list. */
type PacketRenderer = (answers: readonly PacketAnswer[], options: RenderOptions) => string;

/** The output formats of `packet`. */
export const packetRenderers = {
  tree: (answers, {color, width, verbose}) => {
    const style = styleOf(color);
    const groups = (verbose ? answers.flatMap(answer => groupAnswers([answer])) : groupAnswers(answers)).toSorted(
      (a, b) => Number(isServed(a)) - Number(isServed(b)),
    );
    const trees = groups.map(group => packetTree(group, style, width));
    const [first] = groups;
    return (
      first === undefined || groups.length === 1
        ? trees
        : [wrapLines(`${askedText(first)}  ${answerOfNodes(groups, style)}`, width), ...trees]
    ).join('\n\n');
  },
  json: answers => toJson(packetObject(answers)),
  yaml: answers => toYaml(packetObject(answers)),
} as const satisfies Readonly<Record<string, PacketRenderer>>;

function packetObject(answers: readonly PacketAnswer[]): object {
  const objects = answers.map(answerObject);
  return objects.length === 1 ? (objects[0] ?? {}) : objects;
}

function answerObject({node, query, outcomes, senders, tracked}: PacketAnswer): object {
  const {family, source, destination, port, protocol} = query;
  return {
    schemaVersion,
    node,
    packet: {family, source, destination, port, protocol},
    outcomes: outcomes.map(
      ({verdict, destination: rewritten, rewrittenTo, probability, masquerade, path, reason, lost, onward, policy}) => ({
        verdict,
        destination: rewritten ?? rewrittenTo ?? null,
        probability: Number(probability.toFixed(9)),
        masquerade,
        path: path.map(place),
        lost,
        reason,
        policy,
        onward: onward === undefined ? undefined : {node: onward.node, path: onward.path?.map(place) ?? null},
      }),
    ),
    senders: senders === undefined ? undefined : {text: senders},
    tracked: tracked?.text,
  };
}

/** Nodes that do the same by the same rules; line numbers are those of the first. */
interface AnswerGroup extends PacketAnswer {
  readonly nodes: readonly string[];
  /** Whether the packets for which it holds are the same on all of them: pods of a node are often others. */
  readonly haveSameSenders: boolean;
}

function groupAnswers(answers: readonly PacketAnswer[]): readonly AnswerGroup[] {
  const keyOf = ({query, outcomes, tracked}: PacketAnswer): string =>
    JSON.stringify([
      query,
      tracked,
      outcomes.map(({path, onward, sourceAfter, ...rest}) => [
        rest,
        sourceAfter?.text,
        path.map(ruleOf),
        onward?.node,
        onward?.path?.map(ruleOf),
      ]),
    ]);
  return [...Map.groupBy(answers, keyOf).values()].flatMap(all =>
    all.slice(0, 1).map(first => ({
      ...first,
      nodes: all.map(({node}) => node),
      haveSameSenders: all.every(({senders}) => senders === first.senders),
    })),
  );
}

/** Answers with a failure come first. */
function isServed({outcomes, tracked}: PacketAnswer): boolean {
  return tracked === undefined && outcomes.every(({verdict, noEndpointOf}) => verdict === 'accept' && noEndpointOf === undefined);
}

function ruleOf({table, chain, backend, text}: RuleText): readonly (string | undefined)[] {
  return [table, chain, backend, text];
}

function askedText({query, outcomes}: Pick<PacketAnswer, 'query' | 'outcomes'>): string {
  const {protocol, source, destination, port, entry, unallocatedIn} = query;
  const to = port === 0 ? destination : joinHostPort(destination, port);
  // Rules that are left over may still send it to an endpoint.
  const isLeftOver = unallocatedIn !== undefined && outcomes.some(outcome => outcome.destination !== null);
  const what = entry != null ? ` (${escapeText(entry.service)})` : isLeftOver ? ' (of no Service)' : '';
  return `${protocol} ${source} → ${to}${what}`;
}

function packetTree({nodes, query, outcomes, senders, haveSameSenders, tracked}: AnswerGroup, style: Style, width: number): string {
  const [node = ''] = nodes.map(escapeText);
  const hasLines = outcomes.some(({path, onward}) => [...path, ...(onward?.path ?? [])].some(rule => dumpLine(rule) > 0));
  const lineNumbers = nodes.length > 1 && hasLines ? ` (line numbers of ${node})` : '';
  const head = `${style.bold(nodeList(nodes))}${lineNumbers}:`;
  const asked = `${askedText({query, outcomes})}  ${answerText({outcomes, tracked}, style)}`;
  const stepsOf = (path: readonly RuleText[]): readonly string[] =>
    path.map((rule, at) => stepLines(rule, path[at + 1], {style, width: width - 2}).join('\n'));
  const paths = outcomes.map(({path}) => stepsOf(path));
  const {before, after} = commonSteps(paths);
  const [first = []] = paths;
  // Outcomes often go on to the same nodes.
  const walked = new Map<string, string>();
  const branches = outcomes.flatMap((outcome, index) => {
    const {onward} = outcome;
    const isLast = index === outcomes.length - 1;
    const stem = isLast ? '  ' : '│ ';
    const [said = '', ...more] = wrap(`${shareText(outcome)}${outcomeText(outcome, style)}${whyText(outcome)}`, width - 3, '');
    const lines = [`${isLast ? '└─' : '├─'} ${said}`, ...more.map(text => `${stem} ${text}`)];
    const own = paths[index] ?? [];
    lines.push(...stemmed(own.slice(before, own.length - after), stem));
    if (onward === undefined) return lines;
    const where = `on ${escapeText(onward.node)}`;
    if (onward.path === null) return [...lines, `${stem}  ${where}: its rules were not walked (--node names both)`];
    const steps = stepsOf(onward.path);
    const text = steps.join('\n');
    const isSame = steps.length > 1 && walked.get(onward.node) === text;
    walked.set(onward.node, text);
    return [...lines, `${stem}  ${style.bold(`${where}:`)}${isSame ? ' the rules above' : ''}`, ...(isSame ? [] : stemmed(steps, stem))];
  });
  const each = `on ${nodes.length > 1 ? 'each of these nodes' : node}, ${outcomes.length === 2 ? 'both' : `all ${outcomes.length}`} then pass:`;
  const where = haveSameSenders ? '' : ` on ${node}`;
  const others = haveSameSenders ? '' : '; on the other nodes for others (-v shows those of each)';
  return [
    ...wrap(`${head} ${asked}`, width, ''),
    ...stemmed(first.slice(0, before), '│ '),
    ...branches,
    ...(after > 0 ? [`  ${each}`, ...stemmed(first.slice(-after), '  ')] : []),
    ...(tracked === undefined ? [] : wrap(style.yellow(escapeText(tracked.text)), width, '  ')),
    ...(senders === undefined ? [] : wrap(`holds${where} for packets from ${senders}${others}`, width, '  ')),
  ].join('\n');
}

function stemmed(steps: readonly string[], stem: string): readonly string[] {
  return steps.flatMap(step => step.split('\n').map(line => stem + line));
}

function shareText({probability}: Outcome): string {
  return probability > 0.999999 ? '' : `${percent(probability)} `;
}

function whyText({reason, policy, verdict}: Outcome): string {
  if (reason !== undefined) return `: ${escapeText(reason)}`;
  return policy === undefined || verdict !== 'drop' ? '' : `: no rule accepts it, and the policy of ${escapeText(policy)} is DROP`;
}

/** How many steps all of several paths have in common at their beginning and, behind at least one of their own, at their end. */
function commonSteps(paths: readonly (readonly string[])[]): {readonly before: number; readonly after: number} {
  const [first = [], ...others] = paths;
  if (others.length === 0) return {before: 0, after: 0};
  const shortest = -largest(paths.map(({length}) => -length));
  let before = 0;
  while (before < shortest && others.every(path => path[before] === first[before])) before++;
  let after = 0;
  while (after < shortest - before && others.every(path => path.at(-1 - after) === first.at(-1 - after))) after++;
  return {before, after};
}

/** A rule on the path with its place; of a map, where the element of the packet leads. */
function stepLines(
  rule: RuleText,
  next: RuleText | undefined,
  {style, width}: {readonly style: Style; readonly width: number},
): readonly string[] {
  const place = escapeText(placeOf(rule));
  const element = / vmap @/.test(rule.text) && next !== undefined && next.table === rule.table ? ` → ${next.chain}` : '';
  const [first = '', ...others] = wrap(`${place} ${escapeText(rule.text + element)}`, width - 2, '   ');
  return [first.replace(place, () => style.dim(place)), ...others.map(line => `  ${line}`)];
}

/** The table, the chain if the rule does not name it, and the line of a text. */
function placeOf(rule: RuleText): string {
  const {chain, text} = rule;
  const table = tableName(rule);
  const line = dumpLine(rule);
  const lined = (name: string) => (rule.line === 0 ? `${name} (assumed)` : line === 0 ? name : `${name}:${line}`);
  return text.includes(chain) ? lined(table) : `${table} ${lined(chain)}:`;
}

/** The packet may arrive, and the connection fail all the same. */
function outcomeText(outcome: PacketAnswer['outcomes'][number], style: Style): string {
  const {verdict, lost, destination, rewrittenTo, onward} = outcome;
  if (lost === undefined && verdict !== 'accept' && onward !== undefined)
    return `sent on to ${destination ?? 'its destination'} and ${verdictText(verdict, style)} on ${escapeText(onward.node)}`;
  if (lost === undefined && outcome.noEndpointOf !== undefined) return unservedText(outcome, outcome.noEndpointOf, style);
  if (lost === undefined) return `${verdictText(verdict, style)}${targetText(outcome)}`;
  const which = lost === 'reply' ? 'the reply' : 'the packet after the reply';
  return `reaches ${destination ?? rewrittenTo ?? ''}, but ${which} is ${verdictText(verdict, style)}`;
}

/** The reason names the address and the Service port. */
function unservedText({destination}: PacketAnswer['outcomes'][number], servicePort: string, style: Style): string {
  return destination === null ? `${style.red('reaches no endpoint')} of ${escapeText(servicePort)}` : style.red(`sent to ${destination}`);
}

/** Where the packet goes; for an undetermined outcome, where it was rewritten to. */
function targetText({verdict, destination, rewrittenTo, masquerade}: PacketAnswer['outcomes'][number]): string {
  if (verdict === 'undecided') return rewrittenTo === undefined ? '' : ` after DNAT to ${rewrittenTo}`;
  if (verdict !== 'accept' && destination === null) return '';
  return ` ${destination ?? 'not rewritten'}${masquerade ? ', masqueraded' : ''}`;
}

type Outcome = PacketAnswer['outcomes'][number];

/** One answer for all nodes: `on node-a: reaches no endpoint; on node-b, node-c: 3 endpoints, a third each`. */
function answerOfNodes(groups: readonly AnswerGroup[], style: Style): string {
  const byText = Map.groupBy(groups, group => answerText(group, style));
  return [...byText].map(([text, own]) => `on ${nodeList(own.flatMap(({nodes}) => nodes))}: ${text}`).join('; ');
}

/** What happens to the packet, in one phrase: `3 endpoints, a third each`, `dropped by line 27, DROP of DOCKER-USER`. */
function answerText({outcomes, tracked}: Pick<PacketAnswer, 'outcomes' | 'tracked'>, style: Style): string {
  const kinds = Map.groupBy(outcomes, outcome => phraseOf(outcome, style) ?? '');
  const parts = [...kinds].map(([phrase, own]) => ({
    isServed: phrase === '',
    text: phrase === '' ? style.green(servedText(own, kinds.size === 1)) : phrase,
    share: own.reduce((sum, {probability}) => sum + probability, 0),
    ends: new Set(own.map(({destination}) => destination)).size,
  }));
  const ends = new Set(outcomes.map(({rewrittenTo}) => rewrittenTo)).size;
  const conditions = new Set(
    outcomes.map(outcome => {
      const {rewrittenTo = ''} = outcome;
      const condition = outcome.condition ?? whyUndetermined(outcome);
      return ends === 1 || rewrittenTo === '' ? condition : condition.replace(rewrittenTo, `one of ${ends} endpoints`);
    }),
  );
  const [condition = ''] = conditions.size === 1 ? conditions : [];
  // Of several endpoints beside something else, the text has the share of each.
  const texts = parts
    .toSorted((a, b) => Number(b.isServed) - Number(a.isServed))
    .map(({text, share, isServed, ends}) => (parts.length === 1 || (isServed && ends > 1) ? text : `${text} (${percent(share)})`));
  const flow = tracked === undefined ? '' : style.yellow(`; ${escapeText(tracked.gist)}`);
  return `${texts.join(' or ')}${condition === '' ? '' : `: ${escapeText(condition)}`}${flow}`;
}

/** The rule that decides, or what is not known, if that is not too long for the first line. */
function whyUndetermined({verdict, doubt, reason = '', noEndpointOf}: Outcome): string {
  if (verdict !== 'undecided' || noEndpointOf !== undefined) return '';
  if (doubt !== undefined) return `whether ${ruleName(doubt)}, matches is not known`;
  return reason.length > maxReason ? '' : reason;
}

const maxReason = 120;

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
function verdictText(verdict: Outcome['verdict'], style: Style): string {
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
  if (rule?.table === 'ipvs' && rule.text.startsWith('-A ')) return `: no real server of ${escapeText(rule.chain)} takes connections`;
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
  if (shares.size === 1) return `sent to ${only}${masquerade}`;
  return `${shares.size} endpoints, ${sharesText([...shares.values()], isAll)}${masquerade}`;
}

function sharesText(shares: readonly number[], areAll: boolean): string {
  const [least, most] = [Math.min(...shares), Math.max(...shares)];
  if (percent(least) !== percent(most)) return `${percent(least)} to ${percent(most)} each`;
  if (!areAll) return `${percent(least)} each`;
  return `${[undefined, undefined, 'half', 'a third', 'a quarter'][shares.length] ?? `1 in ${shares.length}`} each`;
}
