import type {GraphArrow, GraphBox, TraceGraph} from './trace-graph.ts';

/** A graph with a place for everything, in pixels from its upper left corner. */
export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly PlacedBox[];
  readonly arrows: readonly PlacedArrow[];
}

export interface PlacedBox extends GraphBox {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface PlacedArrow extends GraphArrow {
  /** The `d` of an SVG path. */
  readonly path: string;
  /** Where the label begins, on its baseline. */
  readonly labelAt: {readonly x: number; readonly y: number};
}

/** Text is as wide as a monospaced font of 12 pixels makes it. */
export const letter = {width: 7.3, height: 16, small: 6.2} as const;
/** Longer lines are cut by those who draw them. */
export const maxLetters = 46;

const padding = 10;
const rowGap = 14;
const margin = 8;

/** Columns as wide as their widest box, rows as high as the highest, and between columns room for the words on arrows. */
export function layOut({boxes, arrows}: TraceGraph): Layout {
  const columns = columnsOf(boxes, arrows);
  const rowHeight = Math.max(1, ...boxes.map(({lines}) => lines.length)) * letter.height + padding + rowGap;
  const placed = boxes.map((box): PlacedBox => {
    const column = columns.get(box.column) ?? {x: 0, width: 0};
    const height = box.lines.length * letter.height + padding;
    return {...box, height, x: column.x, width: column.width, y: margin + box.row * rowHeight + (rowHeight - height) / 2};
  });
  const places = {boxes: new Map(placed.map(box => [box.id, box])), isFan: leavesWithOthers(arrows)};
  return {
    width: Math.max(0, ...placed.map(({x, width}) => x + width)) + margin,
    height: Math.max(0, ...boxes.map(({row}) => row + 1)) * rowHeight + 2 * margin,
    boxes: placed,
    arrows: arrows.flatMap(arrow => placeArrow(arrow, places)),
  };
}

interface GraphColumn {
  readonly x: number;
  readonly width: number;
}

function columnsOf(boxes: readonly GraphBox[], arrows: readonly GraphArrow[]): ReadonlyMap<number, GraphColumn> {
  const columnOf = new Map(boxes.map(({id, column}) => [id, column]));
  const columns = new Map<number, GraphColumn>();
  let x = margin;
  for (const column of [...new Set(boxes.map(box => box.column))].sort((a, b) => a - b)) {
    const longest = Math.max(...boxes.filter(box => box.column === column).flatMap(({lines}) => lines.map(line => line.length)));
    const width = Math.min(longest, maxLetters) * letter.width + 2 * padding;
    const labels = arrows.filter(({from}) => columnOf.get(from) === column).map(({label}) => label.length);
    columns.set(column, {x, width});
    x += width + 44 + Math.max(0, ...labels) * letter.small;
  }
  return columns;
}

/**
 * An arrow goes straight along a row that is one box's own, so that it crosses no other: where several leave a box it bends first
 * and follows the row of its end, else it follows the row of its start and bends last.
 */
function placeArrow(arrow: GraphArrow, {boxes, isFan}: ArrowPlaces): readonly PlacedArrow[] {
  const [from, to] = [boxes.get(arrow.from), boxes.get(arrow.to)];
  if (from === undefined || to === undefined) return [];
  const start = {x: Math.round(from.x + from.width), y: Math.round(from.y + from.height / 2)};
  const end = {x: Math.round(to.x - arrowHead), y: Math.round(to.y + to.height / 2)};
  const turn = isFan(arrow) ? start.x : end.x - bend;
  const path = `M${start.x} ${start.y} H${turn} C${turn + bend / 2} ${start.y} ${turn + bend / 2} ${end.y} ${turn + bend} ${end.y} H${end.x}`;
  return [{...arrow, path, labelAt: isFan(arrow) ? {x: start.x + bend, y: end.y - 5} : {x: start.x + 8, y: start.y - 5}}];
}

interface ArrowPlaces {
  readonly boxes: ReadonlyMap<string, PlacedBox>;
  readonly isFan: (arrow: GraphArrow) => boolean;
}

const bend = 32;
const arrowHead = 7;

function leavesWithOthers(arrows: readonly GraphArrow[]): (arrow: GraphArrow) => boolean {
  const ends = new Map<string, number>();
  for (const {from} of arrows) ends.set(from, (ends.get(from) ?? 0) + 1);
  return ({from}) => (ends.get(from) ?? 0) > 1;
}
