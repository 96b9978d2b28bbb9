import type {Report} from '../model/report.ts';
import {findingText} from './finding-text.ts';
import {groupFindings} from './group-findings.ts';
import {matrix} from './matrix.ts';
import type {Renderer, RenderOptions} from './renderer.ts';
import {type Style, styleOf} from './style.ts';
import {count, verdictLine} from './verdict-line.ts';

/** The verdict, Services against nodes, and the findings with their evidence. Harmless findings are only counted. */
export const table: Renderer = (report, options) => sections(report, options, false);

/** The same with every Service, harmless findings and the settings that kube-proxy works with. */
export const wide: Renderer = (report, options) => sections(report, {...options, verbose: true, width: Math.max(options.width, 200)}, true);

function sections(report: Report, options: RenderOptions, all: boolean): string {
  const style = styleOf(options.color);
  const loud = options.verbose ? report.findings : report.findings.filter(({severity}) => severity !== 'info');
  const groups = groupFindings(loud);
  const parts = [verdictLine(report, style)];
  if (!options.quiet && report.nodes.length > 0) parts.push(matrix(report, {style, width: options.width, all}));
  parts.push(...groups.map(group => findingText(group, style, options.width)));
  if (options.verbose) parts.push(settings(report, style));
  const hidden = report.findings.length - loud.length;
  if (hidden > 0 && !options.quiet) parts.push(style.dim(`${count(hidden, 'harmless finding')} not shown; -o wide shows them`));
  return parts.filter(part => part !== '').join('\n\n');
}

function settings(report: Report, style: Style): string {
  return report.nodes
    .map(node => {
      const values = Object.entries(node.settings).map(([name, {value, source}]) => `  ${name}=${value} ${style.dim(`(${source})`)}`);
      return [
        `${node.name}: ${node.reason ?? `${node.proxyMode} mode, kube-proxy ${node.kubeProxyVersion}${node.backend === undefined ? '' : `, ${node.backend} backend`}, ${count(node.rules, 'rule')}`}`,
        ...values,
      ].join('\n');
    })
    .join('\n');
}
