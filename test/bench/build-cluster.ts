import {clusterNode, externalAddress, loadBalancerAddress, MAX_NODES, POD_CIDR, podAddress, serviceAddress} from './address-plan.ts';
import type {ClusterSize} from './cluster-size.ts';
import type {Cluster, ClusterNode, Endpoint, Family, Ingress, Pod, Service, ServicePort} from './model.ts';
import {type Random, seededRandom} from './random.ts';
import {drawShapes, PLAIN, type Shape} from './service-shapes.ts';

const PODS_ON_A_NODE = 100;

/** A pod and its address in each family. */
interface PlacedPod {
  pod: Pod;
  address: Record<Family, string>;
}

interface Placement {
  captured: ClusterNode[];
  fleet: ClusterNode[];
  /** A pod on any node of the cluster. */
  anywhere(owner: string): PlacedPod;
  /** A pod on a node whose rules are not written. */
  elsewhere(owner: string): PlacedPod;
  on(node: ClusterNode, owner: string): PlacedPod;
}

/**
 * The cluster has as many nodes as its pods need, and only some of them are
 * looked at: as with a bundle taken from a few nodes of a large cluster, nearly
 * all endpoints are remote ones.
 */
function podPlacement(size: ClusterSize, random: Random): Placement {
  const wanted = Math.ceil((size.services * size.endpoints) / PODS_ON_A_NODE);
  // Past the most nodes there can be, each has more pods.
  const needed = Math.min(wanted, MAX_NODES - size.nodes);
  const count = size.nodes + Math.max(3, needed);
  if (count > MAX_NODES) {
    throw new RangeError(`${count} nodes would be needed and ${MAX_NODES} are the most`);
  }
  const fleet = Array.from({length: count}, (_, index) => ({node: clusterNode(index), index}));
  const pods = new Uint32Array(count);

  function placeOn(index: number, owner: string): PlacedPod {
    const number = pods[index] ?? 0;
    pods[index] = number + 1;
    const node = fleet[index]?.node;
    if (node === undefined) {
      throw new RangeError(`no node ${index}`);
    }
    return {
      pod: {name: `${owner}-${random.suffix()}${number.toString(36)}`, uid: random.uuid(), node},
      address: {
        IPv4: podAddress('IPv4', index, number),
        IPv6: podAddress('IPv6', index, number),
      },
    };
  }

  return {
    captured: fleet.slice(0, size.nodes).map(({node}) => node),
    fleet: fleet.map(({node}) => node),
    anywhere: owner => placeOn(random.below(count), owner),
    elsewhere: owner => placeOn(size.nodes + random.below(count - size.nodes), owner),
    on: (node, owner) =>
      placeOn(
        fleet.findIndex(entry => entry.node === node),
        owner,
      ),
  };
}

const FIRST_NODE_PORT = 30_000;
const NODE_PORTS = 2_768;

/** Hands out what a cluster has only once: Service addresses, node ports, outside addresses. */
interface AddressDraw {
  clusterIP(family: Family): string;
  loadBalancerIP(family: Family): string;
  externalIP(): string;
  nodePort(): number;
  nodePortsLeft(): number;
}

function addressDraw(random: Random): AddressDraw {
  // .1 is the API server's Service and .10 the DNS Service, everywhere.
  const nextClusterIP: Record<Family, number> = {IPv4: 10, IPv6: 10};
  const nextLoadBalancer: Record<Family, number> = {IPv4: 0, IPv6: 0};
  let nextExternal = 0;
  const nodePorts = random.shuffle(Array.from({length: NODE_PORTS}, (_, index) => FIRST_NODE_PORT + index));
  return {
    clusterIP: family => serviceAddress(family, nextClusterIP[family]++),
    loadBalancerIP: family => loadBalancerAddress(family, nextLoadBalancer[family]++),
    externalIP: () => externalAddress(nextExternal++),
    nodePort: () => nodePorts.pop() ?? 0,
    nodePortsLeft: () => nodePorts.length,
  };
}

