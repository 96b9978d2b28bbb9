import {parseCidr} from '../../model/address.ts';
import {readJson} from '../attempt.ts';

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
  const slots = slotsOf(rowsOf(list), 'bpf-lb-list.json');
  if (typeof slots === 'string') return slots;
  const counts = rowsOf(frontends);
  if (counts === null) return isNoTable('bpf-lb-list-frontends.json');
  const entries = new Map<string, MapEntry>();
  for (const [key, {place, row, texts}] of slots) {
    const entry = entryOf(key, {place, texts, counted: firstOf(counts[row])});
    // A frontend whose slot 0 is only in one of the two was written or removed between the two commands.
    if (typeof entry === 'string') return entry;
    if (entry !== null) entries.set(key, entry);
  }
  // Rows of an unknown form are not found by their key: they would seem to be missing.
  const unknown = entries.size === slots.size ? null : slotsOf(counts, 'bpf-lb-list-frontends.json');
  return typeof unknown === 'string' ? unknown : entries;
}

interface Slots {
  readonly place: {readonly address: string; readonly port: number};
  /** The name of the row of slot 0; empty if there is none. */
  row: string;
  /** By slot. */
  readonly texts: string[];
}

type Rows = Readonly<Record<string, unknown>>;

function rowsOf(text: string): Rows | null {
  const rows = readJson(text);
  return typeof rows !== 'object' || rows === null || Array.isArray(rows) ? null : (rows as Rows);
}

function isNoTable(file: string): string {
  return `${file} is not what the agent prints`;
}

function firstOf(values: unknown): string | undefined {
  const value: unknown = Array.isArray(values) ? values[0] : undefined;
  return typeof value === 'string' ? value : undefined;
}

/** The kernel counts slots in 16 bits. */
const maxSlot = 0xff_ff;

const keyForm = /^(?:\[([^\]]+)\]|([^[\]:]+)):(\d+)\/[A-Z]+(?:\/i)?$/;

function slotsOf(rows: Rows | null, file: string): ReadonlyMap<string, Slots> | string {
  if (rows === null) return isNoTable(file);
  const slots = new Map<string, Slots>();
  // The rows of one key follow each other.
  let [start, of]: [string, Slots | undefined] = ['', undefined];
  for (const row of Object.keys(rows)) {
    if (of === undefined || !row.startsWith(start)) {
      const end = row.lastIndexOf(' (');
      const key = row.slice(0, end);
      start = row.slice(0, end + 2);
      of = slots.get(key);
      if (of === undefined) {
        const [, six, four = '', port] = keyForm.exec(key) ?? [];
        if (end < 0 || port === undefined) return `${file} has a row of an unknown form: ${row}`;
        of = {place: {address: six ?? four, port: Number(port)}, row: '', texts: []};
        slots.set(key, of);
      }
    }
    const slot = row.endsWith(')') ? Number(row.slice(start.length, -1)) : Number.NaN;
    const value = firstOf(rows[row]);
    if (!Number.isInteger(slot) || slot < 0 || slot > maxSlot || value === undefined) return `${file} has a row of an unknown form: ${row}`;
    of.texts[slot] = value;
    if (slot === 0) of.row = row;
  }
  return slots;
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

/** The networks of `cilium-dbg bpf lb list --source-ranges`, by the id of their entry; null if the text is something else. */
export function parseMapRanges(text: string): ReadonlyMap<number, readonly string[]> | null {
  const rows = readJson(text);
  if (typeof rows !== 'object' || rows === null || Array.isArray(rows)) return null;
  const ranges = new Map<number, string[]>();
  for (const row of Object.keys(rows)) {
    const [, network = '', id] = /^(\S+) \((\d+)\)$/.exec(row) ?? [];
    const cidr = parseCidr(network);
    if (cidr === null) return null;
    ranges.set(Number(id), [...(ranges.get(Number(id)) ?? []), cidr.text]);
  }
  return ranges;
}
