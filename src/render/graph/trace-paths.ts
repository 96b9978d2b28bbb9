import {groupBy, pushTo} from '../../model/lists.ts';
import {entryText} from '../../model/service-port.ts';
import {type EndpointTrace, type EntryTrace, isFaulty, type Mark, type PortTrace} from '../../model/service-trace.ts';
import {escapeText} from '../terminal-text.ts';
import {dumpLine, endText, packetsText, percent, shouldBe} from '../trace-words.ts';

export interface GraphOptions {
  /** Every endpoint, even of a Service that has hundreds. */
  readonly all: boolean;
}

/** Entries that share a chain and its endpoints. Control characters are spelled out. */
export interface TracePath {
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
export interface Leaf {
  readonly kind: 'endpoint' | 'end';
  readonly lines: readonly string[];
  readonly isFault: boolean;
  /** Its share of new connections. */
  readonly label: string;
  /** The endpoint's own chain, and the line of the rule in it that rewrites the packet. */
  readonly chain: {readonly name: string; readonly line: number; readonly packets: string} | null;
}

export function tracePathsOf(entries: readonly EntryTrace[], options: GraphOptions): readonly TracePath[] {
  return groupPaths(entries).flatMap(group => pathOf(group, options));
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
function isSamePath({endpoints}: EntryTrace): boolean {
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
  const {entry, from, mark, steps, endpoints, end} = trace;
  const isSaidElsewhere = mark !== 'missing' && (end !== null || endpoints.some(endpoint => isFaulty(endpoint.mark)));
  const isFault = isFaulty(mark) && !isSaidElsewhere;
  const fault = mark === 'missing' ? '✗ reaches no endpoint' : '✗ wrong';
  return {
    lines: [escapeText(entryText(entry)), `from ${escapeText(from)}`, ...(isFault ? [fault] : [])],
    isFault,
    steps: steps.map(step => ({to: escapeText(step.to), line: dumpLine(step), packets: packetsText(step)})),
  };
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

interface ChosenEndpoints {
  readonly shown: readonly EndpointTrace[];
  /** All of them in sync. */
  readonly hidden: readonly EndpointTrace[];
}

/** Every faulty endpoint; a few of the others when they are many. */
export function chooseEndpoints(endpoints: readonly EndpointTrace[]): ChosenEndpoints {
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
