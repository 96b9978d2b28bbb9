import type {Finding} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import {causedText, type MatrixCell, fineText, MatrixCells, type NodeGroup, nodeGroups, serviceRows} from '../table/matrix-cells.ts';
import {nodeTitles} from '../table/node-titles.ts';
import {withoutRulesText} from '../service-counts.ts';
import type {ListedFinding} from './finding-list.ts';
import {type Html, html, nothing} from './html.ts';
import type {NodeRanges} from './node-ranges.ts';
import {pushTo} from '../../model/lists.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {plural} from '../../model/text/plural.ts';

/** A row for each Service and a column for each node; each cell links to its finding. Many nodes with the same cells share a column. */
export function matrixHtml(report: Report, listed: readonly ListedFinding[], ranges: NodeRanges): Html {
  const cells = new MatrixCells(report);
  const groups = nodeGroups(report, cells);
  const shown = groups.slice(0, maxColumns);
  const {rows: own, hidden, caused, fine} = serviceRows(report, cells, {few: 12, max: maxRows});
  const rows = [...caused.slice(0, maxRows - own.length), ...own];
  const folded = caused.slice(maxRows - own.length);
  if (shown.length === 0 || (rows.length === 0 && !shown.some(group => cells.hasOwn(group)))) return nothing;
  const titles = nodeTitles(shown);
  const legend = titles.flatMap(title => title.legend);
  const notes = [
    ...(isLong(legend) ? [] : legend),
    ...(withoutRulesText(report.summary) === '' ? [] : [withoutRulesText(report.summary)]),
    ...(hidden > 0 ? [`${plural(hidden, 'more Service')} with findings not shown`] : []),
    ...(groups.length > shown.length ? [`${plural(groups.length - shown.length, 'more group')} of nodes not shown`] : []),
  ];
  const links = linksOf(listed);
  const found = foundByService(report);
  const whole = shown.some(group => cells.hasOwn(group))
    ? [
        rowHtml('(the node itself)', found.get('') ?? '', [
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
${withFindingsFirst(rows, found).map(service =>
  rowHtml(service, found.get(service) ?? '', [
    ...(cells.hasApi ? [cellHtml(cells.ofApi(service), links(null))] : []),
    ...shown.map(group => cellHtml(cells.ofService(group, service), links(group))),
  ]),
)}
</tbody></table></div>
${isLong(legend) ? html`<details><summary>Names of the nodes</summary><div>${legend.map(line => html`<p>${line}</p>`)}</div></details>` : nothing}
${notes.map(note => html`<p class="note">${note}</p>`)}
${folded.length === 0 ? nothing : fineHtml(folded, causedText(folded.length))}
${fine.length === 0 ? nothing : fineHtml(fine, fineText(report, cells, fine.length))}
</section>`;
}

/** The names of many nodes are folded. */
function isLong(legend: readonly string[]): boolean {
  return legend.join('').length > 300;
}

function withFindingsFirst(rows: readonly string[], found: ReadonlyMap<string, string>): readonly string[] {
  return [...rows.filter(service => found.has(service)), ...rows.filter(service => !found.has(service))];
}

/** Services without findings: their names only. */
function fineHtml(services: readonly string[], title: string): Html {
  const rest = services.length > maxNames ? `, and ${services.length - maxNames} more` : '';
  return html`<details><summary>${title}</summary><div>${services.slice(0, maxNames).join(', ')}${rest}</div></details>`;
}

const maxNames = 2000;
const maxColumns = 30;
const maxRows = 300;

function columnHtml(group: NodeGroup, title: string, ranges: NodeRanges): Html {
  const {nodes} = group;
  const names = nodes.slice(0, 20).join(', ') + (nodes.length > 20 ? `, and ${nodes.length - 20} more` : '');
  return html`<th scope="col" title="${names}" data-nodes="${ranges.of(nodes)}">${title}</th>`;
}

function rowHtml(service: string, found: string, cells: readonly Html[]): Html {
  return html`<tr data-service="${service}" data-found="${found}"><th scope="row">${service}</th>${cells}</tr>`;
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
  const content = parts.reduce(
    (done, part) =>
      html`${done}${linked(
        part,
        findings.find(({code}) => code === part),
      )}`,
    nothing,
  );
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
