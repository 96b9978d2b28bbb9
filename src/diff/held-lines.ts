import {readDumps} from '../judge/iptables/read-dumps.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {parseNftJson} from '../parse/nft-json.ts';

/** Lines of a chain, a set or a list on a node, all as one text. Made when it is asked for: most are the same on both sides. */
export type HeldLines = ReadonlyMap<string, () => string>;

/** What a node holds, by place: the chains of iptables and nftables, the elements of sets, virtual servers. */
export function heldLines(node: NodeDump): HeldLines {
  return new Map([...iptablesLines(node), ...nftablesLines(node), ...plainLines(node)]);
}

function* iptablesLines(node: NodeDump): Iterable<[string, () => string]> {
  for (const [family, {tables}] of readDumps(node).current)
    for (const table of tables.values())
      for (const chain of table.chains.values())
        yield [`${family === 'IPv6' ? 'ip6tables' : 'iptables'} ${table.name}/${chain.name}`, () => chain.text()];
}

function* nftablesLines(node: NodeDump): Iterable<[string, () => string]> {
  const content = node.read('nft.json');
  if (content === null) return;
  for (const {id, chains, sets} of parseNftJson(content).tables.values()) {
    for (const chain of chains.values()) yield [`nftables ${id}/${chain.name}`, () => chain.text()];
    for (const set of sets.values()) {
      // What clients an endpoint has had changes by itself.
      if (set.name.startsWith('affinity-')) continue;
      yield [
        `nftables ${id}/@${set.name}`,
        () => [...set.elements.values()].map(({key, value}) => (value === null ? key : `${key} : ${value}`)).join('\n'),
      ];
    }
  }
}

function* plainLines(node: NodeDump): Iterable<[string, () => string]> {
  for (const file of ['ipvsadm-save', 'ipset-save']) {
    const content = node.read(file);
    if (content !== null) yield [file, () => content.toString('utf8').trimEnd()];
  }
}
