import {canonicalAddress} from '../../model/address.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import type {Family} from '../../model/family.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {ServiceStates} from './service-states.ts';

/** An address, protocol and port at which a node answers. */
export interface AnsweredPlace {
  readonly family: Family;
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
}

/** The Service that an address or a node port belonged to within the grace period; null if it is none of those that changed. */
export type FormerOwner = (place: AnsweredPlace) => ServiceName | null;

/** For what names no Service by itself, such as a virtual server of IPVS. */
export function formerOwners(all: readonly Pick<ServiceStates, 'family' | 'states'>[]): FormerOwner {
  const owners = new Map<string, ServiceName>();
  for (const {family, states} of all) {
    for (const {service} of states) {
      if (service === null) continue;
      const name = {namespace: service.metadata.namespace ?? 'default', name: service.metadata.name};
      for (const address of addressesOf(service)) owners.set(address, name);
      for (const {protocol = 'TCP', nodePort = 0} of service.spec?.ports ?? [])
        if (nodePort !== 0) owners.set(nodePortKey(family, protocol, nodePort), name);
    }
  }
  return ({family, protocol, address, port}) =>
    owners.get(canonicalAddress(address) ?? address) ?? owners.get(nodePortKey(family, protocol, port)) ?? null;
}

function addressesOf({spec, status}: ServiceObject): readonly string[] {
  const {clusterIP, clusterIPs, externalIPs} = spec ?? {};
  const ingress = (status?.loadBalancer?.ingress ?? []).flatMap(({ip}) => ip ?? []);
  return [clusterIP ?? [], clusterIPs ?? [], externalIPs ?? [], ingress].flat().flatMap(address => canonicalAddress(address) ?? []);
}

function nodePortKey(family: Family, protocol: string, port: number): string {
  return `${family} ${protocol} ${port}`;
}
