import {type NodeInfo, Unreachable} from '../node/transport.ts';

/**
 * Refuses a node name that Kubernetes does not allow (a DNS subdomain): names are used in command lines of ssh and docker, where
 * `-oProxyCommand=…` would be an option.
 */
export function refuseInvalidNodeName({name}: NodeInfo): void {
  if (/^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(name) && name.length <= 253) return;
  throw new Unreachable(`the node name ${JSON.stringify(name)} is none that Kubernetes allows: it is not used in a command`, {
    isPermanent: true,
  });
}
