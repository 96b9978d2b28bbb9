import type {Finding} from '../../model/finding.ts';
import {pushTo} from '../../model/lists.ts';
import {affectsAllServices, type Report} from '../../model/report.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {type Entry, entryText} from '../../model/service-port.ts';
import {type CountedRule, type EndpointTrace, type EntryTrace, isFaulty, type Mark, type PortTrace} from '../../model/service-trace.ts';
import {namespacedName} from '../../model/text.ts';
import {escapeText} from '../renderer.ts';
import {dumpLine, endText, noRulesText, packetsText, percent, shouldBe, unservedName} from '../trace-words.ts';
import {
  chooseEndpoints,
  type GraphOptions,
  groupNodes,
  groupPaths,
  isSaidElsewhere,
  isSamePath,
  portsOf,
  shareOf,
  titleOf,
} from './trace-graph.ts';

/**
 * The packet path to one Service port, on the nodes where it is the same, from clients to pods. Chains and rules are details of the
 * boxes. Control characters are spelled out.
 */
export interface Picture {
  readonly title: string;
  /** Findings that no box shows: of the node as a whole, and of the Service. */
  readonly alerts: readonly string[];
  /** Those with faults first. */
  readonly paths: readonly PicturePath[];
  readonly isFault: boolean;
}

/** Clients that share a chain and its endpoints. */
export interface PicturePath {
  /** Each is an entry, and below it the third-party rules that its packets meet. */
  readonly sources: readonly (readonly PictureBox[])[];
  /** Endpoints, those with faults first, or how the path ends without one. */
  readonly ends: readonly PictureBox[];
}

export interface PictureBox {
  readonly kind: 'entry' | 'rule' | 'endpoint' | 'end';
  readonly sign: '' | '✓' | '✗' | '○';
  readonly title: string;
  readonly lines: readonly string[];
  /** What is wrong, in words; empty when nothing is. */
  readonly fault: string;
  /** The share of new connections, 0 to 1; null if there is none. */
  readonly share: {readonly actual: number; readonly expected: number | null} | null;
  /** The rules behind it, with their places in the dump, in the order in which a packet meets them. */
  readonly rules: readonly string[];
}

/** A picture for each Service port and each group of nodes with the same path and findings, those with faults first. */
export function picturesOf(report: Report, options: GraphOptions): readonly Picture[] {
  const findings = nodeFindings(report.findings);
  const pictures = portsOf(report.traces).flatMap(port =>
    groupNodes(port, trace => findings.likeness(trace)).flatMap(group => pictureOf(group, findings, options)),
  );
  return [...pictures.filter(({isFault}) => isFault), ...pictures.filter(({isFault}) => !isFault)];
}

function pictureOf(group: readonly PortTrace[], findings: NodeFindings, options: GraphOptions): readonly Picture[] {
  const [first] = group;
  if (first === undefined) return [];
  const paths = pathsOf(first, findings, options);
  const isDrawn = paths.some(hasFault);
  const alerts = alertsOf(findings.of(first), isDrawn).map(escapeText);
  return [
    {
      title: titleOf(group, first),
      alerts,
      paths: [...paths.filter(hasFault), ...paths.filter(path => !hasFault(path)), ...unservedPath(first)],
      isFault: isDrawn || alerts.length > 0,
    },
  ];
}

/** Addresses for which kube-proxy writes no rules. */
function unservedPath({unserved = []}: PortTrace): readonly PicturePath[] {
  if (unserved.length === 0) return [];
  const sources = unserved.map((address): readonly PictureBox[] => {
    const [title, line] = [escapeText(unservedName(address)), escapeText(noRulesText(address))];
    return [{kind: 'entry', sign: '○', title, lines: [line], fault: '', share: null, rules: []}];
  });
  return [{sources, ends: []}];
}

function hasFault({sources, ends}: PicturePath): boolean {
  return [...sources.flat(), ...ends].some(({fault}) => fault !== '');
}

/** Entries whose packets meet a third-party rule have a path of their own. */
function pathsOf(trace: PortTrace, findings: NodeFindings, options: GraphOptions): readonly PicturePath[] {
  const rulesOf = (entry: EntryTrace): readonly PictureBox[] => thirdPartyRules(findings.of(trace), entry.entry).map(ruleBox);
  const groups = new Map<string, EntryTrace[]>();
  for (const [index, group] of groupPaths(trace.entries).entries())
    for (const entry of group) pushTo(groups, JSON.stringify([index, rulesOf(entry)]), entry);
  return [...groups.values()].flatMap(group => {
    const [first] = group;
    if (first === undefined) return [];
    const isMasqueradedAlike = isSamePath(first);
    return [
      {
        sources: group.map(entry => [entryBox(entry, isMasqueradedAlike), ...rulesOf(entry)]),
        ends: [...endpointBoxes(first, !isMasqueradedAlike, options), ...endBoxes(first)],
      },
    ];
  });
}