const APPS: readonly [string, ...string[]] = [
  'api',
  'billing',
  'cache',
  'catalog',
  'checkout',
  'frontend',
  'gateway',
  'inventory',
  'ledger',
  'mailer',
  'notifier',
  'orders',
  'payments',
  'profile',
  'search',
  'sessions',
  'shipping',
  'worker',
];
const TARGET_PORTS: readonly [number, ...number[]] = [8080, 3000, 5000, 9090];
const SERVICE_PORTS: readonly [number, ...number[]] = [80, 443, 8080];

export function buildCluster(size: ClusterSize): Cluster {
  if (size.services < 2 || size.endpoints < 1 || size.nodes < 1) {
    throw new RangeError('a cluster has at least 2 Services, 1 endpoint for each and 1 node');
  }
  const random = seededRandom(size.seed);
  const place = podPlacement(size, random);
  const draw = addressDraw(random);
  const shapes = drawShapes(size.services - 2, random);
  const namespaces = 1 + Math.floor(size.services / 40);
  const services = [
    apiServerService(random),
    dnsService(random, place),
    ...shapes.map((shape, index) => {
      const name = `${random.pick(APPS)}-${String(index).padStart(5, '0')}`;
      const namespace = `team-${String(random.below(namespaces)).padStart(3, '0')}`;
      return service({namespace, name, shape, size, random, place, draw});
    }),
  ];
  return {services, nodes: place.captured, fleet: place.fleet, podCIDR: POD_CIDR};
}

function blankService(namespace: string, name: string, random: Random): Service {
  return {
    namespace,
    name,
    uid: random.uuid(),
    type: 'ClusterIP',
    families: ['IPv4'],
    clusterIPs: [],
    ports: [],
    externalIPs: [],
    ingress: [],
    sourceRanges: [],
    externalLocal: false,
    internalLocal: false,
    affinitySeconds: 0,
    healthCheckNodePort: 0,
    endpoints: {IPv4: [], IPv6: []},
  };
}

function apiServerService(random: Random): Service {
  const ready = {ready: true, serving: true, terminating: false};
  return {
    ...blankService('default', 'kubernetes', random),
    clusterIPs: [serviceAddress('IPv4', 0)],
    ports: [port('https', 'TCP', 443, 6443)],
    endpoints: {
      IPv4: [2, 3, 4].map(last => ({address: `172.18.0.${last}`, ...ready})),
      IPv6: [],
    },
  };
}

function dnsService(random: Random, place: Placement): Service {
  const pods = [place.anywhere('coredns'), place.anywhere('coredns')];
  return {
    ...blankService('kube-system', 'kube-dns', random),
    clusterIPs: [serviceAddress('IPv4', 9)],
    ports: [...DNS_PORTS, port('metrics', 'TCP', 9153, 9153)],
    endpoints: {IPv4: pods.map(placed => endpoint(placed, 'IPv4', false, random)), IPv6: []},
  };
}

function port(name: string, protocol: ServicePort['protocol'], number: number, targetPort: number): ServicePort {
  return {name, protocol, port: number, targetPort, nodePort: 0};
}

const DNS_PORTS: readonly ServicePort[] = [port('dns', 'UDP', 53, 5353), port('dns-tcp', 'TCP', 53, 5353)];

interface ServiceOrder {
  namespace: string;
  name: string;
  shape: Shape;
  size: ClusterSize;
  random: Random;
  place: Placement;
  draw: AddressDraw;
}

