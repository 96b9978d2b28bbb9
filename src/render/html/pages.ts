import type {Finding} from '../../model/finding.ts';
import {partition, pushTo} from '../../model/lists.ts';
import type {Report} from '../../model/report.ts';
import {namespacedName, plural} from '../../model/text.ts';
import {isCauseBlock} from '../finding-blocks.ts';
import {readTime, type Renderer} from '../renderer.ts';
import {
  causedText,
  fineText,
  type MatrixCell,
  matrixOf,
  type NodeGroup,
  nodeTitles,
  rowTitle,
  type ServiceRow,
} from '../table/matrix-cells.ts';
import {withoutRulesText} from '../verdict-line.ts';
import {filtersHtml, findingsHtml, type ListedFinding, listFindings, NodeRanges} from './finding-list.ts';
import {type Html, html as template, html, nothing} from '../markup.ts';
import {nodesHtml, reportPage} from './page.ts';
import {type DrawnPath, faultyPaths, pathHtml, picturesHtml} from './paths.ts';

/** A complete report as one file, without any other: for a browser, for print, to send to others. */
export const checkPage: Renderer = (report, options) => {
  const ranges = new NodeRanges(report);
  const {quiet, verbose: all} = options;
  const found = listFindings(report.findings, all);
  const paths = faultyPaths(report);
  const pathIds = new Map(paths.drawn.map(({service, id}) => [service, id]));
  const findings = findingsHtml(found, {
    ranges,
    readAt: readTime(options.provenance),
    pathOf: service => (service === undefined ? null : (pathIds.get(namespacedName(service)) ?? null)),
    all,
  });
  const table = quiet ? nothing : matrixHtml(report, found.listed, ranges, all);
  const [first] = found.blocks;
  const body = [
    summaryHtml(report),
    filtersHtml(report),
    // What explains most comes first, however many rows the table has.
    ...(first !== undefined && isCauseBlock(first.block) ? [findings, table] : [table, findings]),
    pathsHtml(paths, report),
    nodesHtml(report),
  ];
  return reportPage(report, options, {title: 'Services', body});
};

function pathsHtml({drawn, hidden}: {readonly drawn: readonly DrawnPath[]; readonly hidden: number}, report: Report): Html {
  if (drawn.length === 0) return nothing;
  return template`<section id="paths"><h2>Packet paths</h2>
<p class="note">Of Services with errors or warnings, on the nodes with these findings${hidden === 0 ? '' : `; svc-trace trace draws those of ${plural(hidden, 'more Service')}`}.</p>
${drawn.map(path => pathHtml(path, report, {all: false}))}
</section>`;
}

/** The pictures and findings of `trace` as one file, without any other. */
export const traceHtml: Renderer = (report, options) => {
  const {quiet, verbose} = options;
  const places = {ranges: new NodeRanges(report), readAt: readTime(options.provenance), pathOf: () => null, all: verbose};
  const pictures = picturesHtml(report, '', {all: verbose, max: maxPictures});
  const body = [
    ...(quiet ? [] : [html`<section id="paths"><h2>Packet paths</h2>${pictures}</section>`]),
    filtersHtml(report),
    findingsHtml(listFindings(report.findings, verbose), places),
    nodesHtml(report),
  ];
  return reportPage(report, options, {title: 'Packet paths', body});
};

/** Without -v. */
const maxPictures = 60;

/** The counts of the report. */
function summaryHtml({summary}: Report): Html {
  const {errors, warnings, infos, services, servicePorts, nodesChecked, nodesUnread} = summary;
  return html`<ul class="counts">
<li${errors > 0 ? html` class="error"` : nothing}><b>${errors}</b> ${nounOf('error', errors)}</li>
<li${warnings > 0 ? html` class="warning"` : nothing}><b>${warnings}</b> ${nounOf('warning', warnings)}</li>
<li><b>${infos}</b> ${nounOf('info', infos)}</li>
<li><b>${services}</b> ${nounOf('Service', services)}, ${plural(servicePorts, 'port')}</li>
<li><b>${nodesChecked}</b> ${nounOf('node', nodesChecked)} checked</li>
<li${nodesUnread > 0 ? html` class="warning"` : nothing}><b>${nodesUnread}</b> ${nounOf('node', nodesUnread)} not checked</li>
</ul>`;
}

function nounOf(thing: string, number: number): string {
  return number === 1 ? thing : `${thing}s`;
}

