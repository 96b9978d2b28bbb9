import {append, pushTo} from '../../model/lists.ts';
import type {NodeReport, Report, NodeWait, WaitReport} from '../../model/report.ts';
import type {NodeLag} from '../../model/state-history.ts';
import {escapeText, type Style, styleOf, wrapLines, plainTable, wrap} from '../terminal-text.ts';
import {findingTexts, shownFindings} from './finding-text.ts';
import {matrix} from './matrix.ts';
import {partialReading, secondsText, verdictLine} from '../verdict-line.ts';
import {readTime, type Renderer, type RenderOptions} from '../renderer.ts';
import {plural, someOf} from '../../model/text.ts';
import {nodeList} from '../names-of-nodes.ts';

/** The verdict, Services against nodes, and the findings with their evidence. Infos are only counted. */
export const table: Renderer = (report, options) => sections(report, options, false);

/** The same with every Service, node and finding, and kube-proxy's settings. */
export const wide: Renderer = (report, options) => sections(report, {...options, verbose: true}, true);

function sections(report: Report, options: RenderOptions, all: boolean): string {
  const style = styleOf(options.color, options.links);
  const {width} = options;
  const loud = shownFindings(report, options.verbose || report.services.length === 0);
  const parts = [wrapLines(verdictLine(report, style, options.provenance), width)];
  if (!options.quiet && report.nodes.length > 0)
    parts.push(matrix(report, {style, width: all ? Infinity : Math.min(width, widestMatrix), all, headers: options.headers ?? true}));
  if (!options.quiet && report.summary.services > 0 && report.scope?.startsWith('namespace') === true)
    parts.push(wrapLines(style.dim(`Services of ${report.scope} only; -A checks all namespaces`), width));
  if (report.wait !== undefined) parts.push(wrapLines(waitSection(report.wait, {style, all}), width));
  append(parts, findingTexts(loud, {style, width, max: all ? Infinity : 10, spread: all, readAt: readTime(options.provenance)}));
  if (options.verbose) parts.push(wrapLines(settings(report, style), width), ...notReadSection(report, {style, width}));
  const partial = partialReading(report);
  if (partial !== null) parts.push(wrapLines(style.dim(partial), width));
  const hidden = report.findings.length - loud.length;
  if (hidden > 0 && !options.quiet)
    parts.push(style.dim(`${plural(hidden, 'info')} not shown; -o wide shows ${hidden === 1 ? 'it' : 'them'}`));
  return parts.filter(part => part !== '').join('\n\n');
}

/** Without a terminal the width is unlimited. */
const widestMatrix = 200;

/** Nodes with equal settings are listed together. */
function settings(report: Report, style: Style): string {
  const linesOf = ({name: node, settings: values}: NodeReport): string =>
    Object.entries(values)
      .map(([name, {value, source}]) => {
        const text = name === 'nodeName' && value === node ? 'the name of the Node' : value;
        return `\n  ${escapeText(`${name}=${text}`)} ${style.dim(`(${escapeText(source)})`)}`;
      })
      .join('');
  const groups = Map.groupBy(report.nodes, node => `${node.reason ?? kindOf(node)}\n${linesOf(node)}`);
  return [...groups.values()]
    .map(nodes => {
      const [first] = nodes;
      return first === undefined ? '' : `${nodeList(nodes.map(({name}) => name))}: ${runningText(first, nodes)}${linesOf(first)}`;
    })
    .join('\n');
}

function kindOf({proxyMode, kubeProxyVersion, ciliumVersion, backend, read}: NodeReport): string {
  return JSON.stringify([proxyMode, kubeProxyVersion, ciliumVersion, backend, read]);
}

function runningText(
  {reason, proxyMode, kubeProxyVersion, ciliumVersion, backend, read}: NodeReport,
  nodes: readonly NodeReport[],
): string {
  if (reason !== undefined) return escapeText(reason);
  const counts = nodes.map(({rules}) => rules);
  const [fewest, most] = [counts.reduce((a, b) => Math.min(a, b)), counts.reduce((a, b) => Math.max(a, b))];
  const rules = fewest === most ? plural(most, 'rule') : `${fewest} to ${plural(most, 'rule')}`;
  const behind = each(nodes, ({name, lag}) => (lag === undefined ? null : `${nodes.length > 1 ? `${name} ` : ''}${lagText(lag)}`));
  const via = each(nodes, node => node.via ?? null);
  const cilium = ciliumVersion === undefined ? '' : `Cilium ${escapeText(ciliumVersion)}`;
  if (kubeProxyVersion === undefined && cilium !== '')
    return `${cilium}, ${rules.replace('rule', 'frontend')}${via === '' ? '' : `; read: ${via}`}`;
  const proxy = cilium === '' ? '' : `${cilium} beside `;
  return `${proxy}${proxyMode} mode, kube-proxy ${kubeProxyVersion}${backend === undefined ? '' : `, ${backend} backend`}, ${rules}${read === undefined ? '' : ' read, not all'}${behind === '' ? '' : `; ${behind}`}${via === '' ? '' : `; read: ${via}`}`;
}

