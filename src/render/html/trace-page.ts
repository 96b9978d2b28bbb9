import {filtersHtml} from './filters.ts';
import {findingsHtml, listFindings} from './finding-list.ts';
import {html} from './html.ts';
import {NodeRanges} from './node-ranges.ts';
import {nodesHtml} from './node-table.ts';
import {reportPage} from './page.ts';
import {picturesHtml} from './paths.ts';
import type {Renderer} from '../renderer.ts';

/** The pictures and findings of `trace` as one file, without any other. */
export const traceHtml: Renderer = (report, options) => {
  const {quiet, verbose} = options;
  const places = {ranges: new NodeRanges(report), pathOf: () => null};
  const pictures = picturesHtml(report, '', {all: verbose, max: maxPictures});
  const body = [
    ...(quiet ? [] : [html`<section id="paths"><h2>Packet paths</h2>${pictures}</section>`]),
    filtersHtml(report),
    findingsHtml(listFindings(report.findings), places),
    nodesHtml(report),
  ];
  return reportPage(report, options, {title: 'Packet paths', body});
};

/** Without -v. */
const maxPictures = 60;
