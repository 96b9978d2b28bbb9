import {append} from '../../model/lists.ts';
import type {Finding} from '../../model/finding.ts';
import {entryText} from '../../model/service-port.ts';
import {
  type CountedRule,
  type EndpointTrace,
  type EntryTrace,
  isFaulty,
  type Mark,
  type PortTrace,
  type TraceStep,
  type UnservedAddress,
} from '../../model/service-trace.ts';
import {escapeText, type Style, styleOf, visibleLength, wrapLines, plainTable, type Renderer} from '../renderer.ts';
import {findingTexts, shownFindings} from './finding-text.ts';
import {nodeList, loudFindings} from '../finding-blocks.ts';
import {notReadSection} from './sections.ts';
import {isOfTrace} from '../graph/picture.ts';
import {chooseEndpoints, groupNodes, portsOf, shareOf} from '../graph/trace-graph.ts';
import {type Report, onlyRules, printedByNft} from '../../model/report.ts';
import {partialReading, verdictLine} from '../verdict-line.ts';
import {dumpLine, endText, ofFirstNode, packetsText, percent, portAndProtocol, portName, shouldBe, unservedText} from '../trace-words.ts';
import {plural} from '../../model/text.ts';

/** For every port the packet path from each entry to the pods; nodes with the same path are shown once. */
export const tree: Renderer = (report, options) => {
  const style = styleOf(options.color, options.links);
  const loud = shownFindings(report, options.verbose || report.traces.length === 0);
  const trees = options.quiet
    ? []
    : portsOf(report.traces).map(traces =>
        portTree(traces, {style, width: options.width, all: options.verbose, findings: loudFindings(report.findings)}),
      );
  const partial = partialReading(report);
  return [
    wrapLines(verdictLine(report, style, options.provenance), options.width),
    ...trees,
    ...unread(report, loud, style).map(text => wrapLines(text, options.width)),
    ...(partial === null ? [] : [wrapLines(style.dim(partial), options.width)]),
    ...findingTexts(loud, {style, width: options.width, max: Infinity, spread: options.verbose}),
    ...(options.verbose ? notReadSection(report, {style, width: options.width}) : []),
  ].join('\n\n');
};

/** A node is not listed here if a finding below names it with the reason. */
function unread({nodes, traces, basis}: Report, loud: readonly Finding[], style: Style): readonly string[] {
  const traced = new Set(traces.map(({node}) => node));
  const isBelow = (name: string, reason = '') => loud.some(({node, message}) => node === name && reason !== '' && message.includes(reason));
  return nodes
    .filter(({name, status, reason}) => status !== 'checked' && basis !== 'rules' && !isBelow(name, reason))
    .map(({name, reason}) =>
      style.yellow(
        `${escapeText(name)}: ${traced.has(name) ? 'checked in part' : 'not checked'}: ${escapeText(reason ?? 'no reason is known')}`,
      ),
    );
}

interface TreeOptions {
  readonly style: Style;
  readonly width: number;
  /** Every endpoint, also of a Service that has hundreds. */
  readonly all: boolean;
  /** Errors and warnings. */
  readonly findings: readonly Finding[];
}

function portTree(traces: readonly PortTrace[], options: TreeOptions): string {
  const [first] = traces;
  if (first === undefined) return '';
  // What is wrong on a few of many nodes must not stand below the others.
  const groups = groupNodes(traces).toSorted((a, b) => Number(isFaultyGroup(b)) - Number(isFaultyGroup(a)));
  const lines = [`${options.style.bold(escapeText(portName(first)))}  ${portAndProtocol(first)}`];
  for (const [index, group] of groups.entries()) append(lines, nodeTree(group, index === groups.length - 1, options));
  return lines.join('\n');
}

function isFaultyGroup([first]: readonly PortTrace[]): boolean {
  return first?.entries.some(({mark, endpoints}) => isFaulty(mark) || endpoints.some(endpoint => isFaulty(endpoint.mark))) === true;
}

function nodeTree(group: readonly PortTrace[], last: boolean, options: TreeOptions): readonly string[] {
  const [first] = group;
  if (first === undefined) return [];
  const [twig, stem] = last ? ['└─ ', '   '] : ['├─ ', '│  '];
  const shown = ofFirstNode(group);
  const lines = shown === '' ? '' : options.style.dim(` (${escapeText(shown)})`);
  const title = [
    `${nodeList(group.map(({node}) => node))}${first.family === 'IPv6' ? ' IPv6' : ''}`,
    lines,
    ...unseenCodes(group, options),
  ];
  const {entries, unserved = []} = first;
  const branches = [
    ...entries.map(entry => (isLast: boolean) => entryTree(entry, isLast, options)),
    ...unserved.map(address => (isLast: boolean) => unservedLines(address, isLast, options)),
  ];
  return [
    ...hang(title, {width: options.width, first: twig, rest: stem}),
    ...branches.flatMap((branch, index) => branch(index === branches.length - 1).map(line => stem + line)),
  ];
}

