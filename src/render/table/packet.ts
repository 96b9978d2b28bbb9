import {joinHostPort} from '../../model/virtual-server.ts';
import type {PacketAnswer} from '../../analyze/packet-query.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {dumpLine, percent} from '../trace-words.ts';
import {escapeText, type Style, styleOf} from '../terminal-text.ts';
import {place, schemaVersion, toJson, toYaml} from '../json.ts';
import type {RenderOptions} from '../renderer.ts';
import {wrap} from '../wrap.ts';

/** Renders what nodes do to a packet: one node gives one object in JSON and YAML, several give a list. */
type PacketRenderer = (answers: readonly PacketAnswer[], options: RenderOptions) => string;

/** The output formats of `packet`. */
export const packetRenderers = {
  tree: (answers, {color, width}) => answers.map(answer => packetTree(answer, styleOf(color), width)).join('\n\n'),
  json: answers => toJson(packetObject(answers)),
  yaml: answers => toYaml(packetObject(answers)),
} as const satisfies Readonly<Record<string, PacketRenderer>>;

function packetObject(answers: readonly PacketAnswer[]): object {
  const objects = answers.map(answerObject);
  return objects.length === 1 ? (objects[0] ?? {}) : objects;
}

function answerObject({node, query, outcomes, senders}: PacketAnswer): object {
  const {family, source, destination, port, protocol} = query;
  return {
    ...{schemaVersion, node, packet: {family, source, destination, port, protocol}},
    outcomes: outcomes.map(
      ({verdict, destination: rewritten, rewrittenTo, probability, masquerade, path, reason, lost, onward, policy}) => ({
        ...{
          verdict,
          destination: rewritten ?? rewrittenTo ?? null,
          probability: Number(probability.toFixed(9)),
          masquerade,
          path: path.map(place),
        },
        ...(lost === undefined ? {} : {lost}),
        ...(reason === undefined ? {} : {reason}),
        ...(policy === undefined ? {} : {policy}),
        ...(onward === undefined ? {} : {onward: {node: onward.node, path: onward.path?.map(place) ?? null}}),
      }),
    ),
    ...(senders === undefined ? {} : {senders: {text: senders}}),
  };
}

function packetTree({node, query, outcomes, senders}: PacketAnswer, style: Style, width: number): string {
  const head = `${style.bold(escapeText(node))}: ${query.protocol} ${query.source} → ${joinHostPort(query.destination, query.port)}`;
  const lines = [`${head}  ${summary(outcomes, style)}`];
  for (const [index, outcome] of outcomes.entries()) {
    const last = index === outcomes.length - 1;
    const {probability, path, reason, onward, policy, verdict} = outcome;
    const chance = probability > 0.999999 ? '' : `${percent(probability)} `;
    const cause =
      reason ?? (policy === undefined || verdict !== 'drop' ? undefined : `no rule accepts it, and the policy of ${policy} is DROP`);
    const why = cause === undefined ? '' : `: ${escapeText(cause)}`;
    lines.push(`${last ? '└─' : '├─'} ${chance}${outcomeText(outcome, style)}${why}`);
    const stem = last ? '  ' : '│ ';
    for (const [at, rule] of path.entries())
      lines.push(...stepLines(rule, path[at + 1], {style, width: width - stem.length}).map(part => stem + part));
    if (onward !== undefined) {
      const where = `on ${escapeText(onward.node)}`;
      lines.push(`${stem}  ${onward.path === null ? `${where}: its rules were not walked (--node names both)` : style.bold(`${where}:`)}`);
      for (const [at, rule] of (onward.path ?? []).entries())
        lines.push(...stepLines(rule, onward.path?.[at + 1], {style, width: width - stem.length}).map(part => stem + part));
    }
  }
  if (senders !== undefined) lines.push(...wrap(`holds for packets from ${senders}`, width, '  '));
  return lines.join('\n');
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
  const {chain, text, backend} = rule;
  const table = backend === undefined ? rule.table : `${rule.table} (${backend})`;
  const line = dumpLine(rule);
  const lined = (name: string) => (rule.line === 0 ? `${name} (assumed)` : line === 0 ? name : `${name}:${line}`);
  return text.includes(chain) ? lined(table) : `${table} ${lined(chain)}:`;
}

/** The packet may arrive, and the connection fail all the same. */
function outcomeText(outcome: PacketAnswer['outcomes'][number], style: Style): string {
  const {verdict, lost, destination, rewrittenTo, onward} = outcome;
  if (lost === undefined && verdict !== 'accept' && onward !== undefined)
    return `sent on to ${destination ?? 'its destination'} and ${verdictText(verdict, style)} on ${escapeText(onward.node)}`;
  if (lost === undefined) return `${verdictText(verdict, style)}${targetText(outcome)}`;
  const which = lost === 'reply' ? 'the reply' : 'the packet after the reply';
  return `reaches ${destination ?? rewrittenTo ?? ''}, but ${which} is ${verdictText(verdict, style)}`;
}

/** Where the packet goes; for an undetermined outcome, where it was rewritten to. */
function targetText({verdict, destination, rewrittenTo, masquerade}: PacketAnswer['outcomes'][number]): string {
  if (verdict === 'undecided') return rewrittenTo === undefined ? '' : ` after DNAT to ${rewrittenTo}`;
  return ` ${destination ?? 'not rewritten'}${masquerade ? ', masqueraded' : ''}`;
}

function summary(outcomes: PacketAnswer['outcomes'], style: Style): string {
  const verdicts = [...new Set(outcomes.map(({verdict}) => verdict))];
  return verdicts.map(verdict => verdictText(verdict, style)).join(' or ');
}

function verdictText(verdict: PacketAnswer['outcomes'][number]['verdict'], style: Style): string {
  const texts = {
    accept: style.green('accepted'),
    reject: style.red('refused'),
    drop: style.red('dropped'),
    undecided: style.yellow('undetermined'),
  };
  return texts[verdict];
}
