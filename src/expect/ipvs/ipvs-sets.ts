import type {Family} from '../../model/address.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import {ruleChanges, since, sinceChange, upTo} from '../patch-releases.ts';

/** The ipsets of kube-proxy with their types, under their IPv4 names. */
export const setTypes = {
  'KUBE-LOOP-BACK': 'hash:ip,port,ip',
  'KUBE-CLUSTER-IP': 'hash:ip,port',
  'KUBE-EXTERNAL-IP': 'hash:ip,port',
  'KUBE-EXTERNAL-IP-LOCAL': 'hash:ip,port',
  'KUBE-LOAD-BALANCER': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-LOCAL': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-FW': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-SOURCE-CIDR': 'hash:ip,port,net',
  'KUBE-LOAD-BALANCER-SOURCE-IP': 'hash:ip,port,ip',
  'KUBE-NODE-PORT-TCP': 'bitmap:port',
  'KUBE-NODE-PORT-LOCAL-TCP': 'bitmap:port',
  'KUBE-NODE-PORT-UDP': 'bitmap:port',
  'KUBE-NODE-PORT-LOCAL-UDP': 'bitmap:port',
  'KUBE-NODE-PORT-SCTP-HASH': 'hash:ip,port',
  'KUBE-NODE-PORT-LOCAL-SCTP-HASH': 'hash:ip,port',
  'KUBE-HEALTH-CHECK-NODE-PORT': 'bitmap:port',
  'KUBE-IPVS-IPS': 'hash:ip',
} as const;

export type SetRole = keyof typeof setTypes;

/** The sets that kube-proxy of this version creates in each family, whether it fills them or not. */
export function setRoles(version: KubeProxyVersion): readonly SetRole[] {
  const all = Object.keys(setTypes) as SetRole[];
  return hasIpvsFilter(version) ? all : all.filter(role => role !== 'KUBE-IPVS-IPS');
}

/** The kernel allows 31 characters, so kube-proxy cuts the longer IPv6 names. */
export function setName(role: SetRole, family: Family): string {
  return family === 'IPv4' ? role : role.replace('KUBE-', 'KUBE-6-').slice(0, 31);
}

/**
 * The differences between versions of kube-proxy in IPVS mode only: one function for each. Differences in Services and endpoints are in
 * `cluster/proxy-versions.ts`.
 */

/** 1.26: KUBE-IPVS-FILTER blocks the node's own ports on the addresses of Services, which are in KUBE-IPVS-IPS. */
export const hasIpvsFilter = since(26);

/** 1.26: packets from the loopback address are not changed. */
export const skipsLoopbackSources = since(26);

/** Up to 1.24 source ranges are enforced in table nat, by KUBE-FIREWALL and KUBE-MARK-DROP; later in table filter. */
export const firewallsInNat = upTo(24);

/** Up to 1.22 node ports of SCTP are marked before those of the Local policy return (kubernetes#104756). */
export const marksSctpFirst = upTo(22);

/** Health-check ports answer on the addresses of Services. */
export const admitsHealthChecks = sinceChange(ruleChanges.healthCheckPorts);

/** KUBE-IPVS-FILTER accepts packets to external IPs of Services with the external policy Local. */
export const admitsLocalExternalIPs = sinceChange(ruleChanges.localExternalIPs);

/** 1.29: KUBE-IPVS-OUT-FILTER drops packets from the node to a load-balancer address whose source ranges exclude it. */
export const hasIpvsOutFilter = since(29);

/** An address of another interface of the node is not bound to kube-ipvs0. */
export const sparesOtherInterfaces = sinceChange(ruleChanges.otherInterfaces);

/** 1.27: the scheduler `mh` hashes the client's port too. */
export const hashesPorts = since(27);
