import {readDumps} from '../analyze/iptables/read-dumps.ts';
import type {ChainsByName} from '../model/ruleset.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {parseNftJson} from '../parse/nftables/nft-json.ts';

/** The chains of one table, its sets, or a list, by name. The text of each is created on demand. */
export interface HeldLines {
  places(): Iterable<string>;
  /** Empty if there is no such name. */
  textAt(place: string): string;
}

/** The content of a node: the chains of iptables and nftables, the elements of sets, virtual servers. */
export function heldLines(node: NodeDump): ReadonlyMap<string, HeldLines> {
  return new Map([...iptablesLines(node), ...nftablesLines(node), ...plainLines(node)]);
}

type Held = readonly [name: string, lines: HeldLines];

function* iptablesLines(node: NodeDump): Iterable<Held> {
  for (const [family, {tables}] of readDumps(node).current)
    for (const {name, chains} of tables.values())
      yield [
        `${family === 'IPv6' ? 'ip6tables' : 'iptables'} ${name}/`,
        {places: () => chains.keys(), textAt: chain => textOf(chains, chain)},
      ];
}

/** Creates no object for each chain: most are the same on both sides. */
function textOf(chains: ChainsByName, name: string): string {
  const place = chains.placeOf(name);
  return place < 0 ? '' : chains.textAt(place);
}

function* nftablesLines(node: NodeDump): Iterable<Held> {
  const content = node.read('nft.json');
  if (content === null) return;
  for (const {id, chains, sets} of parseNftJson(content).tables.values()) {
    yield [`nftables ${id}/`, {places: () => chains.keys(), textAt: chain => chains.get(chain)?.text() ?? ''}];
    // The clients of an endpoint change all the time.
    const lasting = [...sets.keys()].filter(name => !name.startsWith('affinity-'));
    const elements = (set: string) => [...(sets.get(set)?.elements.values() ?? [])];
    const textAt = (set: string) =>
      elements(set)
        .map(({key, value}) => (value === null ? key : `${key} : ${value}`))
        .join('\n');
    yield [`nftables ${id}/@`, {places: () => lasting, textAt}];
  }
}

function* plainLines(node: NodeDump): Iterable<Held> {
  for (const file of ['ipvsadm-save', 'ipset-save']) {
    const content = node.read(file);
    if (content !== null) yield [file, {places: () => [''], textAt: () => content.toString('utf8').trimEnd()}];
  }
}
