import type {Report} from '../../model/report.ts';

/** Nodes by their index in the report, as ranges such as `0-3 7`, which are short even for hundreds of nodes. */
export class NodeRanges {
  readonly #places: ReadonlyMap<string, number>;

  constructor({nodes}: Report) {
    this.#places = new Map(nodes.map(({name}, index) => [name, index]));
  }

  of(nodes: readonly string[]): string {
    const places = [...new Set(nodes.flatMap(node => this.#places.get(node) ?? []))].sort((a, b) => a - b);
    const ranges: {first: number; last: number}[] = [];
    for (const place of places) {
      const range = ranges.at(-1);
      if (range !== undefined && range.last === place - 1) range.last = place;
      else ranges.push({first: place, last: place});
    }
    return ranges.map(({first, last}) => (first === last ? `${first}` : `${first}-${last}`)).join(' ');
  }
}
