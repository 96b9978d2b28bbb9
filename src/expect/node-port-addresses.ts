import {ipvsContext} from './ipvs/ipvs-context.ts';
import {nftContext} from './nftables/expect-table.ts';
import {nodeContext, nodePortDestinations} from './node-context.ts';
import {type Family, familyOf} from '../model/address.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';

/** The node's addresses of one family that serve node ports in the mode of its kube-proxy. */
export function nodePortAddresses(
  {config, facts}: {readonly config: ProxyConfig; readonly facts: NodeFacts},
  family: Family,
): readonly string[] {
  switch (config.mode.value) {
    case 'ipvs':
      return ipvsContext(family, config, facts, []).nodeAddresses;
    case 'nftables':
      // By default only the Node's own addresses serve node ports: without the Node none is known.
      return facts.hostIPs.length === 0 ? [] : served(nodePortDestinations(nftContext(family, config, facts, null)));
    default:
      return served(nodePortDestinations(nodeContext(family, config, facts, unseen)));
  }

  function served(addresses: readonly string[] | null): readonly string[] {
    return addresses ?? facts.addresses.filter(address => familyOf(address) === family);
  }
}

const unseen = {nfacct: false, clearsMark: null, dropsInvalid: null};
