import type {NftRuleset} from '../../../src/model/nft-ruleset.ts';
import type {NodeDump} from '../../../src/model/snapshot.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';
import {parseNftDump} from '../../../src/parse/nftables/nft-dump.ts';
import {formatNftRuleset} from '../../rendered-nft-ruleset.ts';
import type {RulesUnderTest} from './load-rules.ts';
import type {Namespace} from './namespace.ts';

/** Loads what a node holds of nftables into the kernel, as our own text of it; beside iptables, if there is such a dump. */
export function loadNft(node: Namespace, {read}: NodeDump): RulesUnderTest {
  const dump = read('iptables-save')?.toString() ?? null;
  if (dump !== null) node.run('iptables-nft-restore', [], dump);
  const [iptables] = parseDumps(dump ?? '', 'IPv4');
  const given = read('nft.json') ?? Buffer.alloc(0);
  const nft = parseNftDump(given);
  // Counters that rules name are not kept: text with their declarations is loaded as it is.
  const hasCounters = /^\tcounter \S+ \{$/m.test(given.toString());
  node.run('nft', ['-f', '-'], hasCounters ? given.toString() : formatNftRuleset(nft));
  const held = [
    ['list', 'ruleset'],
    ['-j', 'list', 'ruleset'],
  ].map(args => parseNftDump(Buffer.from(node.run('nft', args))));
  const lists = [...nft.tables.values()].flatMap(({id, sets}) =>
    [...sets.keys()].filter(name => name.startsWith('affinity-')).map(name => `flush set ${id} ${name}\n`),
  );
  return {
    leftOut: [],
    rules: family => (iptables === undefined || family === 'IPv6' ? {iptables: null, nft} : {iptables, nft}),
    read: held.map(ruleset => ({given: comparable(nft), held: comparable(ruleset)})),
    forgetClients: async () => {
      node.run('nft', ['-f', '-'], lists.join(''));
    },
    listsOf: ({text}) => /^update @(\S+) /.exec(text)?.slice(1) ?? [],
  };
}

/** Everything that nft lists in both forms, without the tables of iptables. The order of elements is the kernel's. */
function comparable({tables, strays}: NftRuleset): object {
  return {
    strays,
    tables: [...tables.values()]
      .filter(({id}) => !/^ip (?:raw|mangle|nat|filter)$/.test(id))
      .map(({id, chains, sets}) => ({
        id,
        chains: [...chains.values()].map(chain => ({name: chain.name, base: chain.base, text: chain.text()})),
        sets: [...sets.values()].map(({dynamic: _, elements, ...set}) => ({
          ...set,
          elements: [...elements.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
        })),
      })),
  };
}
