import {canonicalAddress} from '../../model/address.ts';
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
    const owners = new Map<string, string>();
    for (const node of api.nodes ?? []) {
      for (const {address, type} of node.status?.addresses ?? [])
        if (address !== undefined && type !== 'Hostname') owners.set(canonicalAddress(address) ?? address, node.metadata.name);
    }
    for (const service of concerned) {
      for (const address of service.spec?.externalIPs ?? []) {
        const node = owners.get(canonicalAddress(address) ?? address);
        const {namespace, name} = nameOf(service);
        if (node !== undefined)
          yield {
            service: {namespace, name},
            message: `${namespace}/${name}: external IP ${address} is the address of node ${node}: the Service takes its ports from the programs of the node`,
            ...editService({namespace, name}),
          };
      }
    }
  },
};
