import {areOlder, type Finding, type Hits, hitsText, severities, type Severity} from '../model/finding.ts';
import {partition, pushTo} from '../model/lists.ts';
import {affectsAllServices} from '../model/report.ts';
import {namespacedName, plural} from '../model/text.ts';
import {nodeList} from './names-of-nodes.ts';

/** The content of one block of text: a finding, others of the same code on the same nodes, and the findings that it probably causes. */
export interface FindingBlock extends FindingGroup {
  /** Without the first. */
  readonly others: readonly FindingGroup[];
  /** Findings of Services on the same nodes that it causes, or that have its cause. */
  readonly effects: readonly FindingGroup[];
  /** Why they are in one block: they follow from the finding, or the rules of the nodes are older than changes in the API. */
  readonly reason: 'cause' | 'older-rules';
}

/** One block for each finding, a cause before its effects; the same finding on many nodes is one. */
export function spreadBlocks(findings: readonly Finding[]): readonly FindingBlock[] {
  return causeBlocks(findings).flatMap(({others, effects, ...block}) =>
    [block, ...others, ...effects].flatMap(({members}) => groupFindings(members).map(spreadBlock)),
  );
}

export function spreadBlock(group: FindingGroup): FindingBlock {
  return {...group, others: [], effects: [], reason: 'cause'};
}

/**
 * One block for a cause: if kube-proxy of some nodes stopped, the findings of their Services are in the block of that finding; if only the
 * rules show that, in the block of one of them. Three or more findings of one code on the same nodes are one block, and so are two or more of
 * the API objects. The worst come first, and of equally bad ones those that explain others or affect all Services of a node.
 */
export function causeBlocks(findings: readonly Finding[]): readonly FindingBlock[] {
  const groups = mergeNodes(groupFindings(findings));
  const caused = effectsOf(groups);
  const inCaused = new Set([...caused.values()].flat());
  const {shown: nodesOfOlder, effects: older} = olderRules(groups.filter(group => !inCaused.has(group)));
  const effects = new Map([...caused, ...older]);
  const causeOf = new Map([...effects].flatMap(([cause, all]) => all.map(group => [group, cause] as const)));
  const alike = new Map<string, FindingGroup[]>();
  for (const group of groups) if (!causeOf.has(group)) pushTo(alike, likeness(group), group);
  const blocks: FindingBlock[] = [];
  const done = new Set<FindingGroup>();
  for (const group of groups) {
    const first = causeOf.get(group) ?? group;
    if (done.has(first)) continue;
    const own = alike.get(likeness(first)) ?? [first];
    const merged =
      own.length >= (first.nodes.length === 0 ? 2 : minAlike) && first.finding.service !== undefined && !older.has(first) ? own : [first];
    for (const each of merged) done.add(each);
    const shown = nodesOfOlder.get(first) ?? first;
    blocks.push({...shown, others: merged.slice(1), effects: effects.get(first) ?? [], reason: older.has(first) ? 'older-rules' : 'cause'});
  }
  return blocks
    .map(block => ({block, order: orderOf(block)}))
    .sort((a, b) => compareBlocks(a.order, b.order))
    .map(({block}) => block);
}

const minAlike = 3;

/** By severity; of one severity the block that explains most first, then the one that hits most pods. */
function compareBlocks(a: BlockOrder, b: BlockOrder): number {
  return a.severity - b.severity || b.explains - a.explains || b.lost - a.lost;
}

interface BlockOrder {
  readonly severity: number;
  /** 0 if it explains nothing but itself. */
  readonly explains: number;
  /** For how many pods all connections would be lost, together. */
  readonly lost: number;
}

function orderOf(block: FindingBlock): BlockOrder {
  const all = membersOf(block);
  const ofNode = Map.groupBy(all, ({node = ''}) => node);
  const lost = [...ofNode.values()].map(own => own.reduce((most, {hits}) => Math.max(most, lostPods(hits)), 0));
  return {
    severity: severities.indexOf(severityOf(block)),
    explains: isCauseBlock(block) ? block.effects.length + 1 : 0,
    lost: lost.reduce((sum, pods) => sum + pods, 0),
  };
}

/** The worst of its findings. */
export function severityOf(block: FindingBlock): Severity {
  const all = new Set(membersOf(block).map(({severity}) => severity));
  return severities.find(severity => all.has(severity)) ?? block.finding.severity;
}

