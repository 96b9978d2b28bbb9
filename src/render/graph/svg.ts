import {namespacedName} from '../../model/text.ts';
import {markup} from '../markup.ts';
import type {Renderer} from '../renderer.ts';
import {pictureHeading} from './graph-languages.ts';
import {barHeight, letter, type PlacedBar, type PlacedBox, type PlacedText, wrapLetters} from './picture-boxes.ts';
import {fullBar, layOutPicture, narrow, type PictureLayout, type PictureShape, type PlacedLine, wide} from './picture-layout.ts';
import {type Picture, picturesOf} from './picture.ts';

/**
 * One picture: the verdict and the findings, and below them the paths. It brings its colors with it, for light and for dark surroundings.
 * It is drawn twice, and a narrow window such as that of a phone shows the second drawing. Programs that know no media queries show the first.
 */
export const svg: Renderer = (report, {verbose}) => {
  const pictures = picturesOf(report, {all: verbose});
  const heading = pictureHeading(report);
  const drawn = {heading, pictures, full: fullBar(report.traces)};
  const [beside, below] = [draw(drawn, wide), draw(drawn, narrow)];
  return [
    // Without a viewBox, so that each drawing has its own.
    `<svg xmlns="http://www.w3.org/2000/svg" class="paths" width="${beside.width}" height="${beside.height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${markup(`Packet path to ${report.services.map(namespacedName).join(', ')}`)}</title>`,
    `<desc id="desc">${markup(pictures.map(picture => `${picture.title}: ${pictureSummary(picture)}`).join(' '))}</desc>`,
    `<style>${graphStyle}${windowStyle(beside, below)}</style>`,
    drawingMarkup(beside, 'wide'),
    drawingMarkup(below, 'narrow'),
    '</svg>',
  ].join('\n');
};

interface Drawing {
  readonly width: number;
  readonly height: number;
  readonly parts: readonly string[];
}

function draw(
  {heading, pictures, full}: {readonly heading: readonly string[]; readonly pictures: readonly Picture[]; readonly full: number},
  shape: PictureShape,
): Drawing {
  // Captions are a little larger than the text in boxes.
  const maxLetters = Math.floor(shape.width / (letter.width * 1.08));
  let top = margin;
  const textLines = (text: string, name: string): readonly string[] =>
    wrapLetters(text, maxLetters).map(line => {
      top += lineHeight;
      return `<text class="${name}" x="${margin}" y="${top - 5}">${markup(line)}</text>`;
    });
  const parts = [
    ...heading.flatMap((line, index) => textLines(line, index === 0 ? 'caption' : 'heading')),
    ...pictures.flatMap(picture => {
      top += pictureGap;
      const title = textLines(picture.title, 'caption');
      const layout = layOutPicture(picture, shape, full);
      const at = top + titleGap;
      top = at + layout.height;
      return [...title, `<g transform="translate(${margin} ${at})">`, pictureMarkup(layout), '</g>'];
    }),
  ];
  return {width: shape.width + 2 * margin, height: Math.ceil(top + margin), parts};
}

function drawingMarkup({width, height, parts}: Drawing, name: 'wide' | 'narrow'): string {
  return [
    `<svg class="${name}" width="100%" height="100%" viewBox="0 0 ${width} ${height}">`,
    `<rect class="ground" width="${width}" height="${height}"/>`,
    ...parts,
    '</svg>',
  ].join('\n');
}

/**
 * A page that embeds the file as an image gives it the proportions of the wide drawing, in which the narrow one would be tiny. A phone opens
 * a file without a viewport of its own in a window of 980 pixels: there the width of the screen counts.
 */
function windowStyle(beside: Drawing, below: Drawing): string {
  const ratio = beside.width / beside.height;
  const proportions = [`(max-aspect-ratio: ${(ratio * 0.96).toFixed(4)})`, `(min-aspect-ratio: ${(ratio * 1.04).toFixed(4)})`];
  const where = (condition: string): string => proportions.map(each => `${condition} and ${each}`).join(', ');
  const [inWindow, onPhone] = [`(max-width: ${maxNarrow}px)`, `(max-device-width: ${maxPhone}px)`];
  return `svg.paths { width: 100%; max-width: ${beside.width}px; height: auto; aspect-ratio: ${beside.width} / ${beside.height}; background: var(--ground) }
svg.narrow { display: none }
@media ${where(inWindow)}, ${where(onPhone)} {
  svg.paths { max-width: ${Math.round(below.width * 1.3)}px; aspect-ratio: ${below.width} / ${below.height} }
  svg.wide { display: none }
  svg.narrow { display: inline }
}
@media ${where(onPhone)} {
  svg.paths { max-width: none }
}
`;
}

/** In pixels. Pages of `-o html` change their layout at the same width. */
const maxNarrow = 940;
const maxPhone = 600;
const margin = 12;
const lineHeight = 21;
const pictureGap = 18;
const titleGap = 8;

