import {hostCidr} from '../model/address.ts';
import {type Family, families} from '../model/family.ts';
import type {KubeProxyVersion} from '../model/proxy-config.ts';
import {isLoopback} from './node-context.ts';

interface NodePortAddressesInput {
  readonly given: readonly string[];
  readonly version: KubeProxyVersion;
  /** The node's address in a family as kube-proxy sees it; a loopback address if it has none. */
  readonly nodeIP: (family: Family) => string;
}

/**
 * `nodePortAddresses` with its keywords replaced by CIDRs of both families. Up to 1.36 `primary` is the only entry if it is used; 1.37 adds
 * `localhost` and `all`, and allows several. Follows `platformApplyDefaults` and `NewNodePortAddresses`.
 */
export function expandNodePortAddresses({given, version, nodeIP}: NodePortAddressesInput): readonly string[] {
  if (version.minor < 37 && given[0] !== 'primary') return given;
  return given.flatMap(text => {
    if (text === 'primary') return families.flatMap(family => (isLoopback(nodeIP(family)) ? [] : [hostCidr(nodeIP(family), family)]));
    if (text === 'localhost') return ['127.0.0.0/8', '::1/128'];
    return text === 'all' ? ['0.0.0.0/0', '::/0'] : [text];
  });
}