/** `  ✗ ST604 below`: what concerns the path, and no mark of the tree shows, such as replies that the kernel drops. */
function unseenCodes(group: readonly PortTrace[], {findings, style}: TreeOptions): readonly string[] {
  if (isFaultyGroup(group)) return [];
  const own = findings.filter(
    finding => !finding.code.startsWith('ST9') && group.some(trace => trace.node === finding.node && isOfTrace(finding, trace)),
  );
  return [...Map.groupBy(own, ({code}) => code)].map(([code, all]) => {
    const nodes = [...new Set(all.flatMap(({node}) => node ?? []))];
    const where = nodes.length < group.length ? ` on ${nodeList(nodes)}` : '';
    const isError = all.some(({severity}) => severity === 'error');
    return (isError ? style.red : style.yellow)(`  ${isError ? '✗' : '!'} ${code}${where}, below`);
  });
}

function unservedLines(address: UnservedAddress, last: boolean, {style, width}: TreeOptions): readonly string[] {
  const [branch, stem] = last ? ['└─ ', '   '] : ['├─ ', '│  '];
  const words = escapeText(unservedText(address)).split(' ');
  const parts = [`${style.yellow('○')} ${words[0] ?? ''}`, ...words.slice(1).map(word => ` ${word}`)];
  return hang(parts, {width: width - 3, first: branch, rest: `${stem}   `});
}

function entryTree(trace: EntryTrace, last: boolean, options: TreeOptions): readonly string[] {
  const {style, width} = options;
  const {entry, from, steps, mark} = trace;
  const [branch, stem] = last ? ['└─ ', '   '] : ['├─ ', '│  '];
  const leaves = [...endpointLines(trace, options), ...endLine(trace, options)];
  const head = [
    `${escapeText(entryText(entry))}${style.dim(` from ${from}`)}`,
    ...steps.map(step => ` → ${escapeText(step.to)}${lineOf(step, options)}`),
    ...(mark === 'missing' ? [` ${style.red('✗ reaches no endpoint')}`] : []),
  ];
  return [
    ...hang(head, {width: width - 3, first: branch, rest: `${stem}${leaves.length > 0 ? '│  ' : '   '}   `}),
    ...leaves.flatMap((leaf, index) => {
      const [twig, under] = index === leaves.length - 1 ? ['└─ ', '   '] : ['├─ ', '│  '];
      return hang(leaf, {width: width - 3, first: stem + twig, rest: `${stem}${under}         `});
    }),
  ];
}

/** A line of parts that stay in one piece; parts that do not fit go on the next lines, and those wider than a line break at blanks. */
type Line = readonly string[];

function hang(
  parts: Line,
  {width, first, rest}: {readonly width: number; readonly first: string; readonly rest: string},
): readonly string[] {
  const lines: string[] = [];
  let line = first;
  const room = width - visibleLength(rest);
  const pieces = parts.flatMap((part, index) =>
    (index === 0 ? visibleLength(first + part) <= width : visibleLength(part.trimStart()) <= room) ? [part] : wordsOf(part),
  );
  for (const [index, part] of pieces.entries()) {
    if (index === 0 || visibleLength(line + part) <= width) line += part;
    else {
      lines.push(line);
      line = rest + part.trimStart();
    }
  }
  return [...lines, line];
}

/** Each with the blanks before it. */
function wordsOf(part: string): readonly string[] {
  return part.match(/ *[^ ]+/g) ?? [];
}

/** Every faulty endpoint; a few of the others when they are many. */
function endpointLines(entry: EntryTrace, options: TreeOptions): readonly Line[] {
  const {endpoints} = entry;
  const {style, all} = options;
  const {shown, hidden} = all ? {shown: endpoints, hidden: []} : chooseEndpoints(endpoints);
  const lines = shown.map(endpoint => endpointLine(endpoint, entry, options));
  if (hidden.length === 0) return lines;
  const share = percent(shareOf(hidden)).padStart(5);
  return [...lines, [`${sign('ok', style)} ${share} ${hidden.length} more endpoints in sync; -v shows them`]];
}

