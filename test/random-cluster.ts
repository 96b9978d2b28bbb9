import type {EndpointSliceObject, NodeObject, ServiceObject, ServicePortSpec, SliceEndpoint} from '../src/model/api-objects.ts';
import type {Family} from '../src/model/address.ts';
import type {ApiObjects, Snapshot} from '../src/model/snapshot.ts';
import type {Random} from './bench/random.ts';
import {apiObjects, type EndpointSetup, endpoint, type LoadBalancerIngress, nodeDump, service, slice} from './cluster.ts';
import {withRules} from './rendered-dump.ts';

const nodes = ['node-a', 'node-b', 'node-c'] as const;
const zones = ['zone-1', 'zone-2', 'zone-2'] as const;

/** What the versions of kube-proxy write differs between these. */
export const minors = [21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 33, 34, 35, 36] as const;

/**
 * A cluster of a few Services of every shape that the API allows, and what the kube-proxy of this version should have written
 * on node-a: nothing is wrong with it.
 */
export function randomCluster(random: Random, minor: number): Snapshot {
  const draw = new Draw(random);
  const api = draw.objects();
  const bare = {origin: 'random', api, problems: [], nodes: [nodeDump('node-a', draw.nodeFiles(minor))]};
  return withRules(bare, random);
}

/** Such a cluster of three nodes, without rules. Most nodes have the same settings. */
export function bareCluster(random: Random, minor: number): Snapshot {
  const draw = new Draw(random);
  const api = draw.objects();
  const common = draw.nodeFiles(minor);
  const dumps = nodes.map((name, index) => {
    const files = random.chance(0.8) ? common : draw.nodeFiles(minor);
    return nodeDump(name, {...files, 'addresses.json': addressesOf(index)});
  });
  return {origin: 'random', api, problems: [], nodes: dumps};
}

/** What `ip -j address` prints on a node. */
function addressesOf(index: number): string {
  return JSON.stringify([
    {ifname: 'lo', addr_info: [{local: '127.0.0.1'}, {local: '::1'}]},
    {ifname: 'eth0', addr_info: [{local: `192.168.1.${10 + index}`}, {local: `fd00:192::${10 + index}`}]},
  ]);
}

class Draw {
  readonly #random: Random;
  #nextNodePort = 30_000;
  #nextAddress = 1;

  constructor(random: Random) {
    this.#random = random;
  }

