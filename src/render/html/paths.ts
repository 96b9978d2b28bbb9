import type {Report} from '../../model/report.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import {fullBar, layOutPicture, narrow, type PictureShape, wide} from '../graph/picture-layout.ts';
import {pictureMarkup, pictureSummary} from '../graph/svg.ts';
import {type Picture, type PictureBox, picturesOf} from '../graph/picture.ts';
import type {GraphOptions} from '../graph/trace-graph.ts';
import {type Html, html, made, nothing} from '../markup.ts';
import {pushTo} from '../../model/lists.ts';
import {namespacedName, plural} from '../../model/text.ts';

// Apart from pages.ts: the page for pasted rules (tools/try) draws pictures, and a browser has no node:crypto.

/** The pictures of one Service. */
export interface DrawnPath {
  readonly service: string;
  /** The target of links to it. */
  readonly id: string;
  readonly traces: readonly PortTrace[];
}

/** Traced Services with findings on nodes, the most severe first, as many as a page has room for. */
export function faultyPaths({findings, traces}: Report): {readonly drawn: readonly DrawnPath[]; readonly hidden: number} {
  const byService = new Map<string, PortTrace[]>();
  for (const trace of traces) {
    pushTo(byService, namespacedName(trace.service), trace);
  }
  const faulty = new Set(
    findings.flatMap(({service, severity}) => (service === undefined || severity === 'info' ? [] : [namespacedName(service)])),
  );
  const names = [...faulty].filter(name => byService.has(name));
  const drawn = names
    .slice(0, maxServices)
    .map((service, index) => ({service, id: `path-${index + 1}`, traces: byService.get(service) ?? []}));
  return {drawn, hidden: faulty.size - drawn.length};
}

const maxServices = 24;

export function pathHtml({service, id, traces}: DrawnPath, report: Report, options: GraphOptions): Html {
  const full = fullBar(report.traces);
  return html`<details class="path" data-service="${service}"><summary>${service}</summary>
<div id="${id}">
${picturesHtml({...report, traces}, `${id}-`, {...options, full, max: maxPictures})}
</div></details>`;
}

/**
 * The pictures of the traced Service ports, for as many groups of nodes as there is room for. `id` is the prefix of their element ids.
 * `full`: what a full bar stands for; in all pictures of the report if left out.
 */
export function picturesHtml(report: Report, id: string, options: GraphOptions & {readonly max: number; readonly full?: number}): Html {
  const {full = fullBar(report.traces)} = options;
  const pictures = picturesOf(report, options);
  const shown = options.all ? pictures : pictures.slice(0, options.max);
  const rest = pictures.length - shown.length;
  const more = rest === 0 ? nothing : html`<p class="note">${plural(rest, 'more picture')} not shown: svc-trace trace -v shows all.</p>`;
  return html`${shown.map((picture, index) => figureHtml(picture, full, `${id}picture-${index + 1}`))}${more}`;
}

/** Of one Service. */
const maxPictures = 12;

/** Drawn twice, for wide and for narrow windows. Only one of the two is displayed, printed or read by a screen reader. */
function figureHtml(picture: Picture, full: number, id: string): Html {
  return html`<figure class="picture"><figcaption>${picture.title}</figcaption>
${svgHtml(picture, {shape: wide, full}, `${id}-wide`)}
${svgHtml(picture, {shape: narrow, full}, `${id}-narrow`)}
${rulesHtml(picture)}
</figure>`;
}

function svgHtml(picture: Picture, {shape, full}: {readonly shape: PictureShape; readonly full: number}, id: string): Html {
  const layout = layOutPicture(picture, shape, full);
  // Boxes at the edge need room for their strokes.
  const [width, height] = [layout.width + 2, Math.ceil(layout.height) + 2];
  const name = shape.isNarrow ? 'narrow' : 'wide';
  return html`<svg class="${name}" width="${width}" height="${height}" viewBox="-1 -1 ${width} ${height}" role="img" aria-labelledby="${id}-title" aria-describedby="${id}-desc">
<title id="${id}-title">${picture.title}</title><desc id="${id}-desc">${pictureSummary(picture)}</desc>
${made(pictureMarkup(layout))}
</svg>`;
}

/** The chains and rules of each box, folded. */
function rulesHtml({paths}: Picture): Html {
  const boxes = paths.flatMap(({sources, ends}) => [...sources.flat(), ...ends]).filter(({rules}) => rules.length > 0);
  if (boxes.length === 0) return nothing;
  return html`<details class="rules"><summary>Chains and rules</summary><div><dl>
${boxes.map(box => html`<dt>${boxName(box)}</dt><dd><pre>${box.rules.map(rule => html`${rule}`)}</pre></dd>`)}
</dl></div></details>`;
}

function boxName({sign, title, lines: [first = '']}: PictureBox): string {
  return `${sign === '✗' ? '✗ ' : ''}${title}${first === '' ? '' : `, ${first}`}`;
}
