import {type Finding, type Hits, hitsText, type Since} from '../model/finding.ts';
import {namespacedName, plural} from '../model/text.ts';
import {type FindingBlock, type FindingGroup, lostOn, membersOf, portText, nodeList} from './finding-blocks.ts';

/** Whom a block hits: the worst of its Service ports, and how many others lose connections. Null if that is not known. Not escaped. */
export function hitsOf(block: FindingBlock): string | null {
  const all = membersOf(block).filter(({hits}) => hits !== undefined);
  const keyOf = ({who = '', verb, effect}: Hits): string => [who, verb, effect].join(' ');
  const byEffect = Map.groupBy(all, ({hits}) => (hits === undefined ? '' : keyOf(hits)));
  const worst = [...byEffect.values()].reduce<readonly Finding[]>(
    (most, own) => (lostOn(own) > lostOn(most) ? own : most),
    all.slice(0, 1),
  );
  const [first] = worst;
  if (first?.hits === undefined) return null;
  const {hits} = first;
  const same = new Map((byEffect.get(keyOf(hits)) ?? []).map(each => [each.node ?? '', each.hits?.pods]));
  const pods = [...same.values()].reduce<number | undefined>(
    (sum, own) => (sum === undefined || own === undefined ? undefined : sum + own),
    0,
  );
  const losing = new Set(all.filter(each => (each.hits?.share ?? 0) > 0).map(portText));
  losing.delete(portText(first));
  const more =
    losing.size === 0 ? '' : `. ${plural(losing.size, 'more Service port')} ${losing.size === 1 ? 'loses' : 'lose'} connections there`;
  const {pods: _, ...rest} = hits;
  const where = same.size > 1 && same.size === block.nodes.length ? 'these nodes' : nodeList([...same.keys()]);
  return hitsText({...rest, pods}, where) + more;
}

/** The message of a block and what else is in it, in one line. Not escaped. */
export function blockSentence(block: FindingBlock): string {
  return [
    ...blockTexts(block),
    ...(block.others.length === 0 ? [] : [`in all ${blockPlaces(block).head}`]),
    ...(block.effects.length === 0 ? [] : [effectsText(block).head]),
  ].join('; ');
}

/**
 * When the nodes of a block stopped following the API: `between 02:09:14 and 02:13:50 UTC, 3 h before the check`. Null if that is not known.
 * `readAt` is when they were read (RFC 3339).
 */
export function sinceOf(block: FindingBlock, readAt: string | undefined): string | null {
  const {after, before} = sinceOfNodes(block) ?? {};
  const bound = before ?? after;
  if (bound === undefined) return null;
  const age = readAt === undefined ? '' : ageText((Date.parse(readAt) - Date.parse(bound)) / 1000);
  const day = (time: string): string => time.slice(0, 10);
  const today = readAt === undefined ? undefined : day(new Date(readAt).toISOString());
  const text = (time: string, ...known: readonly (string | undefined)[]): string =>
    known.includes(day(time)) ? time.slice(11, 19) : `${day(time)} ${time.slice(11, 19)}`;
  if (after === undefined) return `before ${text(bound, today)} UTC${age}`;
  if (before === undefined) return `after ${text(bound, today)} UTC${age}`;
  return `between ${text(after, today)} and ${text(before, today, day(after))} UTC${age}`;
}

/** The same as data. */
export function sinceOfNodes(block: FindingBlock): Since | null {
  const all = [...new Map(membersOf(block).flatMap(({node, since}) => (since === undefined ? [] : [[node, since] as const]))).values()];
  if (all.length === 0 || all.length < block.nodes.length) return null;
  const afters = all.flatMap(({after}) => after ?? []).sort();
  const befores = all.flatMap(({before}) => before ?? []).sort();
  const after = afters.length === all.length ? afters[0] : undefined;
  const before = befores.length === all.length ? befores.at(-1) : undefined;
  if (after === undefined && before === undefined) return null;
  return {after, before};
}

/** What follows the API on the nodes of a block. */
export function programOf({finding}: FindingBlock): string {
  return finding.program ?? 'kube-proxy';
}

/** What a block is about: the cause, where only the rules show it, and the message of the finding. Not escaped. */
export function blockTexts(block: FindingBlock): readonly string[] {
  const older = olderText(block);
  return [...(older === null ? [] : [older]), ...(block.reason === 'flushed-filter' ? [] : [messageOf(block)])];
}

/** Of a block whose cause only the rules show. Not escaped. */
export function olderText(block: FindingBlock): string | null {
  const {reason, nodes, finding} = block;
  if (reason === 'flushed-filter')
    return `kube-proxy's rules in table filter are missing on ${nodes.length > 1 ? 'these nodes' : nodeList(nodes)}: something flushed the table`;
  if (reason !== 'older-rules') return null;
  const rules = finding.program === undefined ? 'the rules there are' : 'its table is';
  return `${programOf(block)} no longer applies changes on ${nodes.length > 1 ? 'these nodes' : nodeList(nodes)}: ${rules} older than the API`;
}

