import {append} from '../../model/lists.ts';
import type {NodeReport, Report} from '../../model/report.ts';
import type {NodeLag} from '../../model/state-history.ts';
import {escapeText, type Style, styleOf} from '../terminal-text.ts';
import {findingTexts} from './finding-text.ts';
import {matrix} from './matrix.ts';
import {notReadSection, waitSection} from './sections.ts';
import {partialReading, secondsText, verdictLine} from '../verdict-line.ts';
import {readTime, type Renderer, type RenderOptions} from '../renderer.ts';
import {wrapLines} from '../wrap.ts';
import {plural} from '../../model/text.ts';

/** The verdict, Services against nodes, and the findings with their evidence. Infos are only counted. */
export const table: Renderer = (report, options) => sections(report, options, false);

/** The same with every Service, node and finding, and kube-proxy's settings. */
export const wide: Renderer = (report, options) => sections(report, {...options, verbose: true}, true);

function sections(report: Report, options: RenderOptions, all: boolean): string {
  const style = styleOf(options.color, options.links);
  const {width} = options;
  const loud = report.findings.filter(({severity}) => severity !== 'info' || options.verbose || isAnswer(report));
  const parts = [wrapLines(verdictLine(report, style, options.provenance), width)];
  if (!options.quiet && report.nodes.length > 0)
    parts.push(matrix(report, {style, width: all ? Infinity : Math.min(width, widestMatrix), all, headers: options.headers ?? true}));
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

/** For Services without kube-proxy rules, the info is the answer. */
function isAnswer({services}: Report): boolean {
  return services.length === 0;
}

function settings(report: Report, style: Style): string {
  return report.nodes
    .map(node => {
      const values = Object.entries(node.settings).map(
        ([name, {value, source}]) => `  ${escapeText(`${name}=${value}`)} ${style.dim(`(${escapeText(source)})`)}`,
      );
      return [escapeText(`${node.name}: ${node.reason ?? running(node)}`), ...values].join('\n');
    })
    .join('\n');
}

function running({proxyMode, kubeProxyVersion, backend, rules, read: readRules, via, lag}: NodeReport): string {
  const behind = lag === undefined ? '' : `; ${lagText(lag)}`;
  const read = via === undefined ? '' : `; read: ${escapeText(via)}`;
  return `${proxyMode} mode, kube-proxy ${kubeProxyVersion}${backend === undefined ? '' : `, ${backend} backend`}, ${plural(rules, 'rule')}${readRules === undefined ? '' : ' read, not all'}${behind}${read}`;
}

/** `2.1 s behind the API (shop/web)`. */
function lagText({seconds, service, changedServices}: NodeLag): string {
  if (service !== undefined) return `${seconds === 0 ? 'less than 0.1 s' : secondsText(seconds)} behind the API (${service})`;
  return `not behind the API (${plural(changedServices, 'Service')} changed)`;
}
