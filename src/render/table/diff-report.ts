import type {BundleDiff, ChangeKind, EndpointChange, FieldChange, FindingChange, RulesChange} from '../../model/findings/bundle-diff.ts';
import type {ServiceName} from '../../model/finding.ts';
import {bySeverity, escapeText, type Style, styleOf, wrap, wrapLines, type RenderOptions} from '../renderer.ts';
import {nodeList, causeBlocks, type FindingBlock, spreadBlocks} from '../finding-blocks.ts';
import {findingObject, schemaVersion, toJson, toYaml} from '../json.ts';
import type {PortTraffic} from '../../model/traffic/traffic-report.ts';
import {portLabel, rateText, shareText, trafficObject} from '../top/top-table.ts';
import {blockSentence} from '../block-texts.ts';
import {causesOf} from '../headline.ts';
import {largest, pushTo} from '../../model/lists.ts';
import {namespacedName, plural} from '../../model/text.ts';

/** Turns what changed between two bundles into text, without a newline at its end. */
type DiffRenderer = (diff: BundleDiff, options: RenderOptions) => string;

/** The output formats of `diff`. */
export const diffRenderers = {
  table: (diff, options) =>
    sections(diff, {style: styleOf(options.color), width: options.width, all: options.verbose, isFirstOnly: options.quiet}),
  json: diff => toJson(diffObject(diff)),
  yaml: diff => toYaml(diffObject(diff)),
} as const satisfies Readonly<Record<string, DiffRenderer>>;

function diffObject({findings, connections, ...diff}: BundleDiff): object {
  const counted = connections === undefined ? {} : {connections: trafficObject(connections)};
  return {schemaVersion, ...diff, ...counted, findings: findings.map(({kind, finding}) => ({kind, finding: findingObject(finding)}))};
}

interface TextOptions {
  readonly style: Style;
  readonly width: number;
  /** All lines that changed, not only a few of each chain, set or list. */
  readonly all: boolean;
  /** Only the verdict. */
  readonly isFirstOnly: boolean;
}

function sections(diff: BundleDiff, options: TextOptions): string {
  const {style} = options;
  if (options.isFirstOnly) return wrapLines(verdict(diff, style), options.width);
  const {services, endpoints, nodes, findings, notCompared} = diff;
  const parts: readonly (readonly [string, readonly string[]])[] = [
    ['FINDINGS', findingLines(findings, options)],
    ['SERVICES', listed(services, ({kind, service, fields}) => `${sign(kind, style)} ${nameOf(service)}${fieldsText(fields)}`, options)],
    ['ENDPOINTS', listed(endpoints, change => endpointLine(change, style), options)],
    ['NODES', listed(nodes, ({kind, node, fields}) => `${sign(kind, style)} ${escapeText(node)}${fieldsText(fields)}`, options)],
    ['RULES', [...rulesLines(rulesToShow(diff, options), options), ...switchedLines(diff, options)]],
    ...connectionsSection(diff, options),
  ];
  const filled = parts
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) => ({title: style.bold(title), lines: lines.flatMap(text => wrapLines(text, options.width).split('\n'))}));
  const rooms = options.all ? filled.map(() => Infinity) : roomsOf(filled.map(({lines}) => lines.length));
  const texts = filled.map(({title, lines}, index) => [title, ...truncate(lines, rooms[index] ?? 0, style)].join('\n'));
  const reasons = notCompared.map(reason => wrapLines(style.dim(`not compared: ${escapeText(reason)}`), options.width));
  return [wrapLines(verdict(diff, style), options.width), ...texts, ...reasons].join('\n\n');
}

/** What fits on two screens: the shorter sections whole, and the longer ones as much as the others leave. */
function roomsOf(lengths: readonly number[]): readonly number[] {
  const rooms = lengths.map(() => 0);
  let left = maxLinesInAll - 2 * lengths.length;
  const byLength = [...lengths.keys()].sort((a, b) => (lengths[a] ?? 0) - (lengths[b] ?? 0));
  for (const [at, index] of byLength.entries()) {
    rooms[index] = Math.min(lengths[index] ?? 0, Math.floor(left / (byLength.length - at)));
    left -= rooms[index] ?? 0;
  }
  return rooms;
}

/** Without the first line, and with what could not be compared: fewer than 60. */
const maxLinesInAll = 52;

function truncate(lines: readonly string[], room: number, style: Style): readonly string[] {
  if (lines.length <= room) return lines;
  const last = lines.at(-1) ?? '';
  // It counts what is hidden anyway.
  if (/\band \S.* more\b|^and rules on/.test(last)) return [...lines.slice(0, room - 2), style.dim('and more lines; -v shows them'), last];
  return [...lines.slice(0, room - 1), style.dim(`and ${lines.length - room + 1} more lines; -v shows them`)];
}

