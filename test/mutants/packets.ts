import type {EndpointSliceObject, ServiceObject} from '../../src/model/api-objects.ts';
import {addressInside, type Family, familyOf, parseAddress, parseCidr} from '../../src/model/address.ts';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import type {Packet} from '../../src/trace/walked-packet.ts';

/** A packet to try, with the Service that it is for. */
export interface TestPacket {
  /** `namespace/name`, or what else it shows. */
  readonly about: string;
  readonly text: string;
  readonly packet: Packet;
  /** The Service keeps clients with their endpoint. */
  readonly affinity: boolean;
}

export interface PacketSetup {
  readonly api: ApiObjects;
  readonly node: string;
  readonly family: Family;
  /** The addresses of the node's interfaces. */
  readonly nodeAddresses: readonly string[];
  readonly clusterCIDR: string;
}

/**
 * Packets to every address of every Service from every kind of source, written down from the API objects alone: the
 * analysis does not choose them. Some packets that are for no Service are added.
 */
export function packetsOf(setup: PacketSetup): readonly TestPacket[] {
  const services = (setup.api.services ?? []).flatMap(service => servicePackets(service, setup));
  return [...services, ...otherPackets(setup)];
}

interface Sender {
  readonly address: string;
  readonly origin: Packet['origin'];
}

function servicePackets(service: ServiceObject, setup: PacketSetup): readonly TestPacket[] {
  const {metadata, spec = {}, status} = service;
  const about = `${metadata.namespace}/${metadata.name}`;
  const affinity = spec.sessionAffinity === 'ClientIP';
  const endpoints = endpointAddresses(about, setup);
  const ofFamily = (address: string | undefined): boolean => address !== undefined && familyOf(address) === setup.family;
  const vips = (status?.loadBalancer?.ingress ?? []).flatMap(({ip}) => (ip === undefined ? [] : [ip]));
  const addresses = [...(spec.clusterIPs ?? [spec.clusterIP ?? '']), ...vips, ...(spec.externalIPs ?? [])].filter(ofFamily);
  const senders = [
    ...usualSenders(setup),
    ...endpoints.map(address => senderAt(address, setup)),
    ...rangeSenders(spec.loadBalancerSourceRanges ?? [], vips, setup),
  ];
  return (spec.ports ?? []).flatMap(({port = 0, nodePort, protocol}) => {
    const targets = [
      ...[...new Set(addresses)].map(address => ({address, port})),
      ...(nodePort === undefined || !(spec.clusterIPs ?? []).some(ofFamily)
        ? []
        : setup.nodeAddresses.filter(ofFamily).map(address => ({address, port: nodePort}))),
    ];
    return targets.flatMap(target =>
      senders.flatMap(sender => packet({about, affinity, sender, target, protocol: protocol ?? 'TCP'}, setup)),
    );
  });
}

function endpointAddresses(service: string, {api, family}: PacketSetup): readonly string[] {
  const owner = ({metadata}: EndpointSliceObject): string => `${metadata.namespace}/${metadata.labels?.['kubernetes.io/service-name']}`;
  const all = (api.endpointSlices ?? []).filter(slice => owner(slice) === service).flatMap(({endpoints}) => endpoints ?? []);
  // Of hundreds of endpoints that are alike a few will do.
  return [...new Set(all.flatMap(({addresses}) => addresses ?? []))].filter(address => familyOf(address) === family).slice(0, 40);
}

function usualSenders(setup: PacketSetup): readonly Sender[] {
  const {api, node, family, nodeAddresses, clusterCIDR} = setup;
  const podCIDRs = (api.nodes ?? []).map(({metadata, spec}) => ({
    own: metadata.name === node,
    cidr: spec?.podCIDRs?.find(text => familyOf(text.split('/')[0] ?? '') === family),
  }));
  const pods = podCIDRs.flatMap(({cidr}) => inside(cidr));
  const outside = family === 'IPv4' ? ['192.88.99.7', '8.8.4.4'] : ['2620:fe::9'];
  const own = nodeAddresses.filter(address => familyOf(address) === family);
  return [
    ...[...new Set([...pods, ...inside(familyOf(clusterCIDR.split('/')[0] ?? '') === family ? clusterCIDR : undefined)])].map(arriving),
    ...outside.map(arriving),
    ...own.map((address): Sender => ({address, origin: 'node'})),
  ];
}

