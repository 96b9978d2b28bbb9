/** Values at the paths of a document: `[]` stands for each item of a list, `*` for each value of a map. */
export interface PathTree<T> {
  readonly [name: string]: T | PathTree<T>;
}

/** A value, and the paths that have it: `spec.clusterIPs[]`, or `spec.{type ports[].{port nodePort}}` for several. */
export type PathRow<T> = readonly [value: T | PathTree<T>, paths: string];

export function pathTree<T>(...rows: readonly PathRow<T>[]): PathTree<T> {
  const tree: Record<string, T | PathTree<T>> = {};
  for (const [value, paths] of rows)
    for (const path of spelledOut(paths).trim().split(/\s+/)) {
      const names = path.split(/\.|(?=\[\])/);
      const last = names.pop() ?? '';
      let parent = tree;
      for (const name of names) {
        parent[name] ??= {};
        parent = parent[name] as typeof tree;
      }
      parent[last] = value;
    }
  return tree;
}

function spelledOut(paths: string): string {
  const next = paths.replace(/([^\s{}]*)\{([^{}]*)\}/g, (_, start: string, ends: string) =>
    ends
      .trim()
      .split(/\s+/)
      .map(end => start + end)
      .join(' '),
  );
  return next === paths ? paths : spelledOut(next);
}