/** The first of them, and how many more there are. */
function listed<T>(changes: readonly T[], textOf: (change: T) => string, {all, style}: TextOptions): readonly string[] {
  const shown = all ? changes : changes.slice(0, maxListed);
  const hidden = changes.length - shown.length;
  return [...shown.map(textOf), ...(hidden > 0 ? [style.dim(`and ${hidden} more; -v shows them`)] : [])];
}

const maxListed = 20;

/** The busiest Service ports, with the new connections of each endpoint. */
function connectionsSection({connections}: BundleDiff, {all}: TextOptions): readonly (readonly [string, readonly string[]])[] {
  if (connections === undefined) return [];
  const {interval, ports} = connections;
  const rate = ({totals}: PortTraffic): number => totals.newPerSecond ?? 0;
  const busy = ports.filter(port => rate(port) > 0).toSorted((a, b) => rate(b) - rate(a));
  const shown = all ? busy : busy.slice(0, maxPorts);
  const lines = [
    ...shown.flatMap(portLines),
    ...(shown.length < busy.length ? [`  and ${busy.length - shown.length} more Service ports; -v shows them`] : []),
  ];
  const time = interval === null ? '' : `, over ${Math.round(interval)} s`;
  return [[`CONNECTIONS (new each second${time})`, lines.length === 0 ? ['  none'] : lines]];
}

const maxPorts = 10;

function portLines(port: PortTraffic): readonly string[] {
  const {totals, endpoints} = port;
  const {measuredNodes, nodes} = totals;
  const measured = measuredNodes < nodes ? `, measured on ${measuredNodes} of ${nodes} nodes` : '';
  const width = largest(endpoints.map(({hostPort}) => hostPort.length));
  return [
    `  ${portLabel(port)}  ${rateText(totals.newPerSecond)}${measured}`,
    ...endpoints.map(({hostPort, pod, state, totals: own}) => {
      const what = [pod ?? 'no pod', ...(state === 'ready' ? [] : [state])].join(', ');
      const figures = `${rateText(own.newPerSecond).padStart(7)} ${shareText(own.share).padStart(6)}`;
      return `    ${hostPort.padEnd(width)} ${figures}  expected ${shareText(own.expectedShare)}  ${escapeText(what)}`;
    }),
  ];
}

function verdict({services, endpoints, nodes, rules, findings, notCompared, uncheckedSides = []}: BundleDiff, style: Style): string {
  const lines = rules.reduce((sum, {came, went}) => sum + came.length + went.length, 0);
  const places = new Set(rules.map(({node}) => node)).size;
  const [came, went] = (['came', 'went'] as const).map(kind => findings.filter(change => change.kind === kind).length);
  const parts = [
    ...(came ? [plural(came, 'new finding')] : []),
    ...(went ? [`${plural(went, 'finding')} resolved`] : []),
    ...(services.length > 0 ? [plural(services.length, 'Service')] : []),
    ...(endpoints.length > 0 ? [plural(endpoints.length, 'endpoint')] : []),
    ...(nodes.length > 0 ? [plural(nodes.length, 'node')] : []),
    ...(lines > 0 ? [`${plural(lines, 'rule')} on ${plural(places, 'node')}`] : []),
  ];
  const unchecked = uncheckedSides.length === 0 ? '' : `no node was checked on the ${uncheckedSides.join(' and the ')} side`;
  if (unchecked !== '' && !came)
    return style.yellow(
      `INCOMPLETE: ${unchecked}, so no rules were compared; ${parts.length === 0 ? 'nothing else' : parts.join(', ')} changed`,
    );
  if (parts.length === 0 && notCompared.length > 0) return style.yellow('SAME as far as it could be compared: no new or resolved findings');
  if (parts.length === 0) return style.green('SAME: no change in kube-proxy rules or the API objects they follow');
  const [worst] = causesOf({findings: findings.filter(({kind}) => kind === 'came').map(({finding}) => finding)}, undefined);
  const cause = worst === undefined ? null : escapeText(worst.text);
  return (came ? style.red : style.yellow)(
    `DIFFERENT: ${cause === null ? '' : `${cause}; `}${parts.join(', ')}${unchecked === '' ? '' : `; ${unchecked}`}`,
  );
}

function sign(kind: ChangeKind, style: Style): string {
  return {came: style.green('+'), went: style.red('-'), changed: style.yellow('~')}[kind];
}

function nameOf({namespace, name}: ServiceName): string {
  return escapeText(namespacedName({namespace, name}));
}

function fieldsText(fields: readonly FieldChange[]): string {
  return fields.map(({field, before, after}) => `\n    ${escapeText(`${field}: ${before ?? '(none)'} → ${after ?? '(none)'}`)}`).join('');
}

function endpointLine({kind, service, port, endpoint, pod, nodeName, before, after}: EndpointChange, style: Style): string {
  const place = pod === null ? '' : ` (${pod}${nodeName === null ? '' : ` on ${nodeName}`})`;
  const state = kind === 'changed' ? `  ${before} → ${after}` : `  ${after ?? before}`;
  return `${sign(kind, style)} ${nameOf(service)}:${escapeText(`${port} ${endpoint}${place}${state}`)}`;
}

