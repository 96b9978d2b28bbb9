import type {PortTrace} from '../../model/service-trace.ts';
import {percent} from '../trace-words.ts';
import type {Picture, PicturePath} from './picture.ts';
import {alertBox, boxAt, letter, type PlacedBox, type PlacedText} from './picture-boxes.ts';

/** A picture with a place for everything, in pixels from its upper left corner. */
export interface PictureLayout {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly PlacedBox[];
  readonly lines: readonly PlacedLine[];
  /** What a full bar stands for; null without bars. */
  readonly note: PlacedText | null;
}

export interface PlacedLine {
  /** The `d` of an SVG path. */
  readonly path: string;
  readonly isFault: boolean;
  /** The tip of its arrowhead and its direction; null for a line without one. */
  readonly head: {readonly x: number; readonly y: number; readonly to: 'right' | 'down'} | null;
}

/** Clients to the left of endpoints, or above them if the width is too small for both. */
export interface PictureShape {
  readonly width: number;
  readonly isNarrow: boolean;
}

export const wide: PictureShape = {width: 1120, isNarrow: false};
/** For the 390 pixels of a phone, less the margins of a page. */
export const narrow: PictureShape = {width: 350, isNarrow: true};

/** `full` is what a full bar stands for, in all pictures of a report. */
export function layOutPicture(picture: Picture, shape: PictureShape, fullShare: number): PictureLayout {
  const full = picture.paths.some(({ends}) => ends.some(({share}) => share !== null)) ? fullShare : null;
  const alerts = stack(picture.alerts.map(alert => boxAt(alertBox(alert), {x: 0, width: shape.width, bar: null})));
  const boxes = [...alerts.boxes];
  const lines: PlacedLine[] = [];
  let top = alerts.height === 0 ? 0 : alerts.height + pathGap;
  for (const path of picture.paths) {
    const placed = placePath(path, {top, shape, full});
    boxes.push(...placed.boxes);
    lines.push(...placed.lines);
    top += placed.height + pathGap;
  }
  const note = full === null ? null : noteText(full, top, shape);
  const height = note === null ? top - pathGap : note.y + letter.height / 2;
  return {width: shape.width, height: Math.max(0, height), boxes, lines, note};
}

const boxGap = 10;
const pathGap = 24;

/** What a full bar stands for in all pictures of these traces: a round number, no less than the largest share. */
export function fullBar(traces: readonly PortTrace[]): number {
  let largest = 0;
  for (const {entries} of traces)
    for (const {endpoints} of entries)
      for (const {share, expectedShare} of endpoints) largest = Math.max(largest, share ?? 0, expectedShare ?? 0);
  return roundShares.findLast(round => round >= largest - 0.0005) ?? 1;
}

const roundShares = [1, 0.5, 0.25, 0.1, 0.05, 0.025, 0.01] as const;

function noteText(full: number, top: number, {width, isNarrow}: PictureShape): PlacedText {
  const text = isNarrow ? `A full bar is ${percent(full)} of connections.` : `A full bar is ${percent(full)} of new connections.`;
  return {kind: 'note', x: isNarrow ? 0 : width - text.length * letter.width, y: top - pathGap + letter.height + 4, text};
}

/**
 * A line from every client to a rail, and from there an arrow to every endpoint: beside the clients with the rail between them, or below
 * them with the rail at the left margin. Packets end at a faulty rule. `full` is that of the bars.
 */
