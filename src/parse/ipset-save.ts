/** One set of `ipset save`. */
export interface IpSet {
  readonly name: string;
  /** What an element is made of: `ip`, `net`, `port`, `mac`, `iface`, `set`, `mark`. */
  readonly parts: readonly string[];
  /** Elements, each split at its commas; options such as `timeout 300` are left out. */
  readonly elements: readonly (readonly string[])[];
}

/** Reads what `ipset save` printed. Lines that are neither `create` nor `add` are passed over: they change nothing about members. */
export function parseIpsetSave(text: string): ReadonlyMap<string, IpSet> {
  const sets = new Map<string, {name: string; parts: readonly string[]; elements: string[][]}>();
  for (const line of text.split('\n')) {
    const [word, name = '', third = ''] = line.trim().split(/\s+/);
    if (word === 'create') sets.set(name, {name, parts: (third.split(':')[1] ?? '').split(','), elements: []});
    else if (word === 'add') sets.get(name)?.elements.push(third.split(','));
  }
  return sets;
}