function endpointLine(endpoint: EndpointTrace, entry: EntryTrace, options: TreeOptions): Line {
  const {style} = options;
  const {hostPort, mark, share, expectedShare, masquerade, pod, nodeName, state} = endpoint;
  // Pasted rules may lack the endpoint's own chain: the rule that picks it has the same counters.
  const rewrite = endpoint.rewrite ?? (mark === 'shown' ? endpoint.pick : null);
  const owner =
    state === null
      ? isFaulty(mark) && expectedShare === null
        ? style.red('not an endpoint of the Service')
        : ''
      : `${escapeText(pod ?? 'no pod')}${nodeName === null ? '' : ` on ${escapeText(nodeName)}`}, ${state}`;
  return [
    `${sign(mark, style)} ${percent(share).padStart(5)} ${escapeText(hostPort)}`,
    ...[[owner, masquerade ? 'masqueraded' : ''].filter(part => part !== '').join(', ')].flatMap(text =>
      text === '' ? [] : [`  ${text}`],
    ),
    ...(isFaulty(mark) ? [`  ${style.red(shouldBe(endpoint, entry))}`] : []),
    ...(rewrite === null ? [] : placeOf(rewrite, entry.steps.at(-1), options)),
  ];
}

/** A virtual server, and a chain that rewrites by a map, stands once: at the entry. */
function placeOf(rule: CountedRule, last: TraceStep | undefined, options: TreeOptions): Line {
  const isSaid = dumpLine(rule) === 0 && last?.to.split(' ').at(-1) === rule.chain;
  const line = lineOf(rule, options);
  if (isSaid) return visibleLength(line) === 0 ? [] : [line];
  return [`  ${options.style.dim(escapeText(rule.chain))}${line}`];
}

function endLine({end, mark}: EntryTrace, options: TreeOptions): readonly Line[] {
  if (end === null || (end.verdict === 'passed' && !isFaulty(mark) && end.reason === undefined)) return [];
  const {rule} = end;
  const {style} = options;
  const where = rule === null ? [] : [`  ${style.dim(escapeText(`${rule.table}/${rule.chain}`))}${lineOf(rule, options)}`];
  const refused = !isFaulty(mark) && end.verdict !== 'undecided' ? style.yellow('○') : sign(mark, style);
  return [[`${refused} ${escapeText(endText(end, mark))}`, ...(isFaulty(mark) ? [`  ${style.red('wrong')}`] : []), ...where]];
}

function sign(mark: Mark, style: Style): string {
  return mark === 'shown' ? ' ' : mark === 'ok' ? style.green('✓') : style.red('✗');
}

/** The line, with its counters under -v. */
function lineOf(rule: CountedRule, {style, all}: TreeOptions): string {
  const packets = all ? packetsText(rule) : '';
  const line = dumpLine(rule);
  return style.dim(`${line > 0 ? `:${line}` : ''}${packets === '' ? '' : ` (${packets})`}`);
}

/** The Services that rules serve, one line a port. */
export const serviceList: Renderer = (report, options) => {
  const style = styleOf(options.color);
  const verdict = wrapLines(verdictLine(report, style), options.width);
  if (report.traces.length === 0) return [verdict, wrapLines(nothingListed(report), options.width)].join('\n\n');
  const said = saidOf(report);
  return [
    verdict,
    table(report, options.width),
    ...(said === '' ? [] : [wrapLines(said, options.width)]),
    `${plural(report.summary.services, 'Service')}; svc-trace trace NAME --from FILE draws one`,
  ].join('\n\n');
};

function nothingListed(report: Report): string {
  const isOfNft = report.nodes.some(({reason}) => reason === printedByNft);
  if (isOfNft) return `These are ${printedByNft}.`;
  return `These rules contain no Service of kube-proxy. ${saidOf(report)}`.trim();
}

/** What the text shows beside the Services. */
function saidOf({nodes}: Report): string {
  const [said = ''] = nodes.flatMap(({reason}) => (reason === undefined || reason === onlyRules ? [] : escapeText(reason)));
  return said;
}

function table({traces}: Report, width: number): string {
  const rows = traces.map(trace => [nameOf(trace), trace.port.protocol, endpointsOf(trace), entriesOf(trace)]);
  return plainTable(['SERVICE', 'PROTOCOL', 'ENDPOINTS', 'ENTRIES'], rows, width);
}

function nameOf(trace: PortTrace): string {
  return `${escapeText(portName(trace))}${trace.family === 'IPv6' ? ' (IPv6)' : ''}`;
}

function entriesOf({entries}: PortTrace): string {
  return entries.map(({entry}) => escapeText(entryText(entry))).join(', ');
}

function endpointsOf({entries}: PortTrace): string {
  const endpoints = new Set(entries.flatMap(entry => entry.endpoints.map(({hostPort}) => hostPort)));
  if (endpoints.size > 0) return String(endpoints.size);
  const [end] = entries.flatMap(entry => entry.end ?? []);
  if (end?.verdict === 'rejected') return 'none: refused';
  if (end?.verdict === 'dropped') return 'none: dropped';
  return end === undefined ? '0' : 'not in this text';
}
