import {type Layout, letter, maxLetters, type PlacedArrow, type PlacedBox} from './graph-layout.ts';
import {markup} from '../markup.ts';

/** The elements of a graph that is laid out. Their classes are those of `graphStyle`; what they say does not rest on color. */
export function graphMarkup({boxes, arrows}: Layout): string {
  return [...arrows.map(arrowMarkup), ...boxes.map(boxMarkup)].join('\n');
}

function arrowMarkup({path, label, labelAt, isFault}: PlacedArrow): string {
  const fault = isFault ? ' fault' : '';
  const end = path.slice(path.lastIndexOf(' H') + 2);
  const endY = path.slice(0, path.lastIndexOf(' H')).split(' ').at(-1);
  return [
    `<path class="arrow${fault}" d="${path}"/>`,
    `<path class="head${fault}" d="M${end} ${endY} m7 0 l-8 -4 v8 z"/>`,
    ...(label === '' ? [] : [`<text class="label${fault}" x="${labelAt.x}" y="${labelAt.y}">${markup(label)}</text>`]),
  ].join('');
}

function boxMarkup({x, y, width, height, kind, lines, isFault}: PlacedBox): string {
  const round = kind === 'chain' ? 0 : kind === 'entry' ? height / 2 : 6;
  const at = (index: number): number => y + 5 + letter.height * (index + 0.75);
  const isCut = lines.some(({length}) => length > maxLetters);
  return [
    `<g class="${kind}${isFault ? ' fault' : ''}">`,
    ...(isCut ? [`<title>${markup(lines.join(' '))}</title>`] : []),
    `<rect x="${px(x)}" y="${px(y)}" width="${px(width)}" height="${px(height)}" rx="${px(Math.min(round, 14))}"/>`,
    ...lines.map((line, index) => `<text x="${px(x + width / 2)}" y="${px(at(index))}">${markup(shorten(line))}</text>`),
    '</g>',
  ].join('');
}

function px(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** Cut in the middle: names differ at either end. */
function shorten(text: string): string {
  const half = Math.floor((maxLetters - 1) / 2);
  return text.length <= maxLetters ? text : `${text.slice(0, maxLetters - 1 - half)}…${text.slice(-half)}`;
}
