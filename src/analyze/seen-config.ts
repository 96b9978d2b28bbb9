import {inferConfig, type InferredConfig} from '../expect/iptables/infer-config.ts';
import {inferIpvsConfig} from '../expect/ipvs/infer-ipvs-config.ts';
import {inferNftConfig} from '../expect/nftables/infer-nft-config.ts';
import {fileText, type NodeDump} from '../model/snapshot.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {Dumps} from './proxy-mode.ts';
import {kubeProxyTables} from './nftables/nft-rules.ts';

/**
 * What the node's rules show of its kube-proxy. In iptables and IPVS mode kube-proxy deletes its tables of nftables mode when it starts;
 * rules of iptables may stay behind in nftables mode: in the other backend, or because a third-party chain jumps to one of its chains.
 */
export function seenConfig(node: NodeDump, rulesets: Dumps['current'], nft: () => NftRuleset | null): InferredConfig {
  const tables = kubeProxyTables(nft());
  if (tables.some(({baseChains}) => baseChains.some(({ruleCount}) => ruleCount > 0))) return inferNftConfig(tables);
  const ipvs = inferIpvsConfig(rulesets);
  if (ipvs !== null) return ipvs;
  const seen = inferConfig(rulesets);
  const found = Object.keys(seen).length === 0 ? inferNftConfig(tables) : seen;
  return Object.keys(found).length === 0 && holdsVirtualServers(node) ? {mode: 'ipvs'} : found;
}

/** Where no rule shows a mode, as in a text with the output of ipvsadm alone. */
function holdsVirtualServers(node: NodeDump): boolean {
  const signs = {'kube-ipvs0.json': /"local"/, 'ipvsadm-save': serverRow, 'ipvsadm-part': serverRow};
  return Object.entries(signs).some(([file, sign]) => sign.test(fileText(node, file)));
}

/** Of `ipvsadm-save`, or of `ipvsadm -L`. */
const serverRow = /^\s*(?:-A -|TCP|UDP|SCTP)/m;