function lostPods(hits: Hits | undefined): number {
  return hits === undefined ? 0 : hits.share * (hits.pods ?? 1);
}

/** The same of all nodes of findings of one Service port. */
function lostOn(findings: readonly Finding[]): number {
  return [...new Map(findings.map(({node, hits}) => [node, lostPods(hits)])).values()].reduce((sum, pods) => sum + pods, 0);
}

function membersOf({members, others, effects}: FindingBlock): readonly Finding[] {
  return [...members, ...others.flatMap(other => other.members), ...effects.flatMap(effect => effect.members)];
}

/** Whom a block hits: the worst of its Service ports, and how many others lose connections. Null if that is not known. Not escaped. */
export function hitsOf(block: FindingBlock): string | null {
  const all = membersOf(block).filter(({hits}) => hits !== undefined);
  const byEffect = Map.groupBy(all, ({hits}) => hits?.effect);
  const worst = [...byEffect.values()].reduce<readonly Finding[]>(
    (most, own) => (lostOn(own) > lostOn(most) ? own : most),
    all.slice(0, 1),
  );
  const [first] = worst;
  if (first?.hits === undefined) return null;
  const {hits} = first;
  const same = new Map((byEffect.get(hits.effect) ?? []).map(each => [each.node ?? '', each.hits?.pods]));
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
  return hitsText({...rest, ...(pods === undefined ? {} : {pods})}, where) + more;
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
  const all = [...new Map(membersOf(block).flatMap(({node, since}) => (since === undefined ? [] : [[node, since] as const]))).values()];
  if (all.length === 0 || all.length < block.nodes.length) return null;
  const afters = all.flatMap(({after}) => after ?? []).sort();
  const befores = all.flatMap(({before}) => before ?? []).sort();
  const after = afters.length === all.length ? afters[0] : undefined;
  const before = befores.length === all.length ? befores.at(-1) : undefined;
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

/** What a block is about: the cause, where only the rules show it, and the message of the finding. Not escaped. */
export function blockTexts(block: FindingBlock): readonly string[] {
  return [...[olderText(block)].filter(text => text !== null), messageOf(block)];
}

/** Of a block whose cause only the rules show. Not escaped. */
export function olderText({reason, nodes}: FindingBlock): string | null {
  if (reason !== 'older-rules') return null;
  return `kube-proxy no longer applies changes on ${nodes.length > 1 ? 'these nodes' : nodeList(nodes)}: the rules there are older than the API`;
}

/** Since when, and whom, as sentences without a full stop, as far as they are known, for formats without labels. Not escaped. */
export function whomAndSince(block: FindingBlock, readAt: string | undefined): readonly string[] {
  const since = sinceOf(block, readAt);
  return [
    ...(since === null ? [] : [`kube-proxy on ${nodeList(block.nodes)} stopped applying changes ${since}`]),
    ...[hitsOf(block)].filter(text => text !== null),
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

/** It explains findings of Services, or affects all Services of its nodes. */
export function isCauseBlock({finding, effects}: FindingBlock): boolean {
  return effects.length > 0 || affectsAllServices(finding);
}

/** What explains most, for the first line: `ST305 no-service-rules on node-a`. Null if nothing explains more than itself. */
export function causeText(findings: readonly Finding[], readAt: string | undefined): string | null {
  const [first] = causeBlocks(findings.filter(({severity, known}) => severity !== 'info' && known === undefined));
  if (first === undefined || !isCauseBlock(first)) return null;
  const {finding, nodes, reason} = first;
  const where = `on ${nodeList(nodes)}`;
  const since = sinceOf(first, readAt);
  if (since !== null) return `${reason === 'older-rules' ? '' : `${finding.code}: `}kube-proxy ${where} stopped applying changes ${since}`;
  return reason === 'older-rules' ? `kube-proxy no longer applies changes ${where}` : `${finding.code} ${finding.name} ${where}`;
}

/** What the findings of a block have in common, and the subjects of the others: endpoints of one Service port, otherwise Service ports. */
interface BlockPlaces {
  /** `5 endpoints of shop/web:http`, `10 findings on 10 Service ports`. Not escaped. */
  readonly head: string;
  readonly others: readonly string[];
}

export function blockPlaces({finding, others}: FindingBlock): BlockPlaces {
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
  return total === undefined || findings.some(({endpoints}) => endpoints !== total)
    ? plural(count, 'endpoint')
    : `${count} of ${plural(total, 'endpoint')}`;
}

/** `shop/web:http`; empty for a finding of a node. Not escaped. */
export function portText({service, port}: Finding): string {
  if (service === undefined) return '';
  return `${namespacedName(service)}${port === undefined || port.name === '' ? '' : `:${port.name}`}`;
}

/** `22 findings on 12 Services, likely from this cause`, with the number of each code and the Services. Not escaped. */
export function effectsText({effects, reason}: FindingBlock): {
  readonly head: string;
  readonly codes: string;
  readonly services: readonly string[];
} {
  const services = [...new Set(effects.map(({finding: {service}}) => (service === undefined ? '' : namespacedName(service))))];
  const codes = [...Map.groupBy(effects, ({finding: {code, name}}) => `${code} ${name}`)].map(([code, all]) => `${all.length} × ${code}`);
  const head =
    reason === 'cause'
      ? `${plural(effects.length, 'finding')} on ${plural(services.length, 'Service')}, likely from this cause`
      : `${plural(effects.length, 'more finding')} on ${plural(services.length, 'Service')}, likely from this cause`;
  return {head, codes: codes.join(', '), services};
}

/**
 * Findings of nodes that differ in their messages only, such as in how long kube-proxy has not synced, are one: causes, and others of three
 * nodes or more.
 */
function mergeNodes(groups: readonly FindingGroup[]): readonly FindingGroup[] {
  const isOfNodes = ({finding, nodes}: FindingGroup): boolean => finding.service === undefined && nodes.length > 0;
  const alike = Map.groupBy(groups.filter(isOfNodes), ({finding: {code, severity, known, family, remedy}}) =>
    JSON.stringify([code, severity, known ?? null, family ?? null, remedy]),
  );
  const merged = new Map<FindingGroup, FindingGroup | null>();
  for (const own of alike.values()) {
    const [first] = own;
    if (first === undefined || own.length < (isCause(first.finding) ? 2 : minAlike)) continue;
    for (const group of own) merged.set(group, null);
    merged.set(first, together(first, own));
  }
  return groups.flatMap(group => (merged.has(group) ? (merged.get(group) ?? []) : group));
}

/** The first with the nodes, commands and findings of all. */
function together(first: FindingGroup, groups: readonly FindingGroup[]): FindingGroup {
  return {
    finding: first.finding,
    nodes: [...new Set(groups.flatMap(({nodes}) => nodes))].sort(),
    commands: [...new Set(groups.flatMap(({commands}) => commands))],
    members: groups.flatMap(({members}) => members),
  };
}

/** Each cause with three or more effects. A group of findings counts for the first cause on all of its nodes, or else for one on each. */
function effectsOf(groups: readonly FindingGroup[]): ReadonlyMap<FindingGroup, readonly FindingGroup[]> {
  const causes = groups.filter(({finding}) => isCause(finding)).map(group => ({group, nodes: new Set(group.nodes)}));
  const anyCause = new Set(causes.flatMap(({group}) => group.nodes));
  const effects = new Map<FindingGroup, FindingGroup[]>();
  for (const group of groups) {
    if (!isOfService(group) || !effectCodes.has(group.finding.code)) continue;
    if (!group.nodes.every(node => anyCause.has(node))) continue;
    const cause = (
      causes.find(({nodes}) => group.nodes.every(node => nodes.has(node))) ??
      causes.find(({nodes}) => group.nodes.some(node => nodes.has(node)))
    )?.group;
    if (cause !== undefined) pushTo(effects, cause, group);
  }
  return new Map([...effects].filter(([, all]) => all.length >= minAlike));
}

/** kube-proxy does not sync, its rules are missing, or it writes to another backend or with another node name. */
function isCause({code, severity, service, node}: Finding): boolean {
  if (service !== undefined || node === undefined) return false;
  return code === 'ST505' || (severity === 'error' && ['ST305', 'ST501', 'ST507'].includes(code));
}

/** The effects of missed updates: Services, endpoints and entries that are missing or stale. */
const effectCodes: ReadonlySet<string> = new Set(['ST201', 'ST202', 'ST203', 'ST204', 'ST205', 'ST206', 'ST212', 'ST213']);

function isOfService({finding, nodes}: FindingGroup): boolean {
  return finding.service !== undefined && nodes.length > 0;
}

function likeness({finding: {code, severity, known, family, remedy}, nodes}: FindingGroup): string {
  return JSON.stringify([code, severity, known ?? null, family ?? null, remedy, nodes]);
}

interface OlderRules {
  /** Of one of the findings, what its block shows: all the nodes. */
  readonly shown: ReadonlyMap<FindingGroup, FindingGroup>;
  /** Of the same, the others. */
  readonly effects: ReadonlyMap<FindingGroup, readonly FindingGroup[]>;
}

/**
 * Findings of nodes whose rules are what they were before changes in the API: what is new is missing, what is gone is still there, and
 * nothing else is wrong with the Services of the node. One of those on most nodes stands for all.
 */
function olderRules(groups: readonly FindingGroup[]): OlderRules {
  const ofServices = groups.filter(({finding}) => finding.service !== undefined && finding.severity !== 'info');
  const byNode = new Map<string, FindingGroup[]>();
  for (const group of ofServices) for (const node of group.nodes) pushTo(byNode, node, group);
  const older = new Set([...byNode].filter(([, own]) => areOlder(own.map(({finding}) => finding))).map(([node]) => node));
  const own = ofServices.filter(({nodes}) => nodes.length > 0 && nodes.every(node => older.has(node)));
  // One that no baseline knows, if there is one.
  const [fresh, known] = partition(own, ({finding}) => finding.known === undefined);
  const first = (fresh.length > 0 ? fresh : known).reduce<FindingGroup | undefined>(
    (most, each) => (most === undefined || each.nodes.length > most.nodes.length ? each : most),
    undefined,
  );
  if (first === undefined || own.length < minAlike) return {shown: new Map(), effects: new Map()};
  const commands = new Map<string, string>();
  for (const {node = '', code, command} of own.flatMap(({members}) => members))
    if (command !== undefined && code === first.finding.code && !commands.has(node)) commands.set(node, command);
  const shown = {...first, nodes: [...new Set(own.flatMap(({nodes}) => nodes))].sort(), commands: [...commands.values()]};
  return {shown: new Map([[first, shown]]), effects: new Map([[first, own.filter(group => group !== first)]])};
}

/** The commands for one finding on many nodes. */
interface GroupCommands {
  /** One after the other. */
  readonly lines: readonly CommandLine[];
  /** So many nodes have commands of their own that are not among the lines. */
  readonly otherNodes: number;
}

interface CommandLine {
  /** A command that is not kubectl's is run on the node, as root. */
  readonly isOnNode: boolean;
  /** Not escaped. */
  readonly text: string;
}

/** Pods of several nodes are deleted with one command; of other commands those of the first node are shown. */
export function groupCommands({commands}: Pick<FindingGroup, 'commands'>): GroupCommands {
  const distinct = [...new Set(commands)];
  const [first = ''] = distinct;
  const deletions = distinct.slice(0, maxPods).map(command => deletion.exec(command));
  const isOneDeletion = distinct.length > 1 && deletions.every(found => found?.[1] === deletions[0]?.[1] && found !== null);
  const text = isOneDeletion
    ? `${first} ${deletions
        .slice(1)
        .map(found => found?.[2])
        .join(' ')}`
    : first;
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
const maxPods = 10;

/** The same finding on many nodes, shown once. The first is shown; the others differ in node and line numbers only. */
export interface FindingGroup {
  readonly finding: Finding;
  readonly nodes: readonly string[];
  /** The command of each node that has one. */
  readonly commands: readonly string[];
  /** The finding of each node. */
  readonly members: readonly Finding[];
}

/** The message; with its node, if it is another on the other nodes. Not escaped. */
export function messageOf({finding: {message, node = ''}, members}: FindingGroup): string {
  const isSame = message.includes(node) || members.every(other => other.message === message);
  return isSame ? message : `${node}: ${message}`;
}

export function groupFindings(findings: readonly Finding[]): readonly FindingGroup[] {
  const groups = new Map<string, {finding: Finding; nodes: string[]; commands: string[]; members: Finding[]}>();
  for (const finding of findings) {
    const {code, severity, service, port, entry, endpoint, family, node} = finding;
    const message = node === undefined ? finding.message : finding.message.replaceAll(node, '\0');
    const key = JSON.stringify([code, severity, service, port, entry, endpoint, family, message]);
    const group = groups.get(key) ?? {finding, nodes: [], commands: [], members: []};
    groups.set(key, group);
    group.members.push(finding);
    if (node !== undefined) group.nodes.push(node);
    if (finding.command !== undefined) group.commands.push(finding.command);
  }
  return [...groups.values()];
}
