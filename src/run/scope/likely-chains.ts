import {endpointSet, sliceOwner} from '../../expect/cluster/endpoint-sets.ts';
import {type ProxyVersion, servicePorts} from '../../expect/cluster/service-ports.ts';
import {chainName, endpointChainName} from '../../expect/iptables/chain-names.ts';
import type {EndpointSliceObject, ServiceObject} from '../../model/api-objects.ts';
import type {Family} from '../../model/family.ts';
import {newestKnownMinor} from '../../model/proxy-config.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/**
 * The chains that kube-proxy most probably has for these Services and their endpoints, before its version and settings are known. A name too
 * many costs one command, and one that is not here a round trip.
 */
export function likelyChains(
  services: readonly ServiceObject[],
  slices: readonly EndpointSliceObject[],
): Readonly<Record<Family, readonly string[]>> {
  const ofFamily = (family: Family): readonly string[] =>
    services.flatMap(service => {
      const own = slices.filter(slice => sliceOwner(slice, newestProxy.version) === namespacedName(service.metadata));
      return servicePorts(service, family, newestProxy).flatMap(port => chainsOf(port, own));
    });
  return {IPv4: ofFamily('IPv4'), IPv6: ofFamily('IPv6')};
}

function chainsOf(port: ServicePort, slices: readonly EndpointSliceObject[]): readonly string[] {
  const ready = endpointSet(port, slices, newestProxy.version).endpoints.filter(endpoint => endpoint.ready);
  // With a Local policy or topology hints it depends on the node which endpoints it uses.
  if (ready.length === 0 || port.internalPolicyLocal) return [];
  const own = chainName('SVC', port.hash);
  if (ready.some(({zoneHints, nodeHints}) => zoneHints !== null || nodeHints !== null)) return [own];
  return [own, ...ready.map(({hostPort}) => endpointChainName(port.servicePortName, port.protocol, hostPort))];
}

const newestProxy: ProxyVersion = {version: {text: `1.${newestKnownMinor}`, minor: newestKnownMinor, patch: 0}, gates: {}};
