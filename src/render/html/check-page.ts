import {type DrawnWay, faultyWays, nameOf, wayHtml} from './paths.ts';
import {filtersHtml} from './filters.ts';
import {findingsHtml, listFindings} from './finding-list.ts';
import {type Html, html as template, nothing} from './html.ts';
import {matrixHtml} from './matrix-table.ts';
import {NodeRanges} from './node-ranges.ts';
import {nodesHtml} from './node-table.ts';
import {page} from './page.ts';
import {summaryHtml} from './summary.ts';
import type {Renderer} from '../renderer.ts';

/** The whole of a report in one page that needs nothing else: for a browser, for paper, to be sent around. */
export const html: Renderer = (report, {quiet}) => {
  const ranges = new NodeRanges(report);
  const found = listFindings(report.findings);
  const ways = faultyWays(report);
  const wayIds = new Map(ways.drawn.map(({service, id}) => [service, id]));
  return page(report, 'Services', [
    summaryHtml(report),
    filtersHtml(report),
    ...(quiet ? [] : [matrixHtml(report, found.listed, ranges)]),
    findingsHtml(found, {ranges, wayOf: service => (service === undefined ? null : (wayIds.get(nameOf(service)) ?? null))}),
    waysHtml(ways),
    nodesHtml(report),
  ]);
};

function waysHtml({drawn, hidden}: {readonly drawn: readonly DrawnWay[]; readonly hidden: number}): Html {
  if (drawn.length === 0) return nothing;
  return template`<section id="ways"><h2>The way of packets</h2>
<p class="note">Of Services with errors or warnings, on the nodes where these were found.${hidden === 0 ? '' : ` ${hidden} more such Services are not drawn; trace shows them.`}</p>
${drawn.map(way => wayHtml(way, {all: false}))}
</section>`;
}
