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
  const slots = slotsOf(list, 'bpf-lb-list.json');
  if (typeof slots === 'string') return slots;
  const counts = slotsOf(frontends, 'bpf-lb-list-frontends.json');
  if (typeof counts === 'string') return counts;
  const entries = new Map<string, MapEntry>();
  for (const [key, {place, texts}] of slots) {
    const entry = entryOf(key, {place, texts, counted: counts.get(key)?.texts.get(0)});
    // A frontend whose slot 0 is only in one of the two was written or removed between the two commands.
    if (typeof entry === 'string') return entry;
    if (entry !== null) entries.set(key, entry);
  }
  return entries;
}

interface Slots {
  readonly place: {readonly address: string; readonly port: number};
  readonly texts: Map<number, string>;
}

const keyForm = /^((?:\[([^\]]+)\]|([^[\]:]+)):(\d+)\/[A-Z]+(?:\/i)?) \((\d+)\)$/;

function slotsOf(text: string, file: string): ReadonlyMap<string, Slots> | string {
  const rows = readJson(text);
  if (typeof rows !== 'object' || rows === null || Array.isArray(rows)) return `${file} is not what the agent prints`;
  const slots = new Map<string, Slots>();
  for (const [row, values] of Object.entries(rows)) {
    const found = keyForm.exec(row);
    const value: unknown = Array.isArray(values) ? values[0] : undefined;
    if (found === null || typeof value !== 'string') return `${file} has a row of an unknown form: ${row}`;
    const [, key = '', six, four = '', port, slot] = found;
    let of = slots.get(key);
    if (of === undefined) {
      of = {place: {address: six ?? four, port: Number(port)}, texts: new Map()};
      slots.set(key, of);
    }
    of.texts.set(Number(slot), value);
  }
  return slots;
}

function entryOf(key: string, {place, texts, counted}: Slots & {readonly counted: string | undefined}): MapEntry | string | null {
  const main = texts.get(0);
  if (main === undefined || counted === undefined) return null;
  const [, id, flags] = /^\S+ \((\d+)\) \(0\) \[([^\]]*)\]/.exec(main) ?? [];
  const [, first, count] = /^(\d+) (\d+)(?:\[\d+\])? \(\d+\)/.exec(counted) ?? [];
  if (id === undefined || flags === undefined || first === undefined || count === undefined)
    return `the kernel's map has a row of an unknown form: ${key} ${id === undefined ? main : counted}`;
  const backends = Array.from({length: Math.min(Number(count), texts.size)}, (_, index) => backendOf(texts.get(index + 1)));
  return {
    ...place,
    ...{key, id: Number(id), flags: flags.split(', '), hasProxyPort: main.includes('Proxy Port'), count: Number(count)},
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
