import type {KubeProxyVersion} from '../../model/proxy-config.ts';

/**
 * What differs between the versions of kube-proxy in IPVS mode alone: one function for each difference. What concerns Services
 * and endpoints in every mode stands with the iptables mode.
 */

/** 1.26: KUBE-IPVS-FILTER keeps the node's own ports off the addresses of Services, which KUBE-IPVS-IPS holds. */
export function hasIpvsFilter(version: KubeProxyVersion): boolean {
  return version.minor >= 26;
}

/** 1.26: packets from the loopback address are left alone. */
export function skipsLoopbackSources(version: KubeProxyVersion): boolean {
  return version.minor >= 26;
}

/** Up to 1.23 source ranges are enforced in table nat, by KUBE-FIREWALL and KUBE-MARK-DROP; later in table filter. Which 1.24 does is not known. */
export function firewallsInNat(version: KubeProxyVersion): boolean {
  return version.minor <= 23;
}

/** 1.28: health-check ports answer on the addresses of Services. */
export function admitsHealthChecks(version: KubeProxyVersion): boolean {
  return version.minor >= 28;
}

/** 1.30: KUBE-IPVS-FILTER lets external IPs of Services with external policy Local through. */
export function admitsLocalExternalIPs(version: KubeProxyVersion): boolean {
  return version.minor >= 30;
}

/** 1.29: what the node sends to a load-balancer address whose ranges leave it out is dropped in KUBE-IPVS-OUT-FILTER. */
export function hasIpvsOutFilter(version: KubeProxyVersion): boolean {
  return version.minor >= 29;
}

/** 1.28: an address that another interface of the node bears is not bound to kube-ipvs0. */
export function sparesOtherInterfaces(version: KubeProxyVersion): boolean {
  return version.minor >= 28;
}

/** 1.27: the scheduler `mh` hashes the client's port too. */
export function hashesPorts(version: KubeProxyVersion): boolean {
  return version.minor >= 27;
}
