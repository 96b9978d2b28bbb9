import {groupBy, pushTo} from '../../model/lists.ts';
import {type PortTrace, type EndpointTrace, type EntryTrace, isFaulty, type Mark} from '../../model/service-trace.ts';
import {escapeText} from '../renderer.ts';
import {nodeList} from '../finding-blocks.ts';
import {
  noRulesText,
  ofFirstNode,
  portName,
  portAndProtocol,
  unservedName,
  dumpLine,
  endText,
  packetsText,
  percent,
  shouldBe,
} from '../trace-words.ts';
import {entryText} from '../../model/service-port.ts';

/**
 * The packet path to one Service port as boxes and arrows, for the nodes on which it is the same. Control characters are spelled out;
 * a format escapes what else it cannot hold.
 */
export interface TraceGraph {
  readonly title: string;
  readonly boxes: readonly GraphBox[];
  readonly arrows: readonly GraphArrow[];
}

export interface GraphBox {
  /** Unique in its graph; letters and digits. */
  readonly id: string;
  readonly kind: 'entry' | 'chain' | 'endpoint' | 'end';
  readonly lines: readonly string[];
  readonly isFault: boolean;
}

export interface GraphArrow {
  readonly from: string;
  readonly to: string;
  readonly label: string;
  readonly isFault: boolean;
}

/** A graph for each Service port and each group of nodes with the same path. */
export function traceGraphs(traces: readonly PortTrace[], options: GraphOptions): readonly TraceGraph[] {
  return portsOf(traces).flatMap(port => groupNodes(port).flatMap(group => graphOf(group, options)));
}

function graphOf(group: readonly PortTrace[], options: GraphOptions): readonly TraceGraph[] {
  const [first] = group;
  if (first === undefined) return [];
  const paths = groupPaths(first.entries).flatMap(entries => pathOf(entries, options));
  const drawing = new Drawing();
  for (const path of paths) drawing.add(path);
  for (const address of first.unserved ?? []) drawing.addUnserved([unservedName(address), noRulesText(address)].map(escapeText));
  return [{title: titleOf(group, first), boxes: drawing.boxes, arrows: drawing.arrows}];
}

/** Above the path on nodes where it is the same. */
export function titleOf(group: readonly PortTrace[], first: PortTrace): string {
  const family = first.family === 'IPv6' ? ', IPv6' : '';
  const shown = ofFirstNode(group);
  const lines = shown === '' ? '' : ` (${escapeText(shown)})`;
  return `${escapeText(portName(first))} ${portAndProtocol(first)} on ${nodeList(group.map(({node}) => node))}${family}${lines}`;
}

/** The boxes and arrows of one path after the other. */
class Drawing {
  readonly boxes: GraphBox[] = [];
  readonly arrows: GraphArrow[] = [];

  add(path: TracePath): void {
    const pick = path.pick === null ? null : this.#box('chain', [path.pick]);
    const starts = this.#addEntries(path, pick);
    for (const leaf of path.leaves) this.#addLeaf(leaf, pick === null ? starts : [pick]);
  }

  /** An address without rules has no arrow. */
  addUnserved(lines: readonly string[]): void {
    this.#box('entry', [`○ ${lines[0] ?? ''}`, ...lines.slice(1)]);
  }

  /** The entries, and the chains between them and the one that picks an endpoint. A chain that several entries share is drawn once. */
  #addEntries({entries, note}: TracePath, pick: string | null): readonly string[] {
    const passed = new Map<string, string>();
    return entries.map(({lines, isFault, steps}, index) => {
      const start = this.#box('entry', lines, isFault);
      let from = start;
      for (const [at, {to, line, packets}] of steps.entries()) {
        const isPick = at === steps.length - 1;
        const known = isPick ? pick : (passed.get(`${at} ${to}`) ?? null);
        const next = known ?? this.#box('chain', [to]);
        if (!isPick) passed.set(`${at} ${to}`, next);
        this.#arrow({from, to: next, label: [lineText(line), packets, ...(at === 0 ? [note(index)] : [])], isFault});
        from = next;
      }
      return start;
    });
  }

  #addLeaf({kind, lines, isFault, label, chain}: Leaf, from: readonly string[]): void {
    const end = this.#box(kind, lines, isFault);
    const middle = chain === null ? null : this.#box('chain', [chain.name]);
    if (middle !== null) this.#arrow({from: middle, to: end, label: [lineText(chain?.line ?? 0), chain?.packets ?? ''], isFault});
    for (const start of from) this.#arrow({from: start, to: middle ?? end, label: [label], isFault});
  }

  #box(kind: GraphBox['kind'], lines: readonly string[], isFault = false): string {
    const id = `b${this.boxes.length + 1}`;
    this.boxes.push({id, kind, lines, isFault});
    return id;
  }

  #arrow({label, ...arrow}: Omit<GraphArrow, 'label'> & {readonly label: readonly string[]}): void {
    const text = label.filter(part => part !== '').join(', ');
    const isThere = this.arrows.some(({from, to, label: known}) => from === arrow.from && to === arrow.to && known === text);
    if (!isThere) this.arrows.push({...arrow, label: text});
  }
}

