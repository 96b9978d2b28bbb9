import {writesExternalIPs} from '../../expect/cluster/proxy-versions.ts';
import {servicePorts, whyNotServed, clusterIPOf} from '../../expect/cluster/cluster-view.ts';
import {families, type Family, parseCidr, canonicalAddress, familyOf, parseAddress} from '../../model/address.ts';
import {headlessLabel, type ServiceObject, type NodeObject} from '../../model/api-objects.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {ClusterContext} from '../check-types.ts';
import {check} from '../catalog.ts';
import {ofFields, showService} from '../commands/commands.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {someOf} from '../../model/text.ts';
import {nameOf} from '../../model/finding.ts';

export const addressFamilyMismatch = check('ST105', {
  *cluster({services, proxy}) {
    for (const service of services.filter(hasExternalAddress)) {
      if (whyNotServed(service, proxy.version) !== null) continue;
      const externalIPs = service.spec?.externalIPs ?? [];
      const ingress = service.status?.loadBalancer?.ingress ?? [];
      const external = externalIPs.map(address => ({address, what: 'external IP'}));
      const balancer = ingress.flatMap(({ip}) => (ip === undefined ? [] : [{address: ip, what: 'load-balancer IP'}]));
      const own = families.filter(family => clusterIPOf(service, family) !== null);
      for (const {address, what} of [...external, ...balancer]) {
        const family = familyOf(address);
        if (family !== null && own.includes(family)) continue;
        const reason = family === null ? 'is no IP address' : `is ${family}, and the Service has only ${own.join(' and ')}`;
        yield ofFields(service, `: ${what} ${address} ${reason}: no node serves it`);
      }
    }
  },
});

function hasExternalAddress({spec, status}: ServiceObject): boolean {
  return (spec?.externalIPs ?? []).length > 0 || (status?.loadBalancer?.ingress ?? []).length > 0;
}

export const nodeAddressAsExternalIP = check('ST106', {
  *cluster({services, api, view, proxy}) {
    // Seldom used, and the addresses of thousands of nodes take longer to read than one Service to check.
    const concerned = services.filter(({spec}) => (spec?.externalIPs ?? []).length > 0);
    if (concerned.length === 0) return;
    const owners = new Map<string, NodeObject>();
    for (const node of api.nodes ?? []) {
      for (const {address, type} of node.status?.addresses ?? [])
        if (address !== undefined && type !== 'Hostname') owners.set(canonicalAddress(address) ?? address, node);
    }
    const apiServers = new Set(
      families
        .flatMap(family => view.entries(family, proxy).filter(({port}) => port.namespace === 'default' && port.service === 'kubernetes'))
        .flatMap(({set}) => set.endpoints.map(endpoint => endpoint.address)),
    );
    for (const service of concerned) {
      for (const address of service.spec?.externalIPs ?? []) {
        const node = owners.get(canonicalAddress(address) ?? address);
        if (node === undefined && apiServers.has(canonicalAddress(address) ?? address)) {
          const text = `: external IP ${address} is the address at which the API server answers (an endpoint of default/kubernetes): in IPVS mode each node binds it to kube-ipvs0 and no longer reaches the API server there, in other modes the Service takes its own ports`;
          yield {...ofFields(service, text), variant: 'of-api-server'};
        }
        if (node === undefined) continue;
        const lost = lostWith(service, node, api);
        const effect = lost ?? 'the Service takes its ports from the programs of the node';
        const text = `: external IP ${address} is the address of node ${node.metadata.name}: ${effect}`;
        yield {...ofFields(service, text), severity: lost === null ? undefined : ('error' as const)};
      }
    }
  },
});

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

export const notServedByKubeProxy = check('ST107', {
  // Only for Services that were named: a cluster has many of them, and they are not faulty.
  *cluster({services, proxy, byName}) {
    if (!byName) return;
    for (const service of services) {
      const reason = whyNotServed(service, proxy.version);
      const {namespace, name} = nameOf(service);
      const message =
        reason === null ? pendingText(service) : `${namespace}/${name} is not served by kube-proxy: ${reason}${pitfallOf(service)}`;
      if (message === null) continue;
      yield {service: {namespace, name}, message, ...(reason === null ? {remedy: getController} : {}), ...showService({namespace, name})};
    }
  },
});

const getController =
  'Run a controller that gives addresses (that of the cloud, MetalLB, the ServiceLB of k3s): its log and the events of the Service say why it gives none. Until then use the node port.';

