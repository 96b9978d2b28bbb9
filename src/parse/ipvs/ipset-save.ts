import {bitsOf, canonicalAddress, parseCidr} from '../../model/address.ts';

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

/** What is wrong with the output of `ipset save`: a line that is none of it, or a set that is created twice, with the line from 1. */
interface IpsetFault {
  readonly line: number;
  readonly text: string;
  readonly isRepeated: boolean;
}

/** Reads the output of `ipset save`. What is no `create` or `add`, such as the error of a connection, may stand for members. */
export function parseIpsetSave(text: string): {readonly sets: ReadonlyMap<string, IpSet>; readonly fault: IpsetFault | null} {
  const sets = new Map<string, OpenSet>();
  let fault: IpsetFault | null = null;
  for (const [index, line] of text.split('\n').entries()) {
    const [word, name = '', third = '', ...options] = line.trim().split(/\s+/);
    const isRepeated = word === 'create' && sets.has(name);
    if (isRepeated || (word !== 'create' && word !== 'add' && line.trim() !== ''))
      fault ??= {line: index + 1, text: line.trim(), isRepeated};
    if (word === 'create')
      sets.set(name, {name, type: third, parts: (third.split(':')[1] ?? '').split(','), elements: [], exceptions: [], lines: []});
    else if (word === 'add') add(sets.get(name), third.split(','), {line: index + 1, exception: options.includes('nomatch')});
  }
  return {sets, fault};
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
  return cidr.prefix === bitsOf(cidr.family) ? (cidr.text.split('/')[0] ?? part) : cidr.text;
}