/** What nodes have in common, or some of what they have. */
function each(nodes: readonly NodeReport[], textOf: (node: NodeReport) => string | null): string {
  const texts = [...new Set(nodes.flatMap(node => textOf(node) ?? []))];
  return escapeText(someOf(texts, {max: 3, noun: 'node'}));
}

/** `2.1 s behind the API (shop/web)`. */
function lagText({seconds, service, changedServices}: NodeLag): string {
  if (service !== undefined) return `${seconds === 0 ? 'less than 0.1 s' : secondsText(seconds)} behind the API (${service})`;
  return `not behind the API (${plural(changedServices, 'Service')} changed)`;
}

interface WaitSectionOptions {
  readonly style: Style;
  /** Every node on a line of its own. */
  readonly all: boolean;
}

/** How long the nodes took to converge: those that have not converged first, then the slowest. */
function waitSection({nodes, seconds, limitSeconds, looks, clean}: WaitReport, {style, all}: WaitSectionOptions): string {
  const head = clean ? style.green(`CONVERGED in ${secondsText(seconds)}`) : style.red(`NOT CONVERGED after ${secondsText(seconds)}`);
  const loud = nodes.filter(({look}) => all || look !== 1).toSorted((a, b) => slowness(b) - slowness(a));
  const shown = all ? loud : loud.slice(0, maxRows);
  const rest = nodes.filter(({look}) => look === 1).length;
  return [
    `${head} (--wait ${secondsText(limitSeconds)}, ${plural(looks, 'check')})`,
    ...(shown.length === 0 ? [] : [plainTable(['NODE', 'CONVERGED'], shown.map(row))]),
    ...(loud.length > shown.length ? [style.dim(`${loud.length - shown.length} more nodes; -o wide shows them`)] : []),
    ...(all || rest === 0 ? [] : [style.dim(`${plural(rest, 'node')} in sync from the first check`)]),
  ].join('\n');
}

const maxRows = 20;

function row(wait: NodeWait): readonly string[] {
  return [escapeText(wait.name), convergedText(wait)];
}

/** `in 3.2 s`. */
export function convergedText({look, seconds, waitedFor}: NodeWait): string {
  if (waitedFor === false) return 'not waited for: a permanent error keeps it from being read';
  if (seconds === undefined) return 'not yet';
  return look === 1 ? 'in sync from the first check' : `in ${secondsText(seconds)}`;
}

/** The same as a sentence. */
export function waitText(wait: NodeWait): string {
  return `converged: ${convergedText(wait)}`;
}

function slowness({seconds}: NodeWait): number {
  return seconds ?? Number.MAX_VALUE;
}

/** Under -v: the optional files that were not read, by the reason, with the nodes. Empty when all were. */
export function notReadSection({nodes}: Report, {style, width}: {readonly style: Style; readonly width: number}): readonly string[] {
  const byReason = new Map<string, {readonly file: string; readonly node: string}[]>();
  for (const {name: node, notRead = []} of nodes) for (const {file, reason} of notRead) pushTo(byReason, reason, {file, node});
  const blocks = [...byReason].flatMap(([reason, all]) => ofReason(reason, all));
  if (blocks.length === 0) return [];
  return [['Not read, and not required:', ...blocks.flatMap(text => wrap(text, width, '  ').map(style.dim))].join('\n')];
}

/** Files that are missing on the same nodes stand together. */
function ofReason(reason: string, all: readonly {readonly file: string; readonly node: string}[]): readonly string[] {
  const nodesOf = Map.groupBy(all, ({file}) => file);
  const filesOf = Map.groupBy([...nodesOf], ([, places]) => nodeList(places.map(({node}) => node)));
  return [...filesOf].map(([nodes, files]) => `${nodes}: ${escapeText(`${files.map(([file]) => file).join(', ')}: ${reason}`)}`);
}
