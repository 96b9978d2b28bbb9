import {areOlder, type Finding, type Hits, severities, type Severity} from '../model/finding.ts';
import {partition, pushTo, groupBy} from '../model/lists.ts';
import {once} from '../model/once.ts';
import {affectsAllServices} from '../model/report.ts';
import {withNotRefused} from './trace-words.ts';
import {servicePortText, plural} from '../model/text.ts';
import {escapeText} from './renderer.ts';

/** The content of one block of text: a finding, others of the same code on the same nodes, and the findings that it probably causes. */
export interface FindingBlock extends FindingGroup {
  /** Without the first. */
  readonly others: readonly FindingGroup[];
  /** Findings of Services on the same nodes that it causes, or that have its cause. */
  readonly effects: readonly FindingGroup[];
  /** Why they are in one block: they follow from the finding, the rules of the nodes are older than changes in the API, or table filter was flushed. */
  readonly reason: 'cause' | 'older-rules' | 'flushed-filter';
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
 * the API objects, or of the same rules. The worst come first, and of equally bad ones those that explain others or affect all Services of a node.
 */
export const causeBlocks = once((findings: readonly Finding[]): readonly FindingBlock[] => {
  const groups = mergeNodes(groupFindings(withNotRefused(findings)));
  const caused = effectsOf(groups);
  const inCaused = new Set([...caused.values()].flat());
  const flushed = flushedFilters(groups.filter(group => !inCaused.has(group)));
  for (const group of [...flushed].flatMap(([cause, all]) => [cause, ...all])) inCaused.add(group);
  const {shown: nodesOfOlder, effects: older} = olderRules(groups.filter(group => !inCaused.has(group)));
  const effects = new Map([...caused, ...flushed, ...older]);
  const causeOf = new Map([...effects].flatMap(([cause, all]) => all.map(group => [group, cause] as const)));
  const alike = new Map<string, FindingGroup[]>();
  for (const group of groups) if (!causeOf.has(group)) pushTo(alike, likeness(group), group);
  const blocks: FindingBlock[] = [];
  const done = new Set<FindingGroup>();
  for (const group of groups) {
    const first = causeOf.get(group) ?? group;
    if (done.has(first)) continue;
    const own = alike.get(likeness(first)) ?? [first];
    const areEnough = own.length >= minAlike || (own.length > 1 && (first.nodes.length === 0 || areOne(own)));
    const merged = areEnough && first.finding.service !== undefined && !older.has(first) ? own : [first];
    for (const each of merged) done.add(each);
    const shown = nodesOfOlder.get(first) ?? first;
    blocks.push({
      ...shown,
      others: merged.slice(1),
      effects: effects.get(first) ?? [],
      reason: older.has(first) ? 'older-rules' : flushed.has(first) ? 'flushed-filter' : 'cause',
    });
  }
  // Most lists have none of replies, and some have thousands of blocks.
  const takers = new Set(blocks.some(isOfReplies) ? blocks.filter(block => !isOfReplies(block)).map(rulesOf) : []);
  return blocks
    .map(block => ({block, order: orderOf(block, takers)}))
    .sort((a, b) => compareOrders(a.order, b.order))
    .map(({block}) => block);
});

/** Errors and warnings: of the same findings the same list, since the blocks of a list are made once. */
export const loudFindings = once((findings: readonly Finding[]) => findings.filter(({severity}) => severity !== 'info'));

/** Of these, what no baseline knows; the same list if it knows none. */
export const freshFindings = once((findings: readonly Finding[]) => {
  const loud = loudFindings(findings);
  const fresh = loud.filter(({known}) => known === undefined);
  return fresh.length === loud.length ? loud : fresh;
});

const minAlike = 3;

/** For sorting: the first number that differs decides, and the smaller one comes first. */
export function compareOrders(a: readonly number[], b: readonly number[]): number {
  return a.map((number, index) => number - (b[index] ?? 0)).find(difference => difference !== 0) ?? 0;
}

/** By severity; of one severity the block that explains most first, then the one that hits most pods; what a baseline knows, and advice about objects, come last. */
function orderOf(block: FindingBlock, takers: ReadonlySet<string>): readonly number[] {
  const all = membersOf(block);
  const {code} = block.finding;
  const ofNode = Map.groupBy(all, ({node = ''}) => node);
  const lost = [...ofNode.values()].map(own => own.reduce((most, {hits}) => Math.max(most, lostPods(hits)), 0));
  return [
    severities.indexOf(severityOf(block)),
    Number(all.every(({known}) => known)),
    // What was not read makes a report incomplete.
    Number(!code.startsWith('ST9')),
    // What a rule does to replies comes after the packets that the same rule takes: these lose all, replies perhaps a part.
    Number(isOfReplies(block) && takers.has(rulesOf(block))),
    isCauseBlock(block) ? -block.effects.length - 1 : 0,
    // For how many pods all connections would be lost, together, to each of its Services.
    -lost.reduce((sum, pods) => sum + pods, 0) * servicesHit(block),
    // Where no pod runs, what hits all Services.
    Number(block.finding.service !== undefined || (block.finding.affects ?? []).length > 0),
    // Advice about objects of the API comes after what nodes have.
    Number(block.nodes.length === 0 && code.startsWith('ST1')),
    // Of an endpoint that gets nothing, clients notice where their connections go instead.
    Number(code === 'ST202'),
  ];
}

function servicesHit(block: FindingBlock): number {
  const {service, affects} = block.finding;
  if (service === undefined) return affects?.length ?? allServices;
  return new Set(membersOf(block).map(portText)).size;
}

/** More than a cluster has. */
const allServices = 1e6;

/** The worst of its findings. */
export function severityOf(block: FindingBlock): Severity {
  const all = new Set(membersOf(block).map(({severity}) => severity));
  return severities.find(severity => all.has(severity)) ?? block.finding.severity;
}

function lostPods(hits: Hits | undefined): number {
  return hits === undefined ? 0 : (hits.share ?? 0) * (hits.pods ?? 1);
}

/** The same of all nodes of findings of one Service port. */
export function lostOn(findings: readonly Finding[]): number {
  return [...new Map(findings.map(({node, hits}) => [node, lostPods(hits)])).values()].reduce((sum, pods) => sum + pods, 0);
}

/** The findings of all of its groups. */
export function membersOf({members, others, effects}: FindingBlock): readonly Finding[] {
  return [...members, ...others.flatMap(other => other.members), ...effects.flatMap(effect => effect.members)];
}

/** It explains findings of Services, or affects all Services of its nodes. */
export function isCauseBlock({finding, effects}: FindingBlock): boolean {
  return effects.length > 0 || affectsAllServices(finding);
}

/** `shop/web:http`; empty for a finding of a node. Not escaped. */
export function portText({service, port}: Finding): string {
  return service === undefined ? '' : servicePortText(service, port);
}

/**
 * Findings of nodes that differ in their messages only, such as in how long kube-proxy has not synced, are one: causes, what the same rules do,
 * and others of three nodes or more.
 */
function mergeNodes(groups: readonly FindingGroup[]): readonly FindingGroup[] {
  const isOfNodes = ({finding, nodes}: FindingGroup): boolean => finding.service === undefined && nodes.length > 0;
  const alike = Map.groupBy(groups.filter(isOfNodes), ({finding: {code, severity, known, family, remedy}}) =>
    JSON.stringify([code, severity, known ?? null, family ?? null, remedy]),
  );
  const merged = new Map<FindingGroup, FindingGroup | null>();
  for (const own of [...alike.values()].flatMap(onceForEachNode)) {
    const [first] = own;
    if (first === undefined || own.length < (isCause(first.finding) || areOfOneRule(own) ? 2 : minAlike)) continue;
    for (const group of own) merged.set(group, null);
    // The first with the nodes, commands and findings of all.
    merged.set(first, {
      finding: first.finding,
      nodes: [...new Set(own.flatMap(({nodes}) => nodes))].sort(),
      commands: [...new Set(own.flatMap(({commands}) => commands))],
      members: own.flatMap(({members}) => members),
    });
  }
  return groups.flatMap(group => (merged.has(group) ? (merged.get(group) ?? []) : group));
}

/** The same rules do it to a number of Services that differs from node to node; none where it is the policy of a chain. */
function areOfOneRule(groups: readonly FindingGroup[]): boolean {
  const rules = groups.map(({finding: {affects, actual = []}}) => affects && JSON.stringify(actual.map(({text}) => text)));
  return rules[0] !== undefined && new Set(rules).size === 1;
}

/** The first of each node together, then the second: what one node has in two messages is not the same. */
export function onceForEachNode<T extends Pick<FindingGroup, 'nodes'>>(groups: readonly T[]): readonly (readonly T[])[] {
  const apart = new Map<number, T[]>();
  const next = new Map<string, number>();
  for (const group of groups) {
    const at = Math.max(...group.nodes.map(node => next.get(node) ?? 0));
    pushTo(apart, at, group);
    for (const node of group.nodes) next.set(node, at + 1);
  }
  return [...apart.values()];
}

/**
 * Each cause with three or more effects; one is enough for a kube-proxy that is seen to be down or silent. A group of findings counts for the
 * first cause on all of its nodes, or else for one on each.
 */
function effectsOf(groups: readonly FindingGroup[]): ReadonlyMap<FindingGroup, readonly FindingGroup[]> {
  const causes = groups.filter(({finding}) => isCause(finding)).map(group => ({group, nodes: new Set(group.nodes)}));
  const anyCause = new Set(causes.flatMap(({group}) => group.nodes));
  const effects = new Map<FindingGroup, FindingGroup[]>();
  for (const group of groups) {
    const {finding, nodes} = group;
    if (finding.service === undefined || nodes.length === 0 || !effectCodes.has(finding.code)) continue;
    if (!nodes.every(node => anyCause.has(node))) continue;
    const cause = (
      causes.find(({nodes}) => group.nodes.every(node => nodes.has(node))) ??
      causes.find(({nodes}) => group.nodes.some(node => nodes.has(node)))
    )?.group;
    if (cause !== undefined) pushTo(effects, cause, group);
  }
  return new Map([...effects].filter(([{finding}, all]) => all.length >= (isStated(finding) ? 1 : minAlike)));
}

/** Seen of the program itself, and not only in the rules: it is down, silent, or without the API. */
export function isStated(finding: Finding): finding is Finding & {readonly gist: string} {
  return (finding.code === 'ST505' || finding.code === 'ST802') && finding.gist !== undefined;
}

/** kube-proxy does not sync, its rules are missing, or it writes to another backend or with another node name; Cilium's agent lost the API. */
function isCause(finding: Finding): boolean {
  const {code, severity, service, node, variant} = finding;
  if (node === undefined) return false;
  // Names that nft refuses, and chains that cannot be deleted, make every sync fail.
  if (code === 'ST510' || code === 'ST511' || variant === 'every-sync-fails') return true;
  if (service !== undefined) return false;
  return code === 'ST505' || isStated(finding) || (severity === 'error' && ['ST305', 'ST501', 'ST507'].includes(code));
}

/** The effects of missed updates: Services, endpoints and entries that are missing or stale. */
const effectCodes: ReadonlySet<string> = new Set(['ST201', 'ST202', 'ST203', 'ST204', 'ST205', 'ST206', 'ST212', 'ST213']);

/**
 * Of nodes where several of kube-proxy's chains are no longer called from table filter, or where the table has none of its rules: one of these
 * findings, and all others that lack rules there.
 */
function flushedFilters(groups: readonly FindingGroup[]): ReadonlyMap<FindingGroup, readonly FindingGroup[]> {
  const saysIt = ({finding: {variant}}: FindingGroup): boolean => variant === 'filter-flushed';
  const isOfFilter = (group: FindingGroup): boolean => {
    const {expected = [], known} = group.finding;
    return known === undefined && (saysIt(group) || (expected.length > 0 && expected.every(({table}) => table === 'filter')));
  };
  const byNodes = Map.groupBy(groups.filter(isOfFilter), ({nodes, finding: {family = ''}}) => JSON.stringify([nodes, family]));
  const all = [...byNodes.values()].flatMap(own => {
    const [hooks, others] = partition(own, ({finding: {code}}) => code === 'ST301');
    const told = others.find(saysIt);
    const first = told ?? hooks.find(({finding}) => finding.severity === 'error') ?? hooks[0];
    if (first === undefined || own.length < 2 || (told === undefined && hooks.length < minAlike)) return [];
    return [[first, [...hooks, ...others].filter(one => one !== first)] as const];
  });
  return new Map(all);
}

function likeness({finding: {code, severity, known, family, remedy, service}, nodes}: FindingGroup): string {
  return JSON.stringify([code, severity, known ?? null, family ?? null, remedy, nodes, service === undefined]);
}

/** Whether the same rules of the node are what all of them found. */
function isOfReplies({finding}: FindingGroup): boolean {
  return finding.variant === 'lost-replies';
}

/** Where no rule is known, the code. */
function rulesOf({finding: {code, actual = []}}: FindingGroup): string {
  return JSON.stringify(actual.length === 0 ? code : actual);
}

/** Whether one rule is what all of them found, or they are one fault of a Service, which several of its ports or endpoints show. */
function areOne(groups: readonly FindingGroup[]): boolean {
  const isSame = (of: (finding: Finding) => unknown): boolean => new Set(groups.map(({finding}) => JSON.stringify(of(finding)))).size === 1;
  if ((groups[0]?.finding.actual ?? []).length > 0 && isSame(({actual}) => actual)) return true;
  return isSame(({service, port, entry, variant}) => [service, port !== undefined, entry?.kind, entry?.address, variant]);
}

/** The address of an endpoint. */
export function addressIn(endpoint: string): string {
  return endpoint.replace(/:\d+$/, '');
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

/** The same finding on many nodes, shown once. The first is shown; the others differ in node and line numbers only. */
export interface FindingGroup {
  readonly finding: Finding;
  readonly nodes: readonly string[];
  /** The command of each node that has one. */
  readonly commands: readonly string[];
  /** The finding of each node. */
  readonly members: readonly Finding[];
}

export function groupFindings(findings: readonly Finding[]): readonly FindingGroup[] {
  const groups = new Map<string, {finding: Finding; nodes: Set<string>; commands: string[]; members: Finding[]}>();
  for (const finding of findings) {
    const {code, severity, service, port, entry, endpoint, family, node} = finding;
    // The node of a pod is that of the pod, also where it is the node of the finding.
    const message = node === undefined ? finding.message : finding.message.replaceAll(node, '\0').replace(/(\(pod \S+ on )\0/, `$1${node}`);
    const key = JSON.stringify([code, severity, service, port, entry, endpoint, family, message]);
    const group = groups.get(key) ?? {finding, nodes: new Set(), commands: [], members: []};
    groups.set(key, group);
    group.members.push(finding);
    // An agent may have said the same twice.
    if (node !== undefined) group.nodes.add(node);
    if (finding.command !== undefined) group.commands.push(finding.command);
  }
  return [...groups.values()].map(group => ({...group, nodes: [...group.nodes]}));
}

/** Names of nodes for a sentence, escaped: consecutive names as ranges such as `node-[a-c]`; `200 nodes, such as node-a`, where these do not fit on a line. */
export function nodeList(nodes: readonly string[]): string {
  if (nodes.length <= maxNames) return nodes.map(escapeText).join(', ');
  const ranges = nodeRanges(nodes);
  const isShort = ranges.length <= maxNames && ranges.reduce((sum, {text}) => sum + text.length + 2, 0) <= maxLength;
  if (isShort || ranges.length === 1) return ranges.map(({text}) => escapeText(text)).join(', ');
  return `${nodes.length} nodes, such as ${escapeText(nodes[0] ?? '')}`;
}

/** As many ranges as fit into so many characters, at least one, and the number of the other nodes. Escaped. */
export function rangesText(ranges: readonly NodeRange[], maxCharacters: number): string {
  let length = 0;
  const tooMany = ranges.findIndex(({text}, index) => {
    length += text.length + 2;
    return index > 0 && length > maxCharacters;
  });
  const shown = tooMany < 0 ? ranges : ranges.slice(0, tooMany);
  const rest = ranges.slice(shown.length).reduce((sum, {size}) => sum + size, 0);
  return `${shown.map(({text}) => escapeText(text)).join(', ')}${rest === 0 ? '' : ` and ${plural(rest, 'more node')}`}`;
}

const maxNames = 5;
/** About a line. */
const maxLength = 72;

/** Names of nodes that differ in only one number or last letter. */
interface NodeRange {
  /** `node-[a-c]`, `worker-[01-12,15]`, `ip-10-0-3-[17-19].ec2.internal`, or a name. Not escaped. */
  readonly text: string;
  /** How many nodes it stands for. */
  readonly size: number;
}

/** Consecutive names of nodes as ranges, in the order of the given names. */
export function nodeRanges(names: readonly string[]): readonly NodeRange[] {
  const families = groupBy(names.map(memberOf), ({before, after, kind}) => JSON.stringify([before, after, kind]));
  return families.flatMap(sameLength).flatMap(rangesOf);
}

interface Member {
  readonly name: string;
  readonly before: string;
  readonly after: string;
  readonly kind: 'number' | 'letter' | 'name';
  /** How many digits the number has. */
  readonly digits: number;
  readonly value: number;
}

/**
 * The last number in the host name is counted, or a single letter at its end. The domain is the same for many nodes, although it can
 * contain numbers too (`ip-10-0-3-17.eu-central-1.compute.internal`): it is counted only where the host name has neither.
 */
function memberOf(name: string): Member {
  if (/[[\]]/.test(name)) return {name, before: name, after: '', kind: 'name', digits: 0, value: 0};
  const [, host = '', domain = ''] = isIPv4(name) ? [name, name, ''] : (/^([^.]*)(.*)$/s.exec(name) ?? []);
  const found = numberIn(host) ?? letterOf(host);
  if (found !== null) return {...found, name, after: `${found.after}${domain}`};
  const inName = numberIn(name) ?? letterOf(name);
  return inName === null ? {name, before: name, after: '', kind: 'name', digits: 0, value: 0} : {...inName, name};
}

type Counted = Omit<Member, 'name'>;

function numberIn(text: string): Counted | null {
  const [, before = '', digits = '', after = ''] = /^(.*?)(\d{1,9})(\D*)$/s.exec(text) ?? [];
  return digits === '' ? null : {before, after, kind: 'number', digits: digits.length, value: Number(digits)};
}

function letterOf(text: string): Counted | null {
  const [, before = '', letter = ''] = /^(.*[-.])([a-z])$/s.exec(text) ?? [];
  return letter === '' ? null : {before, after: '', kind: 'letter', digits: 0, value: letter.charCodeAt(0)};
}

/** Some platforms name nodes by their address. */
export function isIPv4(name: string): boolean {
  return /^\d+(\.\d+){3}$/.test(name);
}

/** If any number has leading zeros, only numbers of the same length form a range. */
function sameLength(members: readonly Member[]): readonly (readonly Member[])[] {
  const isPadded = members.some(({digits, value}) => digits > String(value).length);
  return isPadded ? [...Map.groupBy(members, ({digits}) => digits).values()] : [members];
}

/** A range names a few runs of consecutive nodes: addresses in names are seldom consecutive, and a long list of them is hard to read. */
function rangesOf(members: readonly Member[]): readonly NodeRange[] {
  const runs: Member[][] = [];
  for (const member of members.toSorted((a, b) => a.value - b.value)) {
    const run = runs.at(-1);
    if (run !== undefined && member.value === (run.at(-1)?.value ?? 0) + 1) run.push(member);
    else runs.push([member]);
  }
  const parts: Member[][][] = [];
  let length = 0;
  for (const run of runs) {
    const own = run.length > 1 ? 2 * label(run[0]).length + 2 : label(run[0]).length + 1;
    const part = parts.at(-1);
    length += own;
    if (part !== undefined && part.length < maxRuns && length <= maxRunsLength) part.push(run);
    else {
      parts.push([run]);
      length = own;
    }
  }
  return parts.map(rangeOf);
}

const maxRuns = 8;
/** So that a range fits into a line of 80 characters. */
const maxRunsLength = 48;

function rangeOf(runs: readonly (readonly Member[])[]): NodeRange {
  const [first, ...others] = runs.flat();
  if (first === undefined || others.length === 0) return {text: first?.name ?? '', size: 1};
  const parts = runs.map(run => [...new Set([run[0], run.at(-1)])].map(label).join('-'));
  return {text: `${first.before}[${parts.join(',')}]${first.after}`, size: others.length + 1};
}

function label(member: Member | undefined): string {
  if (member === undefined) return '';
  const {kind, value, digits} = member;
  return kind === 'letter' ? String.fromCharCode(value) : String(value).padStart(digits, '0');
}
