import type {ApiObjects, NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {families} from '../../src/model/family.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {expectedTable} from '../nft-expectation.ts';
import {bareCluster, minors} from '../random-cluster.ts';
import {withRules} from '../rendered-dump.ts';
import {nftText} from '../rendered-nft.ts';
import {changeNft} from './nft-faults.ts';
import {changeObjects, replaceEndpoints} from './object-faults.ts';
import {changeRules} from './rule-faults.ts';

/** A cluster of three nodes on which one to six things are wrong at once. The same seed gives the same cluster. */
export function randomCase(seed: number): Snapshot {
  const random = seededRandom(seed);
  const mode = random.pick(['iptables', 'iptables', 'nftables'] as const);
  const minor = mode === 'iptables' ? random.pick(minors) : random.pick([29, 30, 31, 33, 34, 35, 36]);
  const bare = bareCluster(random, minor);
  const {api, faults} = laterObjects(bare.api, random);
  // A kube-proxy that stopped has written the rules for the objects of before.
  const allStopped = random.chance(0.5);
  const written = bare.nodes.map(node => {
    const of = {...bare, api: allStopped || random.chance(0.5) ? bare.api : api, nodes: [node]};
    const [rendered = node] = mode === 'iptables' ? withRules(of, random).nodes : [inNftables(node, of.api)];
    return rendered;
  });
  const nodes = written.map(node => (random.chance(0.7) ? withFaults(node, {mode, count: 1 + random.below(6 - faults), random}) : node));
  return {...bare, api, nodes};
}

function laterObjects(before: ApiObjects, random: Random): {readonly api: ApiObjects; readonly faults: number} {
  let api = random.chance(0.5) ? replaceEndpoints(before, random) : before;
  const faults = random.below(3);
  for (let count = faults; count > 0; count--) api = changeObjects(api, random);
  return {api, faults};
}

interface Faults {
  readonly mode: 'iptables' | 'nftables';
  readonly count: number;
  readonly random: Random;
}

function withFaults(node: NodeDump, {mode, count, random}: Faults): NodeDump {
  const changed = new Map<string, string>();
  for (let left = count; left > 0; left--) {
    const file = mode === 'nftables' ? 'nft.txt' : random.pick(['iptables-save', 'iptables-save', 'ip6tables-save']);
    const text = changed.get(file) ?? node.read(file)?.toString() ?? '';
    changed.set(file, mode === 'nftables' ? changeNft(text, random) : changeRules(text, random));
  }
  return withFiles(node, changed);
}

function withFiles(node: NodeDump, own: ReadonlyMap<string, string>): NodeDump {
  const contents = new Map([...own].map(([file, text]) => [file, Buffer.from(text)]));
  return {name: node.name, files: [...new Set([...node.files, ...own.keys()])].sort(), read: file => contents.get(file) ?? node.read(file)};
}

function inNftables(node: NodeDump, api: ApiObjects): NodeDump {
  const ruleset = families.map(family => nftText(expectedTable({api, node, family}))).join('\n');
  return withFiles(
    node,
    new Map([
      ['nft.txt', ruleset],
      ['proxy-mode', 'nftables'],
      ['iptables-save', ''],
      ['ip6tables-save', ''],
    ]),
  );
}
