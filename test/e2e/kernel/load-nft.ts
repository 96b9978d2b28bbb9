import type {NftRuleset} from '../../../src/model/nft-ruleset.ts';
import type {NodeDump} from '../../../src/model/snapshot.ts';
import {formatNftRuleset} from '../../../src/parse/nft-format.ts';
import {parseNftJson} from '../../../src/parse/nft-json.ts';
import {parseNftText} from '../../../src/parse/nft-text.ts';
import type {RulesUnderTest} from './load-rules.ts';
import type {Namespace} from './namespace.ts';

/** Loads what a node holds of nftables into the kernel, as our own text of it. */
export function loadNft(node: Namespace, {read}: NodeDump): RulesUnderTest {
  const nft = parseNftJson(read('nft.json') ?? '');
  const foreign = read('nft.txt');
  const given = nft.tables.size > 0 || foreign === null ? nft : parseNftText(foreign);
  node.run('nft', ['-f', '-'], formatNftRuleset(given));
  const lists = [...given.tables.values()].flatMap(({id, sets}) =>
    [...sets.keys()].filter(isAffinity).map(name => `flush set ${id} ${name}\n`),
  );
  return {
    leftOut: [],
    rules: () => ({iptables: null, nft: given}),
    read: [
      {given: comparable(given), held: comparable(parseNftText(node.run('nft', ['list', 'ruleset'])))},
      {given: comparable(given), held: comparable(parseNftJson(node.run('nft', ['-j', 'list', 'ruleset'])))},
    ],
    forgetClients: async () => {
      node.run('nft', ['-f', '-'], lists.join(''));
    },
    listsOf: ({text}) => /^update @(\S+) /.exec(text)?.slice(1) ?? [],
  };
}

function isAffinity(name: string): boolean {
  return name.startsWith('affinity-');
}

/** All that nft tells in both forms. The order of elements is the kernel's. */
function comparable({tables, strays}: NftRuleset): object {
  return {
    strays,
    tables: [...tables.values()].map(({id, chains, sets}) => ({
      id,
      chains: [...chains.values()].map(chain => ({name: chain.name, base: chain.base, text: chain.text()})),
      sets: [...sets.values()].map(({dynamic: _, elements, ...set}) => ({
        ...set,
        elements: [...elements.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
      })),
    })),
  };
}
