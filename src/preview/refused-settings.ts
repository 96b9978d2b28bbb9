import {matchesInterfaceName} from '../expect/nftables/nft-versions.ts';
import {parseCidr} from '../model/address.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {Ruleset} from '../model/ruleset.ts';

/**
 * Settings with which every sync of kube-proxy fails, because one rule is refused and with it the whole transaction: nothing is written.
 * `current` are the node's rules of iptables, which tell the backend.
 */
export function refusedSettings(config: ProxyConfig, current: Iterable<Ruleset>): readonly string[] {
  const {mode, version, detectLocalMode, interfaceNamePrefix, clusterCIDRs} = config;
  if (mode.value === 'nftables')
    return detectLocalMode.value === 'InterfaceNamePrefix' && !matchesInterfaceName(version.value)
      ? [
          `kube-proxy ${version.value.text} writes iif "${interfaceNamePrefix.value}*" in nftables mode, which nft refuses: no rules are written. 1.33 is the first that writes iifname`,
        ]
      : [];
  const zero = clusterCIDRs.value.find(text => parseCidr(text)?.prefix === 0);
  if (zero === undefined || detectLocalMode.value !== 'ClusterCIDR') return [];
  if ([...current].some(({backend}) => backend === 'legacy')) return [];
  return [`clusterCIDR ${zero} makes rules with ! -s ${zero}, which iptables with the nft backend refuses: no rules are written`];
}
