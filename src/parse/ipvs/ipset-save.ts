import {canonicalAddress, parseCidr} from '../../model/address.ts';

/** One set of `ipset save`. */
export interface IpSet {
  readonly name: string;
  /** Such as `hash:ip,port`. */
  readonly type: string;
  /** The parts of an element: `ip`, `net`, `port`, `mac`, `iface`, `set`, `mark`. */
  readonly parts: readonly string[];
  /** Elements, each split at its commas; options such as `timeout 300` are left out. */
  readonly elements: readonly (readonly string[])[];
  /** Elements marked `nomatch`: networks excluded from wider ones. */
  readonly exceptions: readonly (readonly string[])[];
  /** The line of each element in the dump, from 1. */
  readonly lines: readonly number[];
}

interface OpenSet extends IpSet {
  readonly elements: string[][];
  readonly exceptions: string[][];
  readonly lines: number[];
}

/** Reads the output of `ipset save`. Skips lines that are neither `create` nor `add`, which do not change members. */
export function parseIpsetSave(text: string): ReadonlyMap<string, IpSet> {
  const sets = new Map<string, OpenSet>();
  for (const [index, line] of text.split('\n').entries()) {
    const [word, name = '', third = '', ...options] = line.trim().split(/\s+/);
    if (word === 'create')
      sets.set(name, {name, type: third, parts: (third.split(':')[1] ?? '').split(','), elements: [], exceptions: [], lines: []});
    else if (word === 'add') add(sets.get(name), third.split(','), {line: index + 1, exception: options.includes('nomatch')});
  }
  return sets;
}

function add(set: OpenSet | undefined, element: string[], {line, exception}: {readonly line: number; readonly exception: boolean}): void {
  if (set === undefined) return;
  if (exception) {
    set.exceptions.push(element);
    return;
  }
  set.elements.push(element);
  set.lines.push(line);
}

/** An element in canonical form: canonical addresses, without the prefix length of a single host. */
export function memberText(element: readonly string[]): string {
  return element.map(part => (isPort(part) ? part : (canonicalAddress(part) ?? networkText(part)))).join(',');
}

/** `80` or `tcp:80`. */
function isPort(part: string): boolean {
  return /^(?:[a-z0-9-]*[g-z][a-z0-9-]*:)?\d+$/.test(part);
}

function networkText(part: string): string {
  const cidr = part.includes('/') ? parseCidr(part) : null;
  if (cidr === null) return part;
  return cidr.prefix === (cidr.family === 'IPv4' ? 32 : 128) ? (cidr.text.split('/')[0] ?? part) : cidr.text;
}