function entryBox(trace: EntryTrace, isMasqueradedAlike: boolean): PictureBox {
  const {entry, from, mark, steps, endpoints} = trace;
  const isFault = isFaulty(mark) && !isSaidElsewhere(trace);
  const isMasqueraded = isMasqueradedAlike && endpoints.some(({masquerade}) => masquerade);
  const seen = [isMasqueraded ? 'masqueraded' : '', packetsText(steps[0] ?? {})].filter(part => part !== '');
  return {
    kind: 'entry',
    sign: isFault ? '✗' : '',
    title: escapeText(entryText(entry)),
    lines: [`from ${escapeText(from)}`, ...(seen.length === 0 ? [] : [seen.join(', ')])],
    fault: isFault ? (mark === 'missing' ? 'reaches no endpoint' : 'wrong') : '',
    share: null,
    rules: steps.map(step => escapeText(ruleLine(step))),
  };
}

function ruleBox({code, rule}: {readonly code: string; readonly rule: RuleText}): PictureBox {
  const {text} = rule;
  return {
    kind: 'rule',
    sign: '✗',
    title: `third-party rule (${code})`,
    share: null,
    lines: [escapeText(ruleLine({...rule, text: text.length > maxRule ? `${text.slice(0, maxRule)}…` : text}))],
    fault: effects[code] ?? 'stands in the path',
    rules: [escapeText(ruleLine(rule))],
  };
}

const maxRule = 240;

const effects: Readonly<Record<string, string>> = {
  ST303: 'packets are not forwarded',
  ST401: 'intercepts the packets',
  ST402: 'drops or rejects the packets',
  ST403: 'the outcome is undetermined',
};

/** Many endpoints in sync are one box with their number; so are the faulty ones that a picture has no room for. */
function endpointBoxes(entry: EntryTrace, saysMasquerade: boolean, {all}: GraphOptions): readonly PictureBox[] {
  const {endpoints} = entry;
  const {shown, hidden} = all ? {shown: endpoints, hidden: []} : chooseEndpoints(endpoints);
  const faulty = shown.filter(({mark}) => isFaulty(mark));
  const drawn = all ? faulty : faulty.slice(0, maxFaulty);
  return [
    ...drawn.map(endpoint => endpointBox(endpoint, entry, saysMasquerade)),
    ...restBox(faulty.slice(drawn.length), '✗'),
    ...shown.filter(({mark}) => !isFaulty(mark)).map(endpoint => endpointBox(endpoint, entry, saysMasquerade)),
    ...restBox(hidden, '✓'),
  ];
}

const maxFaulty = 12;

/** A box of many endpoints has no bar: beside bars of single endpoints it would be out of scale. */
function restBox(rest: readonly EndpointTrace[], sign: '✓' | '✗'): readonly PictureBox[] {
  if (rest.length === 0) return [];
  const expected = rest.reduce((sum, {expectedShare}) => sum + (expectedShare ?? 0), 0);
  const together = `${percent(shareOf(rest))} together`;
  const title = `${rest.length} more ${rest.length === 1 ? 'endpoint' : 'endpoints'}`;
  const shared = {kind: 'endpoint', sign, title, share: null, rules: []} as const;
  if (sign === '✓') return [{...shared, lines: [`in sync, ${together}`], fault: ''}];
  return [{...shared, lines: [], fault: `faulty: ${together}, should be ${percent(expected)}`}];
}

function endpointBox(endpoint: EndpointTrace, entry: EntryTrace, saysMasquerade: boolean): PictureBox {
  const {hostPort, mark, pod, nodeName, state, share, expectedShare, masquerade, pick, rewrite} = endpoint;
  const where = nodeName === null ? '' : ` on ${escapeText(nodeName)}`;
  const about = [pod === null && state !== null ? 'no pod' : '', state ?? ''].filter(part => part !== '').join(', ');
  const seen = [saysMasquerade && masquerade ? 'masqueraded' : '', packetsText(pick ?? {})].filter(part => part !== '');
  const isOneRule = pick !== null && rewrite !== null && pick.chain === rewrite.chain && pick.line === rewrite.line;
  return {
    kind: 'endpoint',
    sign: signs[mark],
    title: escapeText(pod ?? hostPort),
    lines: [
      [pod === null ? '' : `${escapeText(hostPort)}${where}`, about].filter(part => part !== '').join(', '),
      ...(seen.length === 0 ? [] : [seen.join(', ')]),
    ].filter(line => line !== ''),
    fault: faultText(endpoint, entry),
    share: share === null ? null : {actual: share, expected: expectedShare},
    rules: [...(pick === null ? [] : [pick]), ...(rewrite === null || isOneRule ? [] : [rewrite])].map(rule => escapeText(ruleLine(rule))),
  };
}

