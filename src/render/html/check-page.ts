import {type DrawnPath, faultyPaths, pathHtml} from './paths.ts';
import {filtersHtml} from './filters.ts';
import {findingsHtml, listFindings} from './finding-list.ts';
import {type Html, html as template, nothing} from './html.ts';
import {matrixHtml} from './matrix-table.ts';
import {NodeRanges} from './node-ranges.ts';
import {nodesHtml} from './node-table.ts';
import {page} from './page.ts';
import {summaryHtml} from './summary.ts';
import type {Renderer} from '../renderer.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** The whole of a report in one page that needs nothing else: for a browser, for paper, to be sent around. */
export const html: Renderer = (report, {quiet}) => {
  const ranges = new NodeRanges(report);
  const found = listFindings(report.findings);
  const ways = faultyPaths(report);
  const pathIds = new Map(ways.drawn.map(({service, id}) => [service, id]));
  return page(report, 'Services', [
    summaryHtml(report),
    filtersHtml(report),
    ...(quiet ? [] : [matrixHtml(report, found.listed, ranges)]),
    findingsHtml(found, {ranges, pathOf: service => (service === undefined ? null : (pathIds.get(namespacedName(service)) ?? null))}),
    pathsHtml(ways),
    nodesHtml(report),
  ]);
};

function pathsHtml({drawn, hidden}: {readonly drawn: readonly DrawnPath[]; readonly hidden: number}): Html {
  if (drawn.length === 0) return nothing;
  return template`<section id="ways"><h2>The way of packets</h2>
<p class="note">Of Services with errors or warnings, on the nodes where these were found.${hidden === 0 ? '' : ` ${hidden} more such Services are not drawn; trace shows them.`}</p>
${drawn.map(way => pathHtml(way, {all: false}))}
</section>`;
}