function placePath(
  {sources, ends}: PicturePath,
  {top, shape: {width, isNarrow}, full}: {readonly top: number; readonly shape: PictureShape; readonly full: number | null},
) {
  const right = isNarrow ? railRoom : columns.left + columns.gap;
  const clients = sourceStack(sources, isNarrow ? {x: right, width: width - right} : {x: 0, width: columns.left});
  const bar = full === null ? null : {full, isBeside: !isNarrow};
  const {boxes, height} = stack(ends.map(end => boxAt(end, {x: right, width: width - right, bar})));
  const below = clients.height + boxGap * 2;
  // Long lists of endpoints begin beside their clients.
  const [clientsTop, endsTop] = isNarrow ? [0, below] : [offset(clients.height, height), offset(height, clients.height)];
  const placedClients = at(clients.boxes, top + clientsTop);
  const placedEnds = at(boxes, top + endsTop);
  const railX = isNarrow ? railRoom / 2 - 3 : columns.left + columns.gap / 2;
  const exits = clients.exits.map(index => placedClients[index]).filter(box => box !== undefined);
  const lines = [
    ...chainLines(placedClients, clients.exits),
    ...(ends.length === 0 ? [] : exits).map(box => straight({x: box.x + (isNarrow ? 0 : box.width), y: middle(box)}, railX, box.isFault)),
    ...rail(railX, exits.map(middle), placedEnds.map(middle)),
    ...placedEnds.map(box => straight({x: railX, y: middle(box)}, box.x, box.isFault, isReached(box))),
  ];
  const heightBelow = height === 0 ? clients.height : below + height;
  return {boxes: [...placedClients, ...placedEnds], lines, height: isNarrow ? heightBelow : Math.max(clients.height, height)};
}

const columns = {left: 400, gap: 80} as const;

function offset(height: number, room: number): number {
  return Math.max(0, Math.min((room - height) / 2, maxOffset));
}

const maxOffset = 120;
const railRoom = 26;

/** An endpoint without a share gets no packets. */
function isReached({bar}: PlacedBox): boolean {
  return bar === null || bar.filled > 0;
}

function middle({y, height}: PlacedBox): number {
  return Math.round(y + height / 2);
}

function rail(x: number, starts: readonly number[], ends: readonly number[]): readonly PlacedLine[] {
  const all = ends.length === 0 ? [] : [...starts, ...ends];
  const [first, last] = [Math.min(...all), Math.max(...all)];
  return all.length === 0 || first === last ? [] : [{path: `M${x} ${first} V${last}`, isFault: false, head: null}];
}

function straight(from: {readonly x: number; readonly y: number}, to: number, isFault: boolean, hasHead = false): PlacedLine {
  return {path: `M${from.x} ${from.y} H${hasHead ? to - 7 : to}`, isFault, head: hasHead ? {x: to, y: from.y, to: 'right'} : null};
}

/** From a client down to the third-party rules that its packets meet. */
function chainLines(boxes: readonly PlacedBox[], exits: readonly number[]): readonly PlacedLine[] {
  return boxes.slice(1).flatMap((box, index) => {
    const above = boxes[index];
    if (above === undefined || exits.includes(index)) return [];
    const x = box.x + 24;
    return [{path: `M${x} ${above.y + above.height} V${box.y - 7}`, isFault: box.isFault, head: {x, y: box.y, to: 'down' as const}}];
  });
}

interface Stack {
  /** From the top of the stack. */
  readonly boxes: readonly PlacedBox[];
  readonly height: number;
}

function stack(boxes: readonly PlacedBox[]): Stack {
  let y = 0;
  const placed = boxes.flatMap(box => {
    const own = at([box], y);
    y += box.height + boxGap;
    return own;
  });
  return {boxes: placed, height: Math.max(0, y - boxGap)};
}

/** Clients, each with its rules below it. `exits` are the boxes from which packets go on. */
function sourceStack(
  sources: PicturePath['sources'],
  column: {readonly x: number; readonly width: number},
): Stack & {readonly exits: readonly number[]} {
  const boxes: PlacedBox[] = [];
  const exits: number[] = [];
  let y = 0;
  for (const source of sources) {
    for (const [index, box] of source.entries()) {
      const placed = boxAt(box, {...column, bar: null});
      boxes.push(...at([placed], y));
      y += placed.height + (index === source.length - 1 ? boxGap : ruleGap);
    }
    exits.push(boxes.length - 1);
  }
  return {boxes, exits, height: Math.max(0, y - boxGap)};
}

const ruleGap = 20;

function at(boxes: readonly PlacedBox[], y: number): PlacedBox[] {
  return boxes.map(box => ({
    ...box,
    y: box.y + y,
    texts: box.texts.map(text => ({...text, y: text.y + y})),
    bar: box.bar === null ? null : {...box.bar, y: box.bar.y + y},
  }));
}