  objects(): ApiObjects {
    const shapes = Array.from({length: 1 + this.#random.below(5)}, (_, index) => this.service(index));
    return apiObjects({
      services: shapes.map(shape => shape.service),
      endpointSlices: shapes.flatMap(shape => shape.slices),
      nodes: nodes.map(nodeObject),
    });
  }

  service(index: number): {readonly service: ServiceObject; readonly slices: readonly EndpointSliceObject[]} {
    const random = this.#random;
    const name = `${random.pick(['shop', 'infra'])}/svc-${index}`;
    const families = random.pick<readonly Family[]>([['IPv4'], ['IPv4'], ['IPv6'], ['IPv4', 'IPv6'], ['IPv6', 'IPv4']]);
    const type = random.pick(['ClusterIP', 'ClusterIP', 'NodePort', 'NodePort', 'LoadBalancer', 'LoadBalancer']);
    const ports = this.#ports(type);
    const clusterIPs = families.map(family => this.#clusterIP(family, index));
    const external = random.chance(0.25) ? families.map(family => this.#external(family, 100 + this.#nextAddress++)) : [];
    const local = random.chance(0.4);
    const spec = {
      ...{type, ports, clusterIPs, clusterIP: clusterIPs[0] ?? '', ipFamilies: families, externalIPs: external},
      ...(type === 'ClusterIP' && external.length === 0 ? {} : {externalTrafficPolicy: local ? 'Local' : 'Cluster'}),
      ...(random.chance(0.3) ? {internalTrafficPolicy: random.pick(['Local', 'Cluster'])} : {}),
      ...(random.chance(0.3)
        ? {sessionAffinity: 'ClientIP', sessionAffinityConfig: {clientIP: {timeoutSeconds: random.pick([60, 10_800])}}}
        : {sessionAffinity: 'None'}),
      ...(type === 'LoadBalancer' && local ? {healthCheckNodePort: this.#nodePort()} : {}),
      ...(type === 'LoadBalancer' && random.chance(0.5) ? {loadBalancerSourceRanges: this.#ranges()} : {}),
    };
    const ingress =
      type === 'LoadBalancer' ? Array.from({length: random.below(3)}, () => this.#ingress(random.pick(['IPv4', ...families]))) : [];
    const annotations: Readonly<Record<string, string>> = random.chance(0.3)
      ? {'service.kubernetes.io/topology-mode': 'Auto', 'service.kubernetes.io/topology-aware-hints': 'Auto'}
      : {};
    return {
      service: service(name, spec, {ingress, metadata: {annotations}}),
      slices: families.flatMap(family => this.#slices(name, family, ports)),
    };
  }

  /** The files of a node beside its rules: version and settings of its kube-proxy, and the node's addresses. */
  nodeFiles(minor: number): Readonly<Record<string, string>> {
    const random = this.#random;
    const detect = random.pick([
      {clusterCIDR: '10.244.0.0/16,fd00:10::/32'},
      {clusterCIDR: '10.244.0.0/16'},
      {detectLocalMode: 'NodeCIDR'},
      {detectLocalMode: 'BridgeInterface', detectLocal: {bridgeInterface: 'cbr0'}},
      {detectLocalMode: 'InterfaceNamePrefix', detectLocal: {interfaceNamePrefix: 'veth'}},
      {},
    ]);
    const config = {
      ...{apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', mode: 'iptables', ...detect},
      iptables: {
        masqueradeAll: random.chance(0.1),
        masqueradeBit: random.chance(0.1) ? 5 : 14,
        ...(random.chance(0.2) ? {localhostNodePorts: false} : {}),
      },
      nodePortAddresses: random.pick<readonly string[] | null>([null, null, ['192.168.1.0/24'], ['127.0.0.0/8'], ['primary']]),
    };
    return {
      'kube-proxy-version': `v1.${minor}.0\n`,
      'kube-proxy-config.yaml': JSON.stringify(config),
      'addresses.json': addressesOf(0),
      ...(random.chance(0.2) ? {sysctls: 'net.netfilter.nf_conntrack_tcp_be_liberal = 1\n'} : {}),
    };
  }

  #ports(type: string): readonly ServicePortSpec[] {
    const random = this.#random;
    const count = random.pick([1, 1, 1, 2, 3]);
    const unnamed = count === 1 && random.chance(0.3);
    const withNodePorts = type === 'NodePort' || (type === 'LoadBalancer' && random.chance(0.8));
    return Array.from({length: count}, (_, index) => ({
      ...(unnamed ? {} : {name: `p${index}`}),
      protocol: random.pick(['TCP', 'TCP', 'UDP', 'SCTP']),
      port: 80 + index,
      ...(withNodePorts ? {nodePort: this.#nodePort()} : {}),
    }));
  }

  #slices(name: string, family: Family, ports: readonly ServicePortSpec[]): readonly EndpointSliceObject[] {
    const random = this.#random;
    const hints = random.pick(['none', 'none', 'zones', 'nodes', 'some'] as const);
    const known: SliceEndpoint[] = [];
    return Array.from({length: random.pick([0, 1, 1, 1, 2])}, (_, index) => {
      const own = Array.from({length: random.below(4)}, () => this.#endpoint(family, hints));
      // While the controller moves an endpoint, two slices hold it, and agree.
      const again = random.chance(0.2) ? known.slice(0, 1) : [];
      known.push(...own);
      return slice(name, [...own, ...again], {
        name: `${name.split('/')[1]}-${family.toLowerCase()}-${index}`,
        addressType: family,
        ports: ports
          .filter(() => !random.chance(0.05))
          .map(({name: portName, protocol = 'TCP', port = 0}) => ({name: portName ?? '', protocol, port: 8000 + port})),
      });
    });
  }

  #endpoint(family: Family, hints: 'none' | 'zones' | 'nodes' | 'some'): SliceEndpoint {
    const random = this.#random;
    const node = random.below(nodes.length);
    const host = this.#nextAddress++;
    const onHost = random.chance(0.1);
    const pod = family === 'IPv4' ? `10.244.${node + 1}.${host}` : `fd00:10:${node + 1}::${host.toString(16)}`;
    const ofNode = family === 'IPv4' ? `192.168.1.${10 + node}` : `fd00:192::${10 + node}`;
    const ready = {ready: true, serving: true, terminating: false};
    const conditions = random.pick<EndpointSetup>([
      ...([ready, ready, ready, ready] as const),
      {},
      {ready: false, serving: false, terminating: false},
      {ready: false, serving: true, terminating: true},
      {ready: false, serving: false, terminating: true},
    ]);
    const zone = zones[node] ?? 'zone-1';
    const given = hints === 'none' || (hints === 'some' && random.chance(0.5)) ? {} : {zones: [zone]};
    const ofNodes = hints === 'nodes' ? {nodes: [nodes[node] ?? 'node-a']} : {};
    return endpoint(onHost ? ofNode : pod, random.chance(0.9) ? nodes[node] : undefined, {...conditions, ...given, ...ofNodes});
  }

  #ranges(): readonly string[] {
    const random = this.#random;
    const all = ['198.51.100.0/24', '203.0.113.0/28', '192.168.0.0/16', '2001:db8::/32', '0.0.0.0/0', ' 192.0.2.0/24'] as const;
    return random.shuffle(all).slice(0, 1 + random.below(3));
  }

  #ingress(family: Family): LoadBalancerIngress {
    const random = this.#random;
    if (random.chance(0.15)) return {hostname: 'lb.example.com'};
    const ipMode = random.pick([undefined, 'VIP', 'VIP', 'Proxy']);
    return {ip: this.#external(family, 100 + this.#nextAddress++), ...(ipMode === undefined ? {} : {ipMode})};
  }

  #clusterIP(family: Family, index: number): string {
    return family === 'IPv4' ? `10.96.0.${index + 10}` : `fd00:96::${index + 10}`;
  }

  #external(family: Family, host: number): string {
    return family === 'IPv4' ? `203.0.113.${host % 250}` : `2001:db8:1::${host.toString(16)}`;
  }

  #nodePort(): number {
    return this.#nextNodePort++;
  }
}

function nodeObject(name: string, index: number): NodeObject {
  return {
    metadata: {name, labels: {'kubernetes.io/os': 'linux', 'topology.kubernetes.io/zone': zones[index] ?? 'zone-1'}},
    spec: {podCIDRs: [`10.244.${index + 1}.0/24`, `fd00:10:${index + 1}::/64`]},
    status: {
      addresses: [
        {type: 'InternalIP', address: `192.168.1.${10 + index}`},
        {type: 'InternalIP', address: `fd00:192::${10 + index}`},
      ],
    },
  };
}
