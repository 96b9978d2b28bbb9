import {canonicalAddress} from '../../model/address.ts';
import type {NodeObject, ServiceObject} from '../../model/api-objects.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import type {Check} from '../check.ts';
import {nameOf} from '../service-observation.ts';
import {editService} from '../commands/service-commands.ts';

export const nodeAddressAsExternalIP: Check<'ST106'> = {
  code: 'ST106',
  name: 'node-address-as-external-ip',
  severity: 'warning',
  summary: "externalIPs holds a node's own address",
  remedy: 'Use an address that no node has. The Service intercepts this port of the node, and in IPVS mode every node binds the address.',
  *cluster({services, api}) {
    // Seldom used, and the addresses of thousands of nodes take longer to read than one Service to check.
    const concerned = services.filter(({spec}) => (spec?.externalIPs ?? []).length > 0);
    if (concerned.length === 0) return;
    const owners = new Map<string, NodeObject>();
    for (const node of api.nodes ?? []) {
      for (const {address, type} of node.status?.addresses ?? [])
        if (address !== undefined && type !== 'Hostname') owners.set(canonicalAddress(address) ?? address, node);
    }
    for (const service of concerned) {
      for (const address of service.spec?.externalIPs ?? []) {
        const node = owners.get(canonicalAddress(address) ?? address);
        const {namespace, name} = nameOf(service);
        if (node === undefined) continue;
        const lost = lostWith(service, node, api);
        const effect = lost ?? 'the Service takes its ports from the programs of the node';
        yield {
          service: {namespace, name},
          ...(lost === null ? {} : {severity: 'error' as const}),
          message: `${namespace}/${name}: external IP ${address} is the address of node ${node.metadata.name}: ${effect}`,
          ...editService({namespace, name}),
        };
      }
    }
  },
};

/** What the cluster loses by it; null if nothing but ports of programs. */
function lostWith({spec}: ServiceObject, {metadata, status}: NodeObject, {configMaps}: ApiObjects): string | null {
  const isControlPlane = Object.keys(metadata.labels ?? {}).some(label =>
    /^node-role\.kubernetes\.io\/(?:control-plane|master)$/.test(label),
  );
  const isIpvs = (configMaps ?? []).some(({data}) => Object.values(data ?? {}).some(text => /^\s*mode:\s*["']?ipvs\b/m.test(text)));
  if (isIpvs)
    return `in IPVS mode every other node binds the address and no longer reaches the node${isControlPlane ? ', which is of the control plane' : ''}`;
  const ports = (spec?.ports ?? []).map(({port}) => port);
  if (isControlPlane && ports.includes(6443)) return 'the Service takes the port of the API server, and nodes and pods no longer reach it';
  const kubelet = status?.daemonEndpoints?.kubeletEndpoint?.Port || 10_250;
  return ports.includes(kubelet) ? 'the Service takes the port of the kubelet: logs, exec and metrics of the node fail' : null;
}