/** A row for each Service and a column for each node; each cell links to its finding. Many nodes with the same cells share a column. */
function matrixHtml(report: Report, listed: readonly ListedFinding[], ranges: NodeRanges, all: boolean): Html {
  const {cells, groups, rows, hidden, caused, fine} = matrixOf(report, {few: 12, single: 60, maxRows: all ? Infinity : maxRows});
  const shown = all ? groups : groups.slice(0, maxColumns);
  if (shown.length === 0 || (rows.length === 0 && !shown.some(group => cells.hasOwn(group)))) return nothing;
  const titles = nodeTitles(shown, maxLegend);
  const legend = titles.flatMap(title => title.legend);
  const notes = [
    ...(isLong(legend) ? [] : legend),
    ...(withoutRulesText(report) === '' ? [] : [withoutRulesText(report)]),
    ...(hidden > 0 ? [`${plural(hidden, 'more Service')} with findings not shown; -v shows them`] : []),
    ...(groups.length > shown.length ? [`${plural(groups.length - shown.length, 'more group')} of nodes not shown; -v shows them`] : []),
  ];
  const links = linksOf(listed);
  const found = foundByService(report);
  const whole = shown.some(group => cells.hasOwn(group))
    ? [
        rowHtml(['(the node itself)'], found.get('') ?? '', [
          ...(cells.hasApi ? [html`<td></td>`] : []),
          ...shown.map(group => cellHtml(cells.ofNode(group), links(group))),
        ]),
      ]
    : [];
  return html`<section id="matrix"><h2>Services and nodes</h2>
<div class="scroll" tabindex="0" role="region" aria-label="Services and nodes"><table>
<thead><tr><th scope="col">Service</th>${cells.hasApi ? html`<th scope="col">API</th>` : nothing}${shown.map((group, index) => columnHtml(group, titles[index]?.title ?? '', ranges))}</tr></thead>
<tbody>
${whole}
${partition(rows, ([service]) => found.has(service))
  .flat()
  .map(row =>
    rowHtml(row, [...new Set(row.flatMap(service => found.get(service)?.split(' ') ?? []))].join(' '), [
      ...(cells.hasApi ? [cellHtml(cells.ofApi(row[0]), links(null))] : []),
      ...shown.map(group => cellHtml(cells.ofRow(group, row), links(group))),
    ]),
  )}
</tbody></table></div>
${isLong(legend) ? html`<details><summary>Names of the nodes</summary><div>${legend.map(line => html`<p>${line}</p>`)}</div></details>` : nothing}
${notes.map(note => html`<p class="note">${note}</p>`)}
${caused.length === 0 ? nothing : fineHtml(caused, causedText(caused.length))}
${fine.length === 0 ? nothing : fineHtml(fine, fineText(report, cells, fine))}
</section>`;
}

/** The names of many nodes are folded. */
function isLong(legend: readonly string[]): boolean {
  return legend.join('').length > 300;
}

/** Services without findings: their names only. */
function fineHtml(services: readonly string[], title: string): Html {
  const rest = services.length > maxNames ? `, and ${services.length - maxNames} more` : '';
  return html`<details><summary>${title}</summary><div>${services.slice(0, maxNames).join(', ')}${rest}</div></details>`;
}

const maxNames = 2000;
const maxColumns = 30;
const maxRows = 300;
const maxLegend = 3000;

function columnHtml(group: NodeGroup, title: string, ranges: NodeRanges): Html {
  const {nodes} = group;
  const names = nodes.slice(0, 20).join(', ') + (nodes.length > 20 ? `, and ${nodes.length - 20} more` : '');
  return html`<th scope="col" title="${names}" data-nodes="${ranges.of(nodes)}">${title}</th>`;
}

function rowHtml(row: ServiceRow, findings: string, cells: readonly Html[]): Html {
  const title = rowTitle(row);
  const head =
    row.length === 1 ? html`${title}` : html`<details><summary>${title}</summary>${row.map(service => html`${service}<br>`)}</details>`;
  return html`<tr data-service="${row.join(' ')}" data-found="${findings}"><th scope="row">${head}</th>${cells}</tr>`;
}

/** Each code links to its finding, and a word without a code to the reason. */
function cellHtml({text, severity, findings}: MatrixCell, linkOf: (finding: Finding) => string | null): Html {
  const linked = (words: string, finding: Finding | undefined): Html => {
    const link = finding === undefined ? null : linkOf(finding);
    return link === null ? html`${words}` : html`<a href="#${link}">${words}</a>`;
  };
  const parts = text.split(/(ST\d+)/);
  if (parts.length === 1) return html`<td class="${severity}">${linked(text, findings[0])}</td>`;
  // One by one: a list would be joined by line breaks.
  const findingOf = (part: string) => findings.find(({code}) => code === part);
  const content = parts.reduce((done, part) => html`${done}${linked(part, findingOf(part))}`, nothing);
  return html`<td class="${severity}">${content}</td>`;
}

/** The link to a finding of a cell; null if the list had no room for it. A finding about API objects has no group of nodes. */
function linksOf(listed: readonly ListedFinding[]): (group: NodeGroup | null) => (finding: Finding) => string | null {
  const byPlace = new Map<string, ListedFinding[]>();
  const keyOf = ({code, service}: ListedFinding['finding']): string => JSON.stringify([code, service ?? null]);
  for (const item of listed) pushTo(byPlace, keyOf(item.finding), item);
  return group => finding => {
    const found = byPlace.get(keyOf(finding)) ?? [];
    return found.find(({nodes}) => finding.node === undefined || group === null || nodes.includes(group.nodes[0] ?? ''))?.id ?? null;
  };
}

/** For the filters: the findings of each Service, as `severity:code`. */
function foundByService({findings}: Report): ReadonlyMap<string, string> {
  const found = new Map<string, Set<string>>();
  for (const {service, severity, code, node} of findings) {
    if (node === undefined && service === undefined) continue;
    const key = service === undefined ? '' : namespacedName(service);
    const own = found.get(key) ?? new Set();
    found.set(key, own.add(`${severity}:${code}`));
  }
  return new Map([...found].map(([key, codes]) => [key, [...codes].join(' ')]));
}
