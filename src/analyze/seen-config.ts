import {inferConfig, type InferredConfig} from '../expect/iptables/infer-config.ts';
import {inferIpvsConfig} from '../expect/ipvs/infer-ipvs-config.ts';
import {inferNftConfig} from '../expect/nftables/infer-nft-config.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {Dumps} from './iptables/read-dumps.ts';
import {kubeProxyTables} from './nftables/read-nft.ts';

/** What the node's rules show of its kube-proxy: first those of iptables, which a node in nftables mode may have for other purposes. */
export function seenConfig(rulesets: Dumps['current'], nft: () => NftRuleset | null): InferredConfig {
  const ipvs = inferIpvsConfig(rulesets);
  if (ipvs !== null) return ipvs;
  const seen = inferConfig(rulesets);
  return Object.keys(seen).length === 0 ? inferNftConfig(kubeProxyTables(nft())) : seen;
}
