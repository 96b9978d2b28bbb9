import type {Report} from '../../model/report.ts';
import {graphStyle} from './graph-style.ts';
import {markup} from '../markup.ts';
import {letter} from './picture-boxes.ts';
import {pictureHeading} from './picture-heading.ts';
import {layOutPicture, wide} from './picture-layout.ts';
import {pictureMarkup, pictureSummary} from './picture-markup.ts';
import {picturesOf} from './picture.ts';
import type {Renderer} from '../renderer.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {wrapLetters} from './wrap-letters.ts';

/** One picture: the verdict and the findings, and below them the paths. It brings its colors with it, for light and for dark surroundings. */
export const svg: Renderer = (report, {verbose}) => {
  const pictures = picturesOf(report, {all: verbose});
  let top = margin;
  const textLines = (text: string, name: string): readonly string[] =>
    wrapLetters(text, maxLetters).map(line => {
      top += lineHeight;
      return `<text class="${name}" x="${margin}" y="${top - 5}">${markup(line)}</text>`;
    });
  const heading = pictureHeading(report).flatMap((line, index) => textLines(line, index === 0 ? 'caption' : 'heading'));
  const parts = pictures.flatMap(picture => {
    top += pictureGap;
    const title = textLines(picture.title, 'caption');
    const layout = layOutPicture(picture, wide);
    const at = top + titleGap;
    top = at + layout.height;
    return [...title, `<g transform="translate(${margin} ${at})">`, pictureMarkup(layout), '</g>'];
  });
  const [width, height] = [wide.width + 2 * margin, Math.ceil(top + margin)];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${markup(titleOf(report))}</title>`,
    `<desc id="desc">${markup(pictures.map(picture => `${picture.title}: ${pictureSummary(picture)}`).join(' '))}</desc>`,
    `<style>${graphStyle}svg { max-width: 100%; height: auto }</style>`,
    `<rect class="ground" width="${width}" height="${height}"/>`,
    ...heading,
    ...parts,
    '</svg>',
  ].join('\n');
};

const margin = 12;
const lineHeight = 21;
const pictureGap = 18;
const titleGap = 8;
/** Of a caption, which is a little larger than the words in boxes. */
const maxLetters = Math.floor(wide.width / (letter.width * 1.08));

function titleOf({services}: Report): string {
  return `Packet path to ${services.map(namespacedName).join(', ')}`;
}
