import {append} from '../../model/lists.ts';
import type {NodeReport, Report} from '../../model/report.ts';
import type {NodeLag} from '../../model/state-history.ts';
import {escapeText, type Style, styleOf, wrapLines, readTime, type Renderer, type RenderOptions} from '../renderer.ts';
import {findingTexts, shownFindings} from './finding-text.ts';
import {matrix} from './matrix.ts';
import {notReadSection, waitSection} from './sections.ts';
import {partialReading, secondsText, verdictLine} from '../verdict-line.ts';
import {plural, someOf} from '../../model/text.ts';
import {nodeList} from '../finding-blocks.ts';

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
    parts.push(matrix(report, {style, width: all ? Infinity : Math.min(width, widestMatrix), all}));
  if (!options.quiet && report.summary.services > 0 && report.scope?.startsWith('namespace') === true)
    parts.push(wrapLines(style.dim(`Services of ${report.scope} only; -A checks all namespaces`), width));
  if (report.wait !== undefined) parts.push(wrapLines(waitSection(report.wait, style, all), width));
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
