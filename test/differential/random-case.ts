import type {ApiObjects, NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {bareCluster, minors} from '../random-cluster.ts';
import {withFiles, type WrittenMode, writtenNode} from '../rendered-node.ts';
import {withClones} from './clones.ts';
import {changeIpvs} from './ipvs-faults.ts';
import {changeNft} from './nft-faults.ts';
import {changeObjects, replaceEndpoints} from './object-faults.ts';
import {changeRules} from './rule-faults.ts';

interface CaseOptions {
  /** Drawn if it is left out: iptables or nftables. */
  readonly mode?: WrittenMode | undefined;
  /** How many copies of each Service there are. */
  readonly copies?: number | undefined;
}

/** A cluster of three nodes on which one to six things are wrong at once. The same seed gives the same cluster. */
export function randomCase(seed: number, {mode: wanted, copies = 0}: CaseOptions = {}): Snapshot {
  const random = seededRandom(seed);
  const drawn = random.pick(['iptables', 'iptables', 'nftables'] as const);
  const mode = wanted ?? drawn;
  const minor = mode === 'nftables' ? random.pick([29, 30, 31, 33, 34, 35, 36]) : random.pick(minors);
  const single = bareCluster(random, minor);
  const bare = {...single, api: withClones(single.api, copies)};
  const {api, faults} = laterObjects(bare.api, random);
  // A kube-proxy that stopped has written the rules for the objects of before.
  const allStopped = random.chance(0.5);
  const written = bare.nodes.map(node => writtenNode(node, allStopped || random.chance(0.5) ? bare.api : api, {mode, random}));
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
  readonly mode: WrittenMode;
  readonly count: number;
  readonly random: Random;
}

function withFaults(node: NodeDump, {mode, count, random}: Faults): NodeDump {
  let changed = node;
  for (let left = count; left > 0; left--) changed = withFault(changed, mode, random);
  return changed;
}

function withFault(node: NodeDump, mode: WrittenMode, random: Random): NodeDump {
  if (mode === 'ipvs') return changeIpvs(node, random);
  const file = mode === 'nftables' ? 'nft.txt' : random.pick(['iptables-save', 'iptables-save', 'ip6tables-save']);
  const text = node.read(file)?.toString() ?? '';
  return withFiles(node, new Map([[file, mode === 'nftables' ? changeNft(text, random) : changeRules(text, random)]]));
}
