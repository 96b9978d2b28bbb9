import {parseCidr} from '../../model/address.ts';
import {isObject, readJson} from '../attempt.ts';

/** A frontend in the kernel's map with its slots: `cilium-dbg bpf lb list` and `bpf lb list --frontends`. */
export interface MapEntry {
  /** As `frontendKey` gives it. */
  readonly key: string;
  readonly address: string;
  /** 0 for an entry that stands for all ports of an address. */
  readonly port: number;
  readonly id: number;
  /** The first is the type. */
  readonly flags: readonly string[];
  readonly hasProxyPort: boolean;
  /** How many slots get new connections. */
  readonly count: number;
  readonly affinitySeconds: number;
  /** The backends of these slots, as `10.0.0.5:443/TCP`; null for a backend that the map does not have. */
  readonly backends: readonly (string | null)[];
}

/** The entries by key; or what is wrong with the text. */
export function parseLbMap({list, frontends}: {readonly list: string; readonly frontends: string}): ReadonlyMap<string, MapEntry> | string {
  const slots = slotsOf(list, 'bpf-lb-list.json');
  if (typeof slots === 'string') return slots;
  const counts = new Map<string, string>();
  const isRead = eachRow(frontends, (row, value) => {
    if (row.endsWith(slotZero)) counts.set(row.slice(0, -slotZero.length), value);
  });
  if (!isRead) return isNoTable('bpf-lb-list-frontends.json');
  const entries = new Map<string, MapEntry>();
  for (const [key, {place, texts}] of slots) {
    const entry = entryOf(key, {place, texts, counted: counts.get(key)});
    // A frontend whose slot 0 is only in one of the two was written or removed between the two commands.
    if (typeof entry === 'string') return entry;
    if (entry !== null) entries.set(key, entry);
  }
  // Rows of an unknown form are not found by their key: they would seem to be missing.
  const unknown = entries.size === slots.size ? null : slotsOf(frontends, 'bpf-lb-list-frontends.json');
  return typeof unknown === 'string' ? unknown : entries;
}

const slotZero = ' (0)';

interface Slots {
  readonly place: {readonly address: string; readonly port: number};
  /** By slot. */
  readonly texts: string[];
}

/**
 * Visits the rows of an object in which each value is a list of one string; false for a text that is something else. To read it as JSON
 * takes three times as long: each key would become the name of a property.
 */
function eachRow(text: string, visit: (row: string, value: string) => void): boolean {
  const form = /\s*[{,]\s*"([^"\\]*)":\s*\[\s*"([^"\\]*)"\s*\]/y;
  let end = 0;
  for (let row = form.exec(text); row !== null; row = form.exec(text)) {
    visit(row[1] ?? '', row[2] ?? '');
    end = form.lastIndex;
  }
  return (end === 0 ? /^\s*\{\s*\}\s*$/ : /^\s*\}\s*$/).test(text.slice(end));
}

function isNoTable(file: string): string {
  return `${file} is not what the agent prints`;
}

/** The kernel counts slots in 16 bits. */
const maxSlot = 0xff_ff;

const keyForm = /^(?:\[([^\]]+)\]|([^[\]:]+)):(\d+)\/[A-Z]+(?:\/i)?$/;

function slotsOf(text: string, file: string): ReadonlyMap<string, Slots> | string {
  const slots = new Map<string, Slots>();
  let unknown: string | null = null;
  // The rows of one key follow each other.
  let [start, of]: [string, Slots | undefined] = ['', undefined];
  const isRead = eachRow(text, (row, value) => {
    if (of === undefined || !row.startsWith(start)) {
      const end = row.lastIndexOf(' (');
      const key = row.slice(0, end);
      start = row.slice(0, end + 2);
      of = slots.get(key);
      if (of === undefined) {
        const [, six, four = '', port] = keyForm.exec(key) ?? [];
        of = {place: {address: six ?? four, port: Number(port)}, texts: []};
        if (end < 0 || port === undefined) unknown ??= row;
        else slots.set(key, of);
      }
    }
    const slot = row.endsWith(')') ? Number(row.slice(start.length, -1)) : Number.NaN;
    if (Number.isInteger(slot) && slot >= 0 && slot <= maxSlot) of.texts[slot] = value;
    else unknown ??= row;
  });
  if (unknown !== null) return `${file} has a row of an unknown form: ${unknown}`;
  return isRead ? slots : isNoTable(file);
}

function entryOf(
  key: string,
  {place, texts, counted}: Pick<Slots, 'place' | 'texts'> & {readonly counted: string | undefined},
): MapEntry | string | null {
  const [main] = texts;
  if (main === undefined || counted === undefined) return null;
  const [, id, flags] = /^\S+ \((\d+)\) \(0\) \[([^\]]*)\]/.exec(main) ?? [];
  const [, first, count] = /^(\d+) (\d+)(?:\[\d+\])? \(\d+\)/.exec(counted) ?? [];
  if (id === undefined || flags === undefined || first === undefined || count === undefined)
    return `the kernel's map has a row of an unknown form: ${key} ${id === undefined ? main : counted}`;
  const backends = Array.from({length: Math.min(Number(count), texts.length)}, (_, index) => backendOf(texts[index + 1]));
  return {
    ...place,
    key,
    id: Number(id),
    flags: flags.split(', '),
    hasProxyPort: main.includes('Proxy Port'),
    count: Number(count),
    // The upper byte is the algorithm.
    affinitySeconds: Number(first) & 0xff_ff_ff,
    backends,
  };
}

function backendOf(slot: string | undefined): string | null {
  return /^(\S+:\d+\/[A-Z]+) /.exec(slot ?? '')?.[1] ?? null;
}

/** The address that replies get, such as `10.96.0.1:443`, by the id of an entry: `cilium-dbg bpf lb list --revnat`; null for another text. */
export function parseReplyAddresses(text: string): ReadonlyMap<number, string> | null {
  const addresses = new Map<number, string>();
  return eachRow(text, (id, address) => void addresses.set(Number(id), address)) ? addresses : null;
}

/** The networks of `cilium-dbg bpf lb list --source-ranges`, by the id of their entry; null if the text is something else. */
export function parseMapRanges(text: string): ReadonlyMap<number, readonly string[]> | null {
  const rows = readJson(text);
  if (!isObject(rows)) return null;
  const ranges = new Map<number, string[]>();
  for (const row of Object.keys(rows)) {
    const [, network = '', id] = /^(\S+) \((\d+)\)$/.exec(row) ?? [];
    const cidr = parseCidr(network);
    if (cidr === null) return null;
    ranges.set(Number(id), [...(ranges.get(Number(id)) ?? []), cidr.text]);
  }
  return ranges;
}