/** A load balancer without an address; null for any other Service. */
function pendingText({metadata, spec, status}: ServiceObject): string | null {
  if (spec?.type !== 'LoadBalancer' || (status?.loadBalancer?.ingress ?? []).length > 0) return null;
  const {loadBalancerClass} = spec;
  const whose = loadBalancerClass === undefined ? 'no controller has' : `the controller of its class ${loadBalancerClass} has not`;
  const nodePorts = (spec.ports ?? []).flatMap(({nodePort = 0}) => (nodePort === 0 ? [] : [String(nodePort)]));
  const outside = nodePorts.length === 0 ? 'at nothing' : `at node port ${someOf(nodePorts)} alone`;
  return `${metadata.namespace}/${metadata.name} is a load balancer without an address (status.loadBalancer is empty): ${whose} given it one. Clients outside reach it ${outside}`;
}

/** What such a Service does not do, and is often expected to; empty if its fields ask for nothing of the kind. */
function pitfallOf({spec}: ServiceObject): string {
  const {type, externalName = '', clusterIP} = spec ?? {};
  if (type === 'ExternalName')
    return parseAddress(externalName) === null
      ? ''
      : `. Its externalName ${externalName} is an address, and DNS takes it for a name: a Service without a selector and an EndpointSlice lead to an address`;
  const moved =
    clusterIP === 'None' ? (spec?.ports ?? []).filter(({port, targetPort}) => typeof targetPort === 'number' && targetPort !== port) : [];
  if (moved.length === 0) return '';
  return `. Its ports are not translated: clients connect to ${someOf(moved.map(({port, targetPort}) => `${targetPort}, not ${port}`))}`;
}

export const rangesOfOneFamily = check('ST114', {
  *cluster(context) {
    for (const {service, port} of portsWithRanges(context)) {
      if (port.loadBalancerVIPs.length === 0 || prefixesOf(service, port.family).length > 0) continue;
      const address = port.loadBalancerVIPs.join(', ');
      const text = `: loadBalancerSourceRanges have no ${port.family} range: its ${port.family} load-balancer IP ${address} admits every client`;
      yield ofFields(service, text);
    }
  },
});

export const externalIPWithRanges = check('ST115', {
  *cluster(context) {
    if (!writesExternalIPs(context.proxy.version, context.proxy.gates)) return;
    for (const {service, port} of portsWithRanges(context)) {
      const both = port.loadBalancerVIPs.filter(address => port.externalIPs.includes(address));
      const prefixes = prefixesOf(service, port.family);
      // A range of all addresses limits nobody.
      if (both.length === 0 || prefixes.length === 0 || prefixes.includes(0)) continue;
      const text = `: ${both.join(', ')} is external IP and load-balancer IP: iptables mode admits every client there, nftables and IPVS mode only loadBalancerSourceRanges`;
      yield ofFields(service, text);
    }
  },
});

export const headlessLabelWithClusterIP = check('ST116', {
  *cluster({services, proxy}) {
    for (const service of services.filter(({metadata}) => metadata.labels?.[headlessLabel] !== undefined)) {
      const {[headlessLabel]: _, ...labels} = service.metadata.labels ?? {};
      const without = {...service, metadata: {...service.metadata, labels}};
      if (whyNotServed(service, proxy.version) === null || whyNotServed(without, proxy.version) !== null) continue;
      const text = ` has the cluster IP ${service.spec?.clusterIP ?? ''} and the label ${headlessLabel}: kube-proxy up to 1.35 ignores the Service, and connections to it fail`;
      yield ofFields(service, text);
    }
  },
});

/** One port of each family of the Services with ranges: all ports of a family have the same addresses. */
function* portsWithRanges({
  services,
  proxy,
}: Pick<ClusterContext, 'services' | 'proxy'>): Iterable<{readonly service: ServiceObject; readonly port: ServicePort}> {
  for (const service of services.filter(({spec}) => (spec?.loadBalancerSourceRanges ?? []).length > 0)) {
    for (const family of families) {
      const [port] = servicePorts(service, family, proxy);
      if (port !== undefined) yield {service, port};
    }
  }
}

/** Of the source ranges of one family. */
function prefixesOf({spec}: ServiceObject, family: Family): readonly number[] {
  return (spec?.loadBalancerSourceRanges ?? [])
    .flatMap(range => parseCidr(range.trim()) ?? [])
    .filter(cidr => cidr.family === family)
    .map(({prefix}) => prefix);
}