function service(order: ServiceOrder): Service {
  const {draw, random} = order;
  // Two ports and a health-check port are the most a Service asks for. A cluster
  // has 2,768 node ports; past them, Services are cluster IPs, as they would be.
  const shape = order.shape.type !== undefined && draw.nodePortsLeft() < 3 ? PLAIN : order.shape;
  const built = blankService(order.namespace, order.name, random);
  built.type = shape.type ?? 'ClusterIP';
  built.ports = servicePorts(shape, random, draw);
  if (shape.type === 'ExternalName') {
    built.families = [];
    return built;
  }
  built.families = shape.dualStack ? ['IPv4', 'IPv6'] : shape.ipv6Only ? ['IPv6'] : ['IPv4'];
  built.clusterIPs = shape.headless ? ['None'] : built.families.map(draw.clusterIP);
  built.externalLocal = shape.externalLocal ?? false;
  built.internalLocal = shape.internalLocal ?? false;
  built.affinitySeconds = shape.affinity ? 10_800 : 0;
  if (shape.externalIPs) {
    built.externalIPs = [draw.externalIP(), draw.externalIP()];
  }
  if (shape.type === 'LoadBalancer') {
    built.ingress = ingress(shape, built.families, draw);
    built.healthCheckNodePort = shape.externalLocal ? draw.nodePort() : 0;
  }
  if (shape.sourceRanges) {
    // kube-proxy adds a rule of its own if a range holds the node's address: both cases occur.
    built.sourceRanges = ['203.0.113.0/24', random.chance(0.5) ? '172.18.0.0/16' : '192.0.2.0/25'];
  }
  if (!shape.empty) {
    const pods = servicePods(order, built.externalLocal || built.internalLocal);
    for (const family of built.families) {
      built.endpoints[family] = pods.map((placed, index) =>
        // The first stays ready, so that a rollout never leaves a Service with nothing.
        endpoint(placed, family, index > 0 && shape.rolling === true, random),
      );
    }
  }
  return built;
}

function servicePorts(shape: Shape, random: Random, draw: AddressDraw): ServicePort[] {
  if (shape.type === 'ExternalName') {
    return [];
  }
  const ports = portList(shape, random);
  const wantsNodePort = shape.type !== undefined && !shape.noNodePorts;
  return ports.map(entry => ({...entry, nodePort: wantsNodePort ? draw.nodePort() : 0}));
}

function portList(shape: Shape, random: Random): readonly ServicePort[] {
  switch (shape.ports) {
    case 'http-and-metrics':
      return [port('http', 'TCP', 80, 8080), port('metrics', 'TCP', 9090, 9090)];
    case 'dns':
      return DNS_PORTS;
    case 'udp':
      return [port('statsd', 'UDP', 8125, 8125)];
    default:
      return [port(random.chance(0.5) ? 'http' : '', 'TCP', random.pick(SERVICE_PORTS), random.pick(TARGET_PORTS))];
  }
}

function ingress(shape: Shape, families: readonly Family[], draw: AddressDraw): Ingress[] {
  switch (shape.ingress) {
    case 'hostname':
      return [{hostname: `lb-${draw.loadBalancerIP('IPv4').replaceAll('.', '-')}.example.com`}];
    case 'proxy':
      return [{ip: draw.loadBalancerIP('IPv4'), ipMode: 'Proxy'}];
    default:
      return families.map(family => ({ip: draw.loadBalancerIP(family), ipMode: 'VIP'}));
  }
}

/**
 * Where a traffic policy is Local, half of the nodes looked at get one of the
 * Service's pods and the other half none. Left to chance, a node of a large
 * cluster would hardly ever have one.
 */
function servicePods(order: ServiceOrder, local: boolean): PlacedPod[] {
  const {name, size, random, place} = order;
  const owner = `${name}-${random.uuid().slice(0, 8)}`;
  if (!local) {
    return Array.from({length: size.endpoints}, () => place.anywhere(owner));
  }
  const here = place.captured
    .filter(() => random.chance(0.5))
    .slice(0, size.endpoints)
    .map(node => place.on(node, owner));
  const rest = Array.from({length: size.endpoints - here.length}, () => place.elsewhere(owner));
  return [...here, ...rest];
}

function endpoint(placed: PlacedPod, family: Family, rolling: boolean, random: Random): Endpoint {
  const state = {address: placed.address[family], pod: placed.pod};
  if (rolling && random.chance(0.1)) {
    return {...state, ready: false, serving: false, terminating: false};
  }
  if (rolling && random.chance(0.1)) {
    return {...state, ready: false, serving: true, terminating: true};
  }
  return {...state, ready: true, serving: true, terminating: false};
}
