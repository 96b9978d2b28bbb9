import type {ServedPort} from '../expect/cluster/served-port.ts';
import {parseNftName} from '../expect/nftables/nft-names.ts';
import {jumpsToServiceChain} from './service-chains.ts';

/**
 * Tells the Service ports whose packets these rules may send to the chains of another one, whose rules are not theirs. The rules are those
 * of a node that are not expected: of Services that were deleted, and of others than kube-proxy. The names are those of all Service ports.
 */
export function ledPorts(rules: readonly string[], names: ReadonlySet<string>): (item: ServedPort) => boolean {
  const hosts = new Set<string>();
  const nodePorts = new Set<number>();
  for (const rule of rules) {
    // Then kube-proxy's current chains are reached after the change too.
    if (jumpsToEntries.test(rule) && !isBuiltIn.test(rule)) return () => true;
    if (leadsToService(rule, names)) return () => true;
    if (!jumpsToServiceChain.test(rule)) continue;
    const plain = rule.replace(/"(?:[^"\\]|\\.)*"/g, '""');
    const host = /^-A KUBE-SERVICES -d ([^/ ]+)\/(?:32|128) /.exec(plain)?.[1];
    const nodePort = /^-A KUBE-NODEPORTS .*(?<!!) --dport (\d+) /.exec(plain)?.[1];
    if (host !== undefined) hosts.add(host);
    else if (nodePort !== undefined) nodePorts.add(Number(nodePort));
    else return () => true;
  }
  if (hosts.size + nodePorts.size === 0) return () => false;
  return ({port: {clusterIP, externalIPs, loadBalancerVIPs, nodePort}}) =>
    nodePorts.has(nodePort) || [clusterIP, ...externalIPs, ...loadBalancerVIPs].some(address => hosts.has(address));
}

/** In nftables mode: a rule, and not an element of a map, which has the address of one Service, leads to the chains of a Service port. */
function leadsToService(rule: string, names: ReadonlySet<string>): boolean {
  if (isElement.test(rule)) return false;
  return [...rule.matchAll(/(?:jump|goto) ([^\s,}]+)/g)].some(([, chain = '']) => {
    const parsed = parseNftName(chain);
    return parsed !== null && (names.has(parsed.servicePortName) || chain.endsWith('...'));
  });
}

const isElement = /^\S+ \. \S+(?: \. \S+)? : goto /;

/** The chains with the entries of all Services. The built-in chains jump there, and do not after a change of the mode. */
const jumpsToEntries = /(?:-j|-g|jump|goto) KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL)(?:\s|$)/;
const isBuiltIn = /^-A (?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING|KUBE-SERVICES) /;
