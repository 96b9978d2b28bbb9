import type {Report} from '../../model/report.ts';
import {graphStyle} from './graph-style.ts';
import {markup} from '../markup.ts';
import {letter} from './picture-boxes.ts';
import {pictureHeading} from './picture-heading.ts';
import {layOutPicture, narrow, type PictureShape, wide} from './picture-layout.ts';
import {pictureMarkup, pictureSummary} from './picture-markup.ts';
import {type Picture, picturesOf} from './picture.ts';
import type {Renderer} from '../renderer.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {wrapLetters} from './wrap-letters.ts';

/**
 * One picture: the verdict and the findings, and below them the paths. It brings its colors with it, for light and for dark surroundings.
 * It is drawn twice, and a narrow window such as that of a phone shows the second drawing. Programs that know no media queries show the first.
 */
export const svg: Renderer = (report, {verbose}) => {
  const pictures = picturesOf(report, {all: verbose});
  const heading = pictureHeading(report);
  const [beside, below] = [draw({heading, pictures}, wide), draw({heading, pictures}, narrow)];
  return [
    // Without a viewBox, so that each drawing has its own.
    `<svg xmlns="http://www.w3.org/2000/svg" class="paths" width="${beside.width}" height="${beside.height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${markup(titleOf(report))}</title>`,
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
  {heading, pictures}: {readonly heading: readonly string[]; readonly pictures: readonly Picture[]},
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
      const layout = layOutPicture(picture, shape);
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

function titleOf({services}: Report): string {
  return `Packet path to ${services.map(namespacedName).join(', ')}`;
}
