import {servesBothFamilies} from '../../expect/iptables/iptables-versions.ts';
import {parseAddress} from '../../model/address.ts';
import {families, type Family} from '../../model/family.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {Ruleset} from '../../model/ruleset.ts';

/** The families that a node's kube-proxy writes rules for: up to 1.20 one, unless a gate says otherwise. */
export function servedFamilies(
  {config, facts}: {readonly config: ProxyConfig; readonly facts: NodeFacts},
  rulesets: ReadonlyMap<Family, Ruleset>,
): readonly Family[] {
  if (servesBothFamilies(config.version.value, config.featureGates.value)) return families;
  // The gate may be set in a source that was not read, so a family in which kube-proxy wrote rules is served.
  const written = families.filter(family => rulesets.get(family)?.chain('nat', 'KUBE-SERVICES') !== undefined);
  return written.length > 0 ? written : [ownFamily(config, facts)];
}

/** The family of kube-proxy's bindAddress; that of the node's first address where it binds to all. */
function ownFamily(config: ProxyConfig, facts: NodeFacts): Family {
  const bind = parseAddress(config.bindAddress.value);
  if (bind !== null && bind.value !== 0n) return bind.family;
  return facts.hostIPs[0]?.includes(':') ? 'IPv6' : 'IPv4';
}
