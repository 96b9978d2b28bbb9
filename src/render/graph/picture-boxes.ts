import {percent} from '../trace-words.ts';
import type {PictureBox} from './picture.ts';

export interface PlacedBox {
  readonly kind: PictureBox['kind'] | 'alert';
  readonly isFault: boolean;
  /** Compared, and in sync. A rule that was compared with nothing is neither in sync nor faulty. */
  readonly isOk: boolean;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly texts: readonly PlacedText[];
  readonly bar: PlacedBar | null;
  readonly rules: readonly string[];
}

export interface PlacedText {
  readonly kind: 'title' | 'line' | 'fault' | 'share' | 'note';
  /** Where its baseline begins; for a share, where it ends. */
  readonly x: number;
  readonly y: number;
  readonly text: string;
}

/** A bar whose length is the share of an endpoint, on a track with the length of a full bar. */
export interface PlacedBar {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly filled: number;
  /** Where the bar should end; null if it ends there. */
  readonly expected: number | null;
}

/** The width of a letter in a monospaced font of 13 pixels, with some room because fonts differ. */
export const letter = {width: 7.9, height: 18} as const;

const padding = 10;
const signWidth = 18;

/** A finding across the whole width. */
export function alertBox(alert: string): AnyBox {
  return {kind: 'alert', sign: '✗', title: '', lines: [], fault: alert, share: null, rules: []};
}

interface BoxPlace {
  readonly x: number;
  readonly width: number;
  /** How the share is drawn. */
  readonly bar: {readonly full: number; readonly isBeside: boolean} | null;
}

type AnyBox = Omit<PictureBox, 'kind'> & {readonly kind: PlacedBox['kind']};

/** A box as high as its text, with its top at 0. */
export function boxAt(box: AnyBox, {x, width, bar}: BoxPlace): PlacedBox {
  const textX = x + padding + signWidth;
  const barRoom = bar?.isBeside === true && box.share !== null ? barWidth + shareWidth : 0;
  const room = width - 2 * padding - signWidth;
  const letters = Math.floor(room / letter.width);
  const besideBar = Math.floor((room - barRoom) / letter.width);
  const lines = [
    ...(box.title === '' ? [] : wrapLetters(box.title, besideBar).map(text => ({kind: 'title' as const, text}))),
    ...(box.fault === '' ? [] : wrapLetters(box.fault, letters).map(text => ({kind: 'fault' as const, text}))),
    ...box.lines.flatMap(line => wrapLetters(line, letters).map(text => ({kind: 'line' as const, text}))),
  ];
  const texts = lines.map((line, index): PlacedText => ({...line, x: textX, y: baseline(index)}));
  const sign: readonly PlacedText[] =
    box.sign === '' ? [] : [{kind: box.fault === '' ? 'line' : 'fault', x: x + padding, y: baseline(0), text: box.sign}];
  const ownLine = bar !== null && box.share !== null && !bar.isBeside ? 1 : 0;
  const barX = bar?.isBeside === true ? x + width - padding - barWidth : textX;
  const narrowBar = width - 2 * padding - signWidth - shareWidth;
  const drawn = bar === null || box.share === null ? null : {share: box.share, full: bar.full, isBeside: bar.isBeside};
  const barLine = ownLine === 1 ? lines.length : 0;
  const placedBar =
    drawn === null ? null : barOf(drawn.share, {full: drawn.full, x: barX, line: barLine, width: drawn.isBeside ? barWidth : narrowBar});
  const shareText: readonly PlacedText[] =
    drawn === null
      ? []
      : [{kind: 'share', x: drawn.isBeside ? barX - 8 : x + width - padding, y: baseline(barLine), text: percent(drawn.share.actual)}];
  return {
    kind: box.kind,
    isFault: box.fault !== '',
    isOk: box.sign === '✓',
    x,
    y: 0,
    width,
    rules: box.rules,
    height: (lines.length + ownLine) * letter.height + 2 * verticalPadding,
    texts: [...sign, ...texts, ...shareText],
    bar: placedBar,
  };
}

const barWidth = 96;
const shareWidth = 62;
const verticalPadding = 6;
export const barHeight = 10;

function baseline(line: number): number {
  return verticalPadding + letter.height * line + 13;
}

function barOf(
  share: NonNullable<PictureBox['share']>,
  {full, x, line, width}: {readonly full: number; readonly x: number; readonly line: number; readonly width: number},
): PlacedBar {
  const length = (part: number): number => Math.round(Math.min(1, part / full) * width * 10) / 10;
  const isAsExpected = share.expected === null || percent(share.expected) === percent(share.actual);
  return {
    x,
    width,
    y: verticalPadding + letter.height * line + (letter.height - barHeight) / 2,
    filled: length(share.actual),
    expected: isAsExpected ? null : length(share.expected ?? 0),
  };
}

/**
 * Wraps text at `max` columns of a monospaced font: at blanks; in a longer word after a character that joins the parts of a name, such as
 * a hyphen; else anywhere. Nothing is left out.
 */
export function wrapLetters(text: string, max: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const part of partsOf(text, max)) {
    if (line !== '' && columnsOf(line + part.trimEnd()) > max) {
      lines.push(line.trimEnd());
      line = part;
    } else line += part;
  }
  return line.trimEnd() === '' && lines.length > 0 ? lines : [...lines, line.trimEnd()];
}

/** Words with the blanks after them; a word that is wider than a line is divided into the parts of the name. */
function partsOf(text: string, max: number): readonly string[] {
  const words = text.match(/\S*\s+|\S+/gu) ?? [];
  return words.flatMap(word => {
    if (columnsOf(word.trimEnd()) <= max) return [word];
    return (word.match(/[^/.,:_-]*[/.,:_-]|[^/.,:_-]+/gu) ?? []).flatMap(part => pieces(part, max));
  });
}

function pieces(part: string, max: number): readonly string[] {
  const all: string[] = [];
  let piece = '';
  for (const letter of part) {
    if (columnsOf(piece + letter) > max) {
      all.push(piece);
      piece = letter;
    } else piece += letter;
  }
  return [...all, piece];
}

/**
 * How many letters wide a text is: letters that are drawn on a square take two columns.
 * @internal
 */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const letter of text) columns += isWide.test(letter) ? 2 : 1;
  return columns;
}

const isWide = /\p{Extended_Pictographic}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u;