/** A rule that follows from an excerpt, but is not in it, has no line. */
function lineText(line: number): string {
  return line > 0 ? `line ${line}` : '';
}

export interface GraphOptions {
  /** Every endpoint, even of a Service that has hundreds. */
  readonly all: boolean;
}

/** Entries that share a chain and its endpoints. Control characters are spelled out. */
interface TracePath {
  readonly entries: readonly PathEntry[];
  /** The chain that picks the endpoint; null when the entry ends at once. */
  readonly pick: string | null;
  readonly leaves: readonly Leaf[];
  /** `masqueraded` where every packet of the entry is; empty otherwise. */
  readonly note: (entry: number) => string;
}

interface PathEntry {
  readonly lines: readonly string[];
  readonly isFault: boolean;
  readonly steps: readonly {readonly to: string; readonly line: number; readonly packets: string}[];
}

/** Where a path ends. */
interface Leaf {
  readonly kind: 'endpoint' | 'end';
  readonly lines: readonly string[];
  readonly isFault: boolean;
  /** Its share of new connections. */
  readonly label: string;
  /** The endpoint's own chain, and the line of the rule in it that rewrites the packet. */
  readonly chain: {readonly name: string; readonly line: number; readonly packets: string} | null;
}

/** Entries that share a chain and its endpoints. */
export function groupPaths(entries: readonly EntryTrace[]): readonly (readonly EntryTrace[])[] {
  const paths = new Map<string, EntryTrace[]>();
  for (const entry of entries) pushTo(paths, pathKey(entry), entry);
  return [...paths.values()];
}

/** If all packets of an entry are masqueraded, the entry says so, and paths are not divided by it. */
function pathKey(trace: EntryTrace): string {
  const endpoints = isSamePath(trace) ? trace.endpoints.map(({masquerade, ...rest}) => rest) : trace.endpoints;
  return JSON.stringify([trace.steps.at(-1)?.to ?? null, trace.mark, endpoints, trace.end]);
}

/** All packets are masqueraded, or none. */
export function isSamePath({endpoints}: EntryTrace): boolean {
  return new Set(endpoints.filter(({share}) => share !== 0).map(({masquerade}) => masquerade)).size < 2;
}

function pathOf(group: readonly EntryTrace[], options: GraphOptions): readonly TracePath[] {
  const [first] = group;
  if (first === undefined) return [];
  const pick = first.steps.at(-1);
  return [
    {
      entries: group.map(entryOf),
      pick: pick === undefined ? null : escapeText(pick.to),
      leaves: [...endpointLeaves(first, pick !== undefined && isSamePath(first), options), ...endLeaves(first)],
      note: index => (group.slice(index, index + 1).some(isMasqueraded) ? 'masqueraded' : ''),
    },
  ];
}

function isMasqueraded(trace: EntryTrace): boolean {
  return isSamePath(trace) && trace.endpoints.some(({masquerade}) => masquerade);
}

function entryOf(trace: EntryTrace): PathEntry {
  const {entry, from, mark, steps} = trace;
  const isFault = isFaulty(mark) && !isSaidElsewhere(trace);
  const fault = mark === 'missing' ? '✗ reaches no endpoint' : '✗ wrong';
  return {
    lines: [escapeText(entryText(entry)), `from ${escapeText(from)}`, ...(isFault ? [fault] : [])],
    isFault,
    steps: steps.map(step => ({to: escapeText(step.to), line: dumpLine(step), packets: packetsText(step)})),
  };
}

/** The fault is at an endpoint, or where the path ends. */
export function isSaidElsewhere({mark, end, endpoints}: EntryTrace): boolean {
  return mark !== 'missing' && (end !== null || endpoints.some(endpoint => isFaulty(endpoint.mark)));
}

/** Many endpoints in sync are one box with their number; so are the faulty ones that a picture has no room for. */
function endpointLeaves(entry: EntryTrace, isSaidBefore: boolean, {all}: GraphOptions): readonly Leaf[] {
  const {endpoints} = entry;
  const {shown, hidden} = all ? {shown: endpoints, hidden: []} : chooseEndpoints(endpoints);
  const drawn = all ? shown : shown.slice(0, maxEndpoints);
  return [
    ...drawn.map(endpoint => endpointLeaf(endpoint, entry, isSaidBefore)),
    ...restLeaf(shown.slice(drawn.length), '✗', 'faulty'),
    ...restLeaf(hidden, '✓', 'in sync'),
  ];
}

