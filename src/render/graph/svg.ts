import type {Report} from '../../model/report.ts';
import {graphStyle} from './graph-style.ts';
import {layOut} from './graph-layout.ts';
import {graphMarkup} from './graph-markup.ts';
import {markup} from '../markup.ts';
import {pictureHeading} from './picture-heading.ts';
import type {Renderer} from '../renderer.ts';
import {traceGraphs} from './trace-graph.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** One picture: the verdict and the findings, and below them the graphs. It brings its colours with it, for light and for dark surroundings. */
export const svg: Renderer = (report, {verbose}) => {
  const drawn = traceGraphs(report.traces, {all: verbose}).map(graph => ({graph, layout: layOut(graph)}));
  const heading = pictureHeading(report);
  let top = headHeight + (heading.length - 1) * lineHeight;
  const parts = drawn.flatMap(({graph, layout}) => {
    const at = top;
    top += layout.height + titleHeight;
    return [
      `<g transform="translate(0 ${at})">`,
      `<text class="title" x="8" y="18">${markup(graph.title)}</text>`,
      `<g transform="translate(0 ${titleHeight - 8})">${graphMarkup(layout)}</g>`,
      '</g>',
    ];
  });
  const titles = [...heading, ...drawn.map(({graph}) => graph.title)].map(({length}) => length * letterWidth + 16);
  const width = Math.ceil(Math.max(...titles, ...drawn.map(({layout}) => layout.width)));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${top}" viewBox="0 0 ${width} ${top}" role="img">`,
    `<title>${markup(titleOf(report))}</title>`,
    `<style>${graphStyle}</style>`,
    `<rect class="ground" width="${width}" height="${top}"/>`,
    ...heading.map(
      (line, index) => `<text class="${index === 0 ? 'title' : 'heading'}" x="8" y="${22 + index * lineHeight}">${markup(line)}</text>`,
    ),
    ...parts,
    '</svg>',
  ].join('\n');
};

const headHeight = 36;
const lineHeight = 20;
const titleHeight = 30;
/** Of a title, at most. */
const letterWidth = 8.5;

function titleOf({services}: Report): string {
  return `Packet path to ${services.map(namespacedName).join(', ')}`;
}