function inside(cidr: string | undefined): readonly string[] {
  const parsed = parseCidr(cidr ?? '');
  const address = parsed === null ? null : addressInside(parsed, new Set());
  return address === null ? [] : [address];
}

function rangeSenders(ranges: readonly string[] | undefined, vips: readonly string[], {family}: PacketSetup): readonly Sender[] {
  if (ranges === undefined || ranges.length === 0) return [];
  const allowed = ranges.flatMap(range => inside(range.trim()).map(arriving));
  return [...allowed, ...vips.map((address): Sender => ({address, origin: 'node'}))].filter(({address}) => familyOf(address) === family);
}

function arriving(address: string): Sender {
  return {address, origin: 'arriving'};
}

function senderAt(address: string, {nodeAddresses}: PacketSetup): Sender {
  return {address, origin: nodeAddresses.includes(address) ? 'node' : 'arriving'};
}

interface PacketParts {
  readonly about: string;
  readonly affinity?: boolean;
  readonly sender: Sender;
  readonly target: {readonly address: string; readonly port: number};
  readonly protocol: string;
}

function packet(
  {about, affinity = false, sender, target, protocol}: PacketParts,
  {family}: {readonly family: Family},
): readonly TestPacket[] {
  const source = parseAddress(sender.address);
  const destination = parseAddress(target.address);
  if (source === null || destination === null || source.family !== family || destination.family !== family) return [];
  // Nobody but the node itself can send to its loopback addresses.
  if (
    isLoopback(target.address) !== isLoopback(sender.address) &&
    (isLoopback(sender.address) || sender.origin === 'arriving') &&
    about !== martian
  )
    return [];
  return [
    {
      about,
      affinity,
      text: `${protocol} ${sender.address} (${sender.origin}) to ${target.address} port ${target.port}`,
      packet: {
        ...{family, source, destination, port: target.port, protocol: protocol.toLowerCase(), origin: sender.origin},
        ...{inInterface: null, outInterface: null, mark: 0, connectionMark: 0, rewritten: false, masquerade: false, untracked: false},
      },
    },
  ];
}

function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.');
}

const martian = 'a neighbor who writes to 127.0.0.1';

/** Labels packets that are for no Service. What third-party rules do to these alone is not reported. */
export const bystanders: ReadonlySet<string> = new Set(['the way out', 'the node itself', 'pod to pod', 'health checks']);

/** Packets that are for no Service: their outcome must not change. */
function otherPackets(setup: PacketSetup): readonly TestPacket[] {
  const {family, nodeAddresses} = setup;
  const senders = usualSenders(setup);
  const pods = senders.filter(({origin}) => origin === 'arriving');
  const own = nodeAddresses.filter(address => familyOf(address) === family && !isLoopback(address) && !address.startsWith('fe80:'));
  const world = family === 'IPv4' ? '9.9.9.9' : '2620:fe::fe';
  const healthPorts = (setup.api.services ?? []).flatMap(({spec}) => spec?.healthCheckNodePort ?? []);
  const to = (about: string, sender: Sender, address: string, port: number) =>
    packet({about, sender, target: {address, port}, protocol: 'TCP'}, setup);
  return [
    ...senders.flatMap(sender => to('the way out', sender, world, 443)),
    ...senders.flatMap(sender => own.flatMap(address => to('the node itself', sender, address, 22))),
    ...pods.flatMap(sender => pods.flatMap(({address}) => (address === sender.address ? [] : to('pod to pod', sender, address, 8080)))),
    ...pods.flatMap(sender => own.flatMap(address => healthPorts.flatMap(port => to('health checks', sender, address, port)))),
    ...(family === 'IPv4' ? pods.flatMap(sender => to(martian, sender, '127.0.0.1', 10_249)) : []),
  ];
}

/** Packets for an address and port that a changed rule names, which may be unused. */
export function packetsFor(rule: string, setup: PacketSetup): readonly TestPacket[] {
  const address = / -d (\S+?)\/(?:32|128)(?: |$)/.exec(rule)?.[1];
  const port = / --dport (\d+)/.exec(rule)?.[1];
  const protocol = / -p (\w+)/.exec(rule)?.[1] ?? 'tcp';
  if (port === undefined) return [];
  const targets = address === undefined ? setup.nodeAddresses : [address];
  return targets.flatMap(target =>
    usualSenders(setup).flatMap(sender =>
      packet({about: 'the changed rule', sender, target: {address: target, port: Number(port)}, protocol}, setup),
    ),
  );
}