function faultText(endpoint: EndpointTrace, entry: EntryTrace): string {
  const {mark, expectedShare} = endpoint;
  if (!isFaulty(mark)) return '';
  const words = shouldBe(endpoint, entry);
  if (mark === 'missing') return expectedShare === null ? words : `${words}: should get ${percent(expectedShare)}`;
  return mark === 'stale' ? `${words}: not an endpoint of the Service` : words;
}

const signs = {ok: '✓', shown: '', missing: '✗', stale: '✗', wrong: '✗'} as const satisfies Record<Mark, string>;

function endBoxes({end, mark}: EntryTrace): readonly PictureBox[] {
  if (end === null || (end.verdict === 'passed' && !isFaulty(mark))) return [];
  const {rule} = end;
  const line = rule === null || dumpLine(rule) === 0 ? '' : ` line ${rule.line}`;
  return [
    {
      kind: 'end',
      share: null,
      title: escapeText(endText(end, mark)),
      sign: isFaulty(mark) || end.verdict === 'undecided' ? signs[mark] : '○',
      lines:
        rule === null ? [] : [escapeText(`${rule.table}/${rule.chain}${line}`), ...[packetsText(rule)].filter(packets => packets !== '')],
      fault: isFaulty(mark) ? 'wrong' : '',
      rules: rule === null ? [] : [escapeText(ruleLine(rule))],
    },
  ];
}

/** `line 404, 12 packets: nat -A KUBE-SERVICES …`. */
function ruleLine(rule: CountedRule): string {
  const {table, chain, text} = rule;
  const line = dumpLine(rule);
  const place = [line > 0 ? `line ${line}` : '', packetsText(rule)].filter(part => part !== '').join(', ');
  return `${place === '' ? '' : `${place}: `}${table} ${text.includes(chain) ? '' : `${chain}: `}${text}`;
}

/** The errors and warnings that concern the path to a Service port on a node. */
interface NodeFindings {
  of(trace: PortTrace): readonly Finding[];
  /** The same text for nodes with the same findings. */
  likeness(trace: PortTrace): string;
}

function nodeFindings(findings: readonly Finding[]): NodeFindings {
  const byPlace = new Map<string, Finding[]>();
  for (const finding of findings) {
    const {severity, service, node = null} = finding;
    if (severity === 'info' || (service === undefined && !affectsAllServices(finding))) continue;
    pushTo(byPlace, placeOf(node, service), finding);
  }
  const of = (trace: PortTrace): readonly Finding[] =>
    [placeOf(trace.node, undefined), placeOf(trace.node, trace.service), placeOf(null, trace.service)]
      .flatMap(place => byPlace.get(place) ?? [])
      .filter(finding => isOfTrace(finding, trace));
  return {
    of,
    likeness: trace =>
      JSON.stringify(of(trace).map(({code, severity, message, entry}) => [code, severity, message.replaceAll(trace.node, '\0'), entry])),
  };
}

function placeOf(node: string | null, service: Finding['service']): string {
  return JSON.stringify([node, service === undefined ? null : namespacedName(service)]);
}

/** Whether a finding of the node concerns this port of this Service in this family. */
export function isOfTrace({family, port, service, affects}: Finding, trace: PortTrace): boolean {
  const named = service === undefined ? affects : [service];
  if (named?.some(one => namespacedName(one) === namespacedName(trace.service)) === false) return false;
  const isOfPort = port === undefined || (port.protocol === trace.port.protocol && port.port === trace.port.port);
  return isOfPort && (family === undefined || family === trace.family);
}

/** The third-party rules that packets to an entry meet. */
function thirdPartyRules(findings: readonly Finding[], entry: Entry): readonly {readonly code: string; readonly rule: RuleText}[] {
  return findings
    .filter(({code, entry: of, service}) => service !== undefined && thirdPartyCodes.has(code) && (of === undefined || isSame(of, entry)))
    .flatMap(({code, actual = []}) => actual.map(rule => ({code, rule})));
}

function isSame(one: Entry, other: Entry): boolean {
  return one.kind === other.kind && one.address === other.address && one.port === other.port;
}

/** Forwarding is blocked, or a third-party rule intercepts or drops packets, or cannot be interpreted. */
const thirdPartyCodes: ReadonlySet<string> = new Set(['ST303', 'ST401', 'ST402', 'ST403']);

/** Findings that no box shows. If boxes show faults, findings with the codes of these faults are left out. */
function alertsOf(findings: readonly Finding[], isDrawn: boolean): readonly string[] {
  return findings
    .filter(({code, service}) => service === undefined || !(isDrawn && drawnCodes.has(code)))
    .map(({code, name, severity, service, affects, message}) => {
      const isOfAll = service === undefined && affects === undefined;
      return isOfAll ? `${code} ${name}, all Services of the node: ${message}` : `${code} ${severity} ${name}: ${message}`;
    });
}

const drawnCodes: ReadonlySet<string> = new Set([...thirdPartyCodes, 'ST201', 'ST202', 'ST203', 'ST204', 'ST206', 'ST208', 'ST212']);
