import type {Family} from '../../model/family.ts';
import type {KubeProxyVersion} from '../../model/proxy-config.ts';
import {hasIpvsFilter} from './ipvs-versions.ts';

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
