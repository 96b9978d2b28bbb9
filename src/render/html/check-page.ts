import {type DrawnPath, faultyPaths, pathHtml} from './paths.ts';
import {filtersHtml} from './filters.ts';
import {findingsHtml, listFindings} from './finding-list.ts';
import {type Html, html as template, nothing} from './html.ts';
import {matrixHtml} from './matrix-table.ts';
import {NodeRanges} from './node-ranges.ts';
import {nodesHtml} from './node-table.ts';
import {reportPage} from './page.ts';
import {summaryHtml} from './summary.ts';
import type {Report} from '../../model/report.ts';
import type {Renderer} from '../renderer.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** A complete report as one file, without any other: for a browser, for print, to send to others. */
export const checkPage: Renderer = (report, options) => {
  const ranges = new NodeRanges(report);
  const found = listFindings(report.findings);
  const paths = faultyPaths(report);
  const pathIds = new Map(paths.drawn.map(({service, id}) => [service, id]));
  const body = [
    summaryHtml(report),
    filtersHtml(report),
    ...(options.quiet ? [] : [matrixHtml(report, found.listed, ranges)]),
    findingsHtml(found, {ranges, pathOf: service => (service === undefined ? null : (pathIds.get(namespacedName(service)) ?? null))}),
    pathsHtml(paths, report),
    nodesHtml(report),
  ];
  return reportPage(report, options, {title: 'Services', body});
};

function pathsHtml({drawn, hidden}: {readonly drawn: readonly DrawnPath[]; readonly hidden: number}, report: Report): Html {
  if (drawn.length === 0) return nothing;
  return template`<section id="paths"><h2>Packet paths</h2>
<p class="note">Of Services with errors or warnings, on the nodes with these findings.${hidden === 0 ? '' : ` ${hidden} more such Services are not drawn; svc-trace trace shows them.`}</p>
${drawn.map(path => pathHtml(path, report, {all: false}))}
</section>`;
}