const maxEndpoints = 40;

function restLeaf(rest: readonly EndpointTrace[], sign: '✓' | '✗', how: string): readonly Leaf[] {
  if (rest.length === 0) return [];
  const lines = [`${sign} ${rest.length} more endpoints`, how];
  return [{kind: 'endpoint', lines, isFault: sign === '✗', label: percent(shareOf(rest)), chain: null}];
}

function endpointLeaf(endpoint: EndpointTrace, entry: EntryTrace, isSaidBefore: boolean): Leaf {
  const {hostPort, mark, pod, nodeName, state, share, expectedShare, masquerade, rewrite} = endpoint;
  const owner = `${escapeText(pod ?? 'no pod')}${nodeName === null ? '' : ` on ${escapeText(nodeName)}`}`;
  const isOwnChain = rewrite !== null && rewrite.chain !== endpoint.pick?.chain && rewrite.chain !== entry.steps.at(-1)?.to;
  return {
    kind: 'endpoint',
    lines: [
      `${signs[mark]}${escapeText(hostPort)}${isFaulty(mark) ? ` ${shouldBe(endpoint, entry)}` : ''}`,
      ...(state !== null ? [owner, state] : isFaulty(mark) && expectedShare === null ? ['not an endpoint of the Service'] : []),
    ],
    isFault: isFaulty(mark),
    label: [percent(share), packetsText(endpoint.pick ?? {}), masquerade && !isSaidBefore ? 'masqueraded' : '']
      .filter(part => part !== '')
      .join(', '),
    chain: isOwnChain ? {name: escapeText(rewrite.chain), line: dumpLine(rewrite), packets: packetsText(rewrite)} : null,
  };
}

const signs = {ok: '✓ ', shown: '', missing: '✗ ', stale: '✗ ', wrong: '✗ '} as const satisfies Record<Mark, string>;

function endLeaves({end, mark}: EntryTrace): readonly Leaf[] {
  if (end === null || (end.verdict === 'passed' && !isFaulty(mark))) return [];
  const {rule} = end;
  const line = rule !== null && dumpLine(rule) > 0 ? ` line ${rule.line}` : '';
  const packets = rule === null ? '' : packetsText(rule);
  const where = rule === null ? [] : [escapeText(`${rule.table}/${rule.chain}${line}${packets === '' ? '' : `, ${packets}`}`)];
  const sign = isFaulty(mark) || end.verdict === 'undecided' ? signs[mark] : '○ ';
  const lines = [`${sign}${escapeText(endText(end, mark))}`, ...where, ...(isFaulty(mark) ? ['wrong'] : [])];
  return [{kind: 'end', lines, isFault: isFaulty(mark), label: '', chain: null}];
}

/** The traces of each Service port, in the order of the ports. */
export function portsOf(traces: readonly PortTrace[]): readonly (readonly PortTrace[])[] {
  return groupBy(traces, ({service, port}) => JSON.stringify([service.namespace, service.name, port.name, port.protocol, port.port]));
}

/** Nodes with the same traces, except for line numbers and counters, and the same likeness. */
export function groupNodes(
  traces: readonly PortTrace[],
  likeness: (trace: PortTrace) => string = () => '',
): readonly (readonly PortTrace[])[] {
  return groupBy(traces, trace =>
    JSON.stringify([trace.family, trace.entries, trace.unserved, likeness(trace)], (name, value: unknown) =>
      isOfOneNode.has(name) ? undefined : value,
    ),
  );
}

const isOfOneNode = new Set(['line', 'packets', 'bytes', 'connections', 'rounded']);

/** Every faulty endpoint; a few of the others when they are many. All that are hidden are in sync. */
export function chooseEndpoints(endpoints: readonly EndpointTrace[]): Record<'shown' | 'hidden', readonly EndpointTrace[]> {
  const fine = endpoints.filter(({mark}) => !isFaulty(mark));
  const hidden = fine.length <= manyEndpoints ? [] : fine.slice(fewEndpoints);
  const isHidden = new Set(hidden);
  return {shown: endpoints.filter(endpoint => !isHidden.has(endpoint)), hidden};
}

const manyEndpoints = 12;
const fewEndpoints = 5;

/** The sum of their shares of new connections; null if one of them is unknown. */
export function shareOf(endpoints: readonly EndpointTrace[]): number | null {
  return endpoints.reduce<number | null>((sum, {share}) => (sum === null || share === null ? null : sum + share), 0);
}
