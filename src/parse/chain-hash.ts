/** For tables of chains: rows of numbers, found by the hashes of names (`ChainRows`). */

/** The hash of a name that is in these bytes: FNV-1a, with the high bits mixed into the low ones, which choose the slot. */
export function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5;
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ (bytes[at] ?? 0), 0x01000193);
  return hash ^ (hash >>> 15);
}

/** The same of a name that is a string. */
export function hashOfName(name: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
  return hash ^ (hash >>> 15);
}

export function doubled(rows: Int32Array): Int32Array<ArrayBuffer> {
  const more = new Int32Array(2 * rows.length);
  more.set(rows);
  return more;
}
