import {namespacedName} from '../model/text/namespaced-name.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';
import {narrowIptablesSave} from './iptables/narrow-iptables-save.ts';
import type {NarrowTo} from './narrow-to.ts';
import {narrowNftJson} from './nftables/narrow-nft-json.ts';

/**
 * A node with the rules of some Services alone, and all base rules: to try states of these Services on is little work then. Null in a mode
 * whose dumps cannot be narrowed, and where a dump is not whole.
 */
export function narrowNode(node: NodeDump, mode: string, {to, api}: {readonly to: NarrowTo; readonly api: ApiObjects}): NodeDump | null {
  const narrowed = new Map<string, Buffer | null>();
  if (mode === 'iptables') {
    for (const file of iptablesFiles) {
      const content = node.read(file);
      if (content !== null) narrowed.set(file, Buffer.from(narrowIptablesSave(content.toString('latin1'), to), 'latin1'));
    }
  } else if (mode === 'nftables') {
    if (node.read('nft.txt') !== null) return null;
    const addresses = addressesOfOthers(api, to);
    for (const file of nftFiles) {
      const content = node.read(file);
      if (content === null) continue;
      const text = narrowNftJson(content.toString('utf8'), to, addresses);
      if (text === null) return null;
      narrowed.set(file, Buffer.from(text));
    }
  } else return null;
  for (const file of ['conntrack', 'metrics']) narrowed.set(file, null);
  const read = (file: string): Buffer | null => (narrowed.has(file) ? (narrowed.get(file) ?? null) : node.read(file));
  return {...node, files: node.files.filter(file => narrowed.get(file) !== null), read};
}

const iptablesFiles = ['iptables', 'ip6tables'].flatMap(tool => [`${tool}-save`, `${tool}-nft-save`, `${tool}-legacy-save`]);
const nftFiles = ['nft-ruleset.json', 'nft.json'];

/** Cluster IPs that no Service of these has. */
function addressesOfOthers({services}: ApiObjects, to: NarrowTo): ReadonlySet<string> {
  const [own, others] = [new Set<string>(), new Set<string>()];
  for (const {metadata, spec} of services ?? [])
    for (const address of spec?.clusterIPs ?? []) (to.services.has(namespacedName(metadata)) ? own : others).add(address);
  return new Set([...others].filter(address => !own.has(address)));
}
