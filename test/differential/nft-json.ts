import {spawnSync} from 'node:child_process';
import type {NodeDump} from '../../src/model/snapshot.ts';

/** The node with its rules as the kernel holds them, as `nft -j list ruleset` prints them; null if the kernel refuses the rules. */
export function withNftJson(node: NodeDump): NodeDump | null {
  // What nft merges into one network stays a set, and a set of one network does not.
  const input = (node.read('nft.txt')?.toString() ?? '').replace(/ saddr != \{ ([^,}]+) \}/g, ' saddr != { $1, $1 }');
  const {status, stdout} = spawnSync('unshare', ['--net', 'sh', '-c', 'nft -f - && nft -j list ruleset'], {input, maxBuffer: 1e9});
  if (status !== 0) return null;
  const files = [...node.files.filter(file => file !== 'nft.txt'), 'nft.json'].sort();
  return {...node, files, read: file => (file === 'nft.txt' ? null : file === 'nft.json' ? stdout : node.read(file))};
}