/** One line for each cause, the new ones first; with -v one for each finding. */
function findingLines(changes: readonly FindingChange[], options: TextOptions): readonly string[] {
  const blocks = (['came', 'went'] as const).flatMap(kind => {
    const findings = changes.filter(change => change.kind === kind).map(({finding}) => finding);
    return (options.all ? spreadBlocks(findings) : causeBlocks(findings)).map(block => ({kind, block}));
  });
  return listed(blocks, ({kind, block}) => blockLine(kind, block, options.style), options);
}

function blockLine(kind: ChangeKind, block: FindingBlock, style: Style): string {
  const {finding, nodes} = block;
  const where = nodes.length === 0 ? '' : `  ${nodeList(nodes)}`;
  const code = bySeverity(style, finding.severity)(`${finding.code} ${finding.severity}`);
  return `${sign(kind, style)} ${code}${where}  ${escapeText(blockSentence(block))}`;
}

/** On a node whose proxy mode changed, all rules of kube-proxy are others: only third-party rules are shown. */
function rulesToShow(diff: BundleDiff, {all}: TextOptions): readonly RulesChange[] {
  const switched = new Set(all ? [] : switchedNodes(diff));
  return diff.rules.flatMap(change => {
    if (!switched.has(change.node)) return change;
    const [came, went] = [change.came, change.went].map(lines => lines.filter(line => !isOfKubeProxy(change.place, line)));
    return came?.length || went?.length ? {...change, came: came ?? [], went: went ?? []} : [];
  });
}

function isOfKubeProxy(place: string, line: string): boolean {
  return /KUBE-|kube-proxy\/|^ipvs/i.test(place) || line.includes('KUBE-');
}

function switchedLines(diff: BundleDiff, {all, style}: TextOptions): readonly string[] {
  const nodes = all ? [] : switchedNodes(diff).filter(name => diff.rules.some(({node}) => node === name));
  if (nodes.length === 0) return [];
  return [style.dim(`The proxy mode of ${nodeList(nodes)} changed: rules of kube-proxy there are not listed; -v lists them`)];
}

function switchedNodes({nodes}: BundleDiff): readonly string[] {
  return nodes.flatMap(({node, fields}) =>
    fields.some(({field, before, after}) => field === 'mode' && before !== null && after !== null) ? node : [],
  );
}

/** Nodes on which the same lines changed are shown once. */
function rulesLines(rules: readonly RulesChange[], options: TextOptions): readonly string[] {
  const byNode = new Map<string, RulesChange[]>();
  for (const change of rules) pushTo(byNode, change.node, change);
  const groups = new Map<string, {readonly nodes: string[]; readonly changes: readonly RulesChange[]}>();
  for (const [node, changes] of byNode) {
    const key = JSON.stringify(changes.map(({place, came, went}) => [place, came, went]));
    const group = groups.get(key);
    if (group === undefined) groups.set(key, {nodes: [node], changes});
    else group.nodes.push(node);
  }
  const sorted = [...groups.values()].sort((a, b) => b.nodes.length - a.nodes.length);
  let places = 0;
  const tooMany = sorted.findIndex(({changes}) => {
    const isFull = places >= maxPlaces;
    places += changes.length;
    return isFull && !options.all;
  });
  const shown = tooMany < 0 ? sorted : sorted.slice(0, tooMany);
  const hidden = sorted.slice(shown.length).reduce((sum, {nodes}) => sum + nodes.length, 0);
  return [
    ...shown.flatMap(({nodes, changes}) => [nodeList(nodes), ...placesLines(changes, options)]),
    ...(hidden > 0 ? [options.style.dim(`and rules on ${plural(hidden, 'more node')}; -v shows them`)] : []),
  ];
}

const maxPlaces = 10;
const maxLines = 3;

function placesLines(changes: readonly RulesChange[], options: TextOptions): readonly string[] {
  const shown = options.all ? changes : changes.slice(0, maxPlaces);
  const hidden = changes.length - shown.length;
  return [
    ...shown.flatMap(change => placeLines(change, options)),
    ...(hidden > 0 ? [options.style.dim(`  and ${hidden} more chains and lists; -v shows them`)] : []),
  ];
}

function placeLines({place, came, went}: RulesChange, {style, width, all}: TextOptions): readonly string[] {
  const lines = [...went.map(line => ['went', line] as const), ...came.map(line => ['came', line] as const)];
  const shown = all ? lines : lines.slice(0, maxLines);
  return [
    `  ${escapeText(place)}`,
    ...shown.flatMap(([kind, line]) => wrap(escapeText(line), width, `  ${sign(kind, style)} `)),
    ...(shown.length < lines.length ? [style.dim(`    and ${lines.length - shown.length} more lines; -v shows them`)] : []),
  ];
}