/** The elements of a picture after its layout. Their classes are those of `graphStyle`. No information is in the color alone. */
export function pictureMarkup({boxes, lines, note}: PictureLayout): string {
  return [...lines.map(lineMarkup), ...boxes.map(boxMarkup), ...(note === null ? [] : [textMarkup(note)])].join('\n');
}

/** A sentence for each path, for screen readers. */
export function pictureSummary({alerts, paths}: Picture): string {
  const sentences = paths.map(({sources, ends}) => {
    const from = sources
      .map(([entry, ...rules]) => [`${entry?.title} ${entry?.lines[0] ?? ''}`, ...rules.map(words)].join(', '))
      .join('; ');
    const to = ends.slice(0, maxEnds).map(words);
    const rest = ends.length > maxEnds ? [`and ${ends.length - maxEnds} more`] : [];
    return ends.length === 0 ? `${from}.` : `${from}: ${[...to, ...rest].join('; ')}.`;
  });
  return [...alerts.map(alert => `${alert}.`), ...sentences].join(' ');
}

const maxEnds = 8;

function words({title, fault, share}: Picture['paths'][number]['ends'][number]): string {
  return [title, share === null ? '' : `${Math.round(share.actual * 1000) / 10}%`, fault].filter(part => part !== '').join(' ');
}

function lineMarkup({path, isFault, head}: PlacedLine): string {
  const fault = isFault ? ' fault' : '';
  const tip = head === null ? '' : `<path class="head${fault}" d="M${head.x} ${head.y} ${tips[head.to]} z"/>`;
  return `<path class="arrow${fault}" d="${path}"/>${tip}`;
}

const tips = {right: 'l-8 -4 v8', down: 'l-4 -8 h8'} as const;

function boxMarkup({kind, isFault, isOk, x, y, width, height, texts, bar, rules}: PlacedBox): string {
  return [
    `<g class="${kind}${isFault ? ' fault' : ''}${isOk ? ' ok' : ''}">`,
    ...(rules.length === 0 ? [] : [`<title>${rules.map(markup).join('\n')}</title>`]),
    `<rect class="box" x="${px(x)}" y="${px(y)}" width="${px(width)}" height="${px(height)}" rx="${corners[kind]}"/>`,
    ...texts.map(textMarkup),
    ...(bar === null ? [] : [barMarkup(bar)]),
    '</g>',
  ].join('');
}

const corners = {entry: 14, rule: 0, endpoint: 6, end: 6, alert: 0} as const satisfies Record<PlacedBox['kind'], number>;

function barMarkup({x, y, width, filled, expected}: PlacedBar): string {
  const rect = (name: string, length: number): string =>
    `<rect class="${name}" x="${px(x)}" y="${px(y)}" width="${px(length)}" height="${barHeight}"/>`;
  const tick = expected === null ? '' : `<path class="expected" d="M${px(x + expected)} ${px(y - 3)} v${barHeight + 6}"/>`;
  return `${rect('track', width)}${filled > 0 ? rect('bar', filled) : ''}${tick}`;
}

function textMarkup({kind, x, y, text}: PlacedText): string {
  return `<text class="${kind}" x="${px(x)}" y="${px(y)}">${markup(text)}</text>`;
}

function px(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** The colors and lines of pictures, as CSS. Faults are dashed and have a sign and a word as well as being red. */
export const graphStyle = `
:root { --ground: #fff; --ink: #1b1f24; --soft: #59636e; --line: #7d8590; --box: #f6f8fa; --bad: #b3261e; --bad-box: #fdeceb; --good: #1a7f37; --bar: #0b5cad; --track: #e1e5ea }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0d1117; --ink: #e6edf3; --soft: #9da7b1; --line: #6e7681; --box: #161b22; --bad: #ff8b82; --bad-box: #3b1715; --good: #56d364; --bar: #79b8ff; --track: #30363d }
}
svg text { fill: var(--ink); font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; white-space: pre }
svg text.caption { font-weight: bold; font-size: 14px }
svg text.title, svg text.share, svg text.fault { font-weight: bold }
svg text.share { text-anchor: end }
svg text.line, svg text.note { fill: var(--soft) }
svg .fault text.fault { fill: var(--bad) }
svg .fault text.line { fill: var(--ink) }
svg rect.box { fill: var(--box); stroke: var(--line) }
svg rect.ground { fill: var(--ground); stroke: none }
svg .ok rect.box { stroke: var(--good) }
svg .fault rect.box { fill: var(--bad-box); stroke: var(--bad); stroke-width: 1.6; stroke-dasharray: 5 3 }
svg rect.track { fill: var(--track); stroke: none }
svg rect.bar { fill: var(--bar); stroke: none }
svg .fault rect.bar { fill: var(--bad) }
svg .expected { stroke: var(--ink); stroke-width: 2 }
svg .arrow { fill: none; stroke: var(--line); stroke-width: 1.4 }
svg .head { fill: var(--line) }
svg .arrow.fault { stroke: var(--bad); stroke-dasharray: 5 3 }
svg .head.fault { fill: var(--bad) }
`;
