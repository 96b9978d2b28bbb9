import {families} from '../model/address.ts';
import {parseChainName} from '../expect/iptables/chain-names.ts';
import {iptablesFiles, type ApiObjects, type NodeDump} from '../model/snapshot.ts';
import {namespacedName} from '../model/text.ts';
import {narrowNftJson, type NarrowTo} from './nftables/nft-rules.ts';

/**
 * A node with the rules of some Services alone, and all base rules: to try states of these Services on is little work then. Null in a mode
 * whose dumps cannot be narrowed, and where a dump is not whole.
 */
export function narrowNode(node: NodeDump, mode: string, {to, api}: {readonly to: NarrowTo; readonly api: ApiObjects}): NodeDump | null {
  const narrowed = new Map<string, Buffer | null>();
  if (mode === 'iptables') {
    for (const file of families.flatMap(iptablesFiles)) {
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

const nftFiles = ['nft-ruleset.json', 'nft.json'];

/** Cluster IPs that no Service of these has. */
function addressesOfOthers({services}: ApiObjects, to: NarrowTo): ReadonlySet<string> {
  const [own, others] = [new Set<string>(), new Set<string>()];
  for (const {metadata, spec} of services ?? [])
    for (const address of spec?.clusterIPs ?? []) (to.services.has(namespacedName(metadata)) ? own : others).add(address);
  return new Set([...others].filter(address => !own.has(address)));
}

/**
 * An `iptables-save` without what kube-proxy wrote for other Services than these: their chains, and the rules of shared chains that lead
 * there. Endpoint chains that nothing leads to stay, for nobody can tell whose they are.
 */
function narrowIptablesSave(text: string, to: NarrowTo): string {
  const lines = text.split('\n');
  const [others, own] = [new Set<string>(), new Set<string>()];
  const isOthers = lines.map(line => isRule(line) && isLineOfOthers(line, to));
  for (const [index, line] of lines.entries()) {
    const target = isRule(line) ? targetOf(line) : null;
    if (target?.startsWith('KUBE-SEP-')) (isOthers[index] ? others : own).add(target);
  }
  const isGone = (chain: string): boolean => {
    const parsed = parseChainName(chain);
    if (parsed === null) return false;
    return parsed.role === 'SEP' ? others.has(chain) && !own.has(chain) : !to.hashes.has(parsed.hash);
  };
  const kept = lines.filter((line, index) => !isOthers[index] && !((line.startsWith(':') || isRule(line)) && isGone(chainOf(line))));
  return kept.join('\n');
}

/** Of other Services, whatever endpoint chains there are. */
function isLineOfOthers(line: string, {services, hashes}: NarrowTo): boolean {
  const chain = chainOf(line);
  if (!chain.startsWith('KUBE-')) return false;
  const parsed = parseChainName(chain);
  if (parsed !== null) return parsed.role !== 'SEP' && !hashes.has(parsed.hash);
  const target = parseChainName(targetOf(line) ?? '');
  if (target !== null) return !hashes.has(target.hash);
  const [, service] = /--comment "?([^\s"/]+\/[^\s":]+)/.exec(line) ?? [];
  return service !== undefined && !services.has(service);
}

function isRule(line: string): boolean {
  return line.startsWith('-A ') || (line.startsWith('[') && line.includes('] -A '));
}

function chainOf(line: string): string {
  if (line.startsWith(':')) return line.slice(1, line.indexOf(' '));
  const from = line.indexOf('-A ') + 3;
  const end = line.indexOf(' ', from);
  return end < 0 ? line.slice(from) : line.slice(from, end);
}

function targetOf(line: string): string | null {
  const at = line.lastIndexOf(' -j KUBE-');
  return at < 0 ? null : (line.slice(at + 4).split(' ', 1)[0] ?? null);
}
