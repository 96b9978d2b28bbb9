import {markup} from '../markup.ts';
import type {Picture} from './picture.ts';
import type {PlacedBar, PlacedBox, PlacedText} from './picture-boxes.ts';
import type {PictureLayout, PlacedLine} from './picture-layout.ts';

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
const barHeight = 10;

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