/** Since when, and whom, as sentences without a full stop, as far as they are known, for formats without labels. Not escaped. */
export function whomAndSince(block: FindingBlock, readAt: string | undefined): readonly string[] {
  const since = sinceOf(block, readAt);
  // Clients of which nothing more is known are in the message.
  const isTold = membersOf(block).some(({hits}) => hits !== undefined && hits.who !== 'clients');
  return [
    ...(since === null ? [] : [`${programOf(block)} on ${nodeList(block.nodes)} stopped applying changes ${since}`]),
    ...[isTold ? hitsOf(block) : null].filter(text => text !== null),
  ];
}

/** `, 3 h before the check`; of less than a minute nothing. */
function ageText(seconds: number): string {
  const units = [
    [86_400, 'd'],
    [3600, 'h'],
    [60, 'min'],
  ] as const;
  const [size, name] = units.find(([unit]) => seconds >= unit * 1.5) ?? [60, 'min'];
  return seconds < 60 ? '' : `, ${Math.round(seconds / size)} ${name} before the check`;
}

/**
 * What the findings of a block have in common (`5 endpoints of shop/web:http`, `10 findings on 10 Service ports`), and the subjects of the
 * others: endpoints of one Service port, otherwise Service ports. Not escaped.
 */
export function blockPlaces({finding, others}: FindingBlock): {readonly head: string; readonly others: readonly string[]} {
  const ports = [...new Set(others.map(other => portText(other.finding)))];
  const isOnePort = ports.length === 1 && ports[0] === portText(finding);
  const endpoints = [...new Set([finding, ...others.map(other => other.finding)].flatMap(({endpoint}) => endpoint ?? []))];
  if (isOnePort && endpoints.length > 0)
    return {
      head: `${endpointsText([finding, ...others.map(other => other.finding)], endpoints.length)} of ${ports[0]}`,
      others: endpoints.filter(endpoint => endpoint !== finding.endpoint),
    };
  const places = ports.filter(port => port !== portText(finding));
  if (finding.node === undefined && [finding, ...others.map(other => other.finding)].every(({port}) => port === undefined))
    return {head: plural(places.length + 1, 'Service'), others: places};
  return {head: `${plural(others.length + 1, 'finding')} on ${plural(places.length + 1, 'Service port')}`, others: places};
}

/** `5 of 6 endpoints`, where all of them are endpoints of the Service. */
function endpointsText(findings: readonly Finding[], count: number): string {
  const total = findings[0]?.endpoints;
  if (total === undefined || findings.some(({endpoints}) => endpoints !== total)) return plural(count, 'endpoint');
  return `${count} of ${plural(total, 'endpoint')}`;
}

/** `22 findings on 12 Services, likely from this cause`, with the number of each code and the Services. Not escaped. */
export function effectsText({effects, reason}: FindingBlock): {
  readonly head: string;
  readonly codes: string;
  readonly services: readonly string[];
} {
  const named = effects.flatMap(({finding: {service, affects}}) => service ?? affects ?? []);
  const services = [...new Set(named.map(namespacedName))];
  const codes = [...Map.groupBy(effects, ({finding: {code, name}}) => `${code} ${name}`)].map(([code, all]) => `${all.length} × ${code}`);
  const count = plural(effects.length, reason === 'cause' ? 'finding' : 'more finding');
  return {head: `${count} on ${plural(services.length, 'Service')}, likely from this cause`, codes: codes.join(', '), services};
}

/**
 * Pods of several nodes, at most so many, are deleted with one command; of other commands those of the first node are shown. `lines`: one
 * after the other, not escaped. A command that is not kubectl's is run on the node, as root. `otherNodes`: so many nodes have commands of
 * their own that are not among the lines.
 */
export function groupCommands({commands}: Pick<FindingGroup, 'commands'>, maxPods = Infinity) {
  const distinct = [...new Set(commands)];
  const [first = ''] = distinct;
  const deletions = distinct.slice(0, maxPods).map(command => deletion.exec(command));
  const isOneDeletion = distinct.length > 1 && deletions.every(found => found?.[1] === deletions[0]?.[1] && found !== null);
  const others = deletions.slice(1).map(found => found?.[2]);
  const text = isOneDeletion ? [first, ...others].join(' ') : first;
  const lines = text === '' ? [] : text.split('\n').map(line => ({isOnNode: !line.startsWith('kubectl '), text: line}));
  return {lines, otherNodes: distinct.length - (isOneDeletion ? deletions.length : Math.min(distinct.length, 1))};
}

/** The lines by where they are run, for formats with a block of text for each place. */
export function commandsByPlace(group: Pick<FindingGroup, 'commands'>): readonly (readonly [label: string, texts: readonly string[]])[] {
  const {lines, otherNodes} = groupCommands(group);
  const more = otherNodes > 0 ? `, and likewise on ${plural(otherNodes, 'more node')}` : '';
  const places = Map.groupBy(lines, ({isOnNode}) => isOnNode);
  return [...places].map(([isOnNode, own]) => [`Run${isOnNode ? ' on the node' : ''}${more}`, own.map(({text}) => text)]);
}

/** In the last line. */
const deletion = /(?:^|\n)(kubectl -n \S+ delete) (\S+)$/;

/** The message; with its node, if it is another on the other nodes. Not escaped. */
export function messageOf({finding: {message, node = ''}, members}: FindingGroup): string {
  const isSame = message.includes(node) || members.every(other => other.message === message);
  return isSame ? message : `${node}: ${message}`;
}
