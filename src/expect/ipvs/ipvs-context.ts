import {type Cidr, contains, type Family, parseAddress, parseCidr} from '../../model/address.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import {isLoopback, type NodeContext, nodeContext} from '../node-context.ts';

/** Everything that one family's state on one node depends on in IPVS mode, besides Services and endpoints. */
export interface IpvsContext extends NodeContext {
  readonly scheduler: string;
  /** kube-proxy never changes virtual servers inside these networks. */
  readonly excludeCIDRs: readonly Cidr[];
  /** The addresses on which node ports answer. */
  readonly nodeAddresses: readonly string[];
}

/** `facts.addresses` are those of all interfaces but kube-ipvs0; `bound` are those of kube-ipvs0. */
export function ipvsContext(family: Family, config: ProxyConfig, facts: NodeFacts, bound: readonly string[]): IpvsContext {
  const plain = nodeContext(family, config, facts, {nfacct: false, clearsMark: null, dropsInvalid: null});
  return {
    ...plain,
    // In this mode node ports never answer on the loopback address, whatever the setting.
    localhostNodePorts: false,
    excludesLoopback: true,
    scheduler: config.ipvsScheduler.value === '' ? 'rr' : config.ipvsScheduler.value,
    excludeCIDRs: config.ipvsExcludeCIDRs.value.flatMap(text => parseCidr(text) ?? []),
    nodeAddresses: nodeAddresses(plain, bound),
  };
}

/** Without a list of networks kube-ipvs0 is excluded, with one it is not. Follows the use of `nodePortAddresses` in `syncProxyRules`. */
function nodeAddresses({family, facts, nodePortCIDRs}: NodeContext, bound: readonly string[]): readonly string[] {
  const cidrs = nodePortCIDRs?.map(text => parseCidr(text)) ?? null;
  const candidates = cidrs === null ? facts.addresses : [...facts.addresses, ...bound];
  return [...new Set(candidates)].filter(text => {
    const address = parseAddress(text);
    if (address === null || address.family !== family || isLoopback(address.text)) return false;
    // fe80::/10
    return cidrs === null ? !/^fe[89ab]/.test(address.text) : cidrs.some(cidr => cidr !== null && contains(cidr, address));
  });
}
