import {type Family, familyOf} from '../../model/address.ts';
import type {ServiceObject, ServicePortSpec, ServiceSpec} from '../../model/api-objects.ts';
import {namespacedName} from '../../model/text.ts';

export interface ExistingServices {
  /** The current Service in the cluster. */
  readonly before: ServiceObject | undefined;
  /** All other Services: those of the cluster, and those of the manifests. */
  readonly others: readonly ServiceObject[];
}

/**
 * Gives a Service what the API server would allocate and fill in: cluster IPs and their families, node ports, the health check port, and its
 * status. Existing values are kept; where there are none, stand-ins are used. Follows `patchAllocatedValues`, `dropTypeDependentFields` and
 * the allocators of `pkg/registry/core/service`.
 */
export function allocate(
  service: ServiceObject,
  {before, others}: ExistingServices,
): {readonly service: ServiceObject; readonly notes: readonly string[]} {
  const {spec = {}} = service;
  if (spec.type === 'ExternalName') return {service, notes: []};
  const name = namespacedName(service.metadata);
  const was = before?.spec?.type === 'ExternalName' ? undefined : before?.spec;
  const addresses = clusterIPs(spec, was, others);
  const used = new Set(others.flatMap(nodePortsOf));
  const ports = nodePorts(spec, was, used);
  const check = healthCheck(spec, was, used);
  const status = statusOf(service, before);
  return {
    service: {
      ...service,
      spec: {
        ...spec,
        clusterIP: addresses.value[0] ?? 'None',
        clusterIPs: addresses.value,
        ...(addresses.value.includes('None') ? {} : {ipFamilies: addresses.value.flatMap(text => familyOf(text) ?? [])}),
        ports: ports.value,
        ...(check.value.length === 0 ? {} : {healthCheckNodePort: check.value[0]}),
      },
      ...(status === undefined ? {} : {status}),
    },
    notes: [
      ...standIns(addresses, [`has no cluster IP${plural(addresses)} yet`, 'has no second cluster IP yet'], name),
      ...standIns(ports, [`has no node port${plural(ports)} yet`], name),
      ...standIns(check, ['has no health check node port yet'], name),
    ],
  };
}

/** The addresses of a load balancer are no part of what is applied; a manifest that names some asks for them. */
function statusOf(service: ServiceObject, before: ServiceObject | undefined): ServiceObject['status'] {
  if ((service.status?.loadBalancer?.ingress ?? []).length > 0) return service.status;
  return service.spec?.type === 'LoadBalancer' ? (before?.status ?? service.status) : service.status;
}

interface Choice<T> {
  readonly value: readonly T[];
  /** Those of the value, as text, that are assumed. */
  readonly standIns: readonly string[];
}

function standIns({value, standIns: texts}: Choice<unknown>, [all = '', some = all]: readonly string[], name: string): readonly string[] {
  if (texts.length === 0) return [];
  const what = texts.length < value.length ? some : all;
  return [
    `${name} ${what}; ${texts.join(' and ')} ${texts.length === 1 ? 'stands' : 'stand'} in for ${texts.length === 1 ? 'it' : 'them'}`,
  ];
}

function plural({standIns: texts}: Choice<unknown>): string {
  return texts.length === 1 ? '' : 's';
}

function clusterIPs(spec: ServiceSpec, before: ServiceSpec | undefined, others: readonly ServiceObject[]): Choice<string> {
  const addresses = givenAddresses(spec, before);
  if (addresses.includes('None')) return {value: addresses, standIns: []};
  const families = familiesOf(spec, {addresses, others});
  const used = new Set(others.flatMap(clusterIPsOf));
  const assumed = families.slice(addresses.length).map(family => firstFree(family === 'IPv6' ? '2001:db8:198::' : '198.18.0.', used));
  return {value: [...addresses.slice(0, families.length), ...assumed], standIns: assumed};
}

/** `clusterIP` alone, as older clients write it, says nothing about the second address. */
function givenAddresses({clusterIP = '', clusterIPs: given}: ServiceSpec, before: ServiceSpec | undefined): readonly string[] {
  if (given !== undefined && given !== null && given.length > 0) return given;
  const current = before === undefined ? [] : addressesIn(before);
  return clusterIP === '' || clusterIP === current[0] ? current : [clusterIP];
}

/** Follows `defaultOnRead` and `initIPFamilyFields`. Without other Services nothing tells whether the cluster has both families. */
function familiesOf(
  {ipFamilies, ipFamilyPolicy}: ServiceSpec,
  {addresses, others}: {readonly addresses: readonly string[]; readonly others: readonly ServiceObject[]},
): readonly Family[] {
  const own = addresses.flatMap(text => familyOf(text) ?? []);
  const asked = (ipFamilies ?? []).filter(text => text === 'IPv4' || text === 'IPv6');
  const ofCluster = others.map(clusterIPsOf).find(([first = '']) => familyOf(first) !== null) ?? [];
  const [first = asked[0] ?? familyOf(ofCluster[0] ?? '') ?? 'IPv4'] = own;
  const hasBoth = others.length === 0 || others.some(other => clusterIPsOf(other).length > 1);
  const wantsBoth = asked.length > 1 || ipFamilyPolicy === 'RequireDualStack' || (ipFamilyPolicy === 'PreferDualStack' && hasBoth);
  const isSecondKept = own.length > 1 && ipFamilyPolicy !== 'SingleStack';
  return wantsBoth || isSecondKept ? [first, first === 'IPv4' ? 'IPv6' : 'IPv4'] : [first];
}

/** Addresses reserved for documentation and benchmarks belong to no Service. */
function firstFree(prefix: string, used: ReadonlySet<string>): string {
  for (let at = 1; ; at++) {
    const address = prefix.endsWith(':') ? `${prefix}${at.toString(16)}` : `198.18.${Math.floor((at - 1) / 250)}.${((at - 1) % 250) + 1}`;
    if (!used.has(address)) return address;
  }
}

/** A port that keeps its number, or its name, keeps its node port. */
function nodePorts(spec: ServiceSpec, before: ServiceSpec | undefined, used: Set<number>): Choice<ServicePortSpec> {
  const ports = (spec.ports ?? []).map(port => ({...port, protocol: port.protocol ?? 'TCP'}));
  if (!hasNodePorts(spec)) return {value: ports.map(({nodePort: _, ...port}) => port), standIns: []};
  const given = new Set(ports.map(({nodePort}) => nodePort ?? 0));
  const isFree = (nodePort: number | undefined): nodePort is number => (nodePort ?? 0) !== 0 && !given.has(nodePort ?? 0);
  const assumed: string[] = [];
  const value = ports.map(port => {
    if ((port.nodePort ?? 0) !== 0) return port;
    const old = hasNodePorts(before ?? {}) ? (before?.ports ?? []) : [];
    const same = old.find(one => one.port === port.port && (one.protocol ?? 'TCP') === port.protocol);
    const known = [same, old.find(({name}) => (name ?? '') === (port.name ?? ''))].map(one => one?.nodePort).find(isFree);
    if (known !== undefined) {
      given.add(known);
      return {...port, nodePort: known};
    }
    if (spec.type === 'LoadBalancer' && spec.allocateLoadBalancerNodePorts === false) return port;
    const nodePort = freePort(new Set([...used, ...given]));
    used.add(nodePort);
    assumed.push(String(nodePort));
    return {...port, nodePort};
  });
  return {value, standIns: assumed};
}

function healthCheck(spec: ServiceSpec, before: ServiceSpec | undefined, used: ReadonlySet<number>): Choice<number> {
  if (!needsHealthCheck(spec)) return {value: [], standIns: []};
  const known = [spec.healthCheckNodePort, needsHealthCheck(before ?? {}) ? before?.healthCheckNodePort : 0].find(
    port => (port ?? 0) !== 0,
  );
  if (known !== undefined) return {value: [known], standIns: []};
  const port = freePort(new Set([...used, ...(spec.ports ?? []).map(({nodePort = 0}) => nodePort)]));
  return {value: [port], standIns: [String(port)]};
}

function freePort(used: ReadonlySet<number>): number {
  let port = 30_000;
  while (used.has(port)) port++;
  return port;
}

/** `needsHCNodePort`. */
export function needsHealthCheck({type, externalTrafficPolicy}: ServiceSpec): boolean {
  return type === 'LoadBalancer' && externalTrafficPolicy === 'Local';
}

/** `needsNodePort`. */
export function hasNodePorts({type}: ServiceSpec): boolean {
  return type === 'NodePort' || type === 'LoadBalancer';
}

/** The cluster IPs of a Service, or `None`. */
export function clusterIPsOf({spec}: ServiceObject): readonly string[] {
  return spec === undefined ? [] : addressesIn(spec);
}

function addressesIn({clusterIP = '', clusterIPs: all}: ServiceSpec): readonly string[] {
  return all !== undefined && all !== null && all.length > 0 ? all : clusterIP === '' ? [] : [clusterIP];
}

/** Node ports, and the health check port, which comes from the same range. */
export function nodePortsOf({spec}: ServiceObject): readonly number[] {
  return [...(spec?.ports ?? []).map(({nodePort = 0}) => nodePort), spec?.healthCheckNodePort ?? 0].filter(port => port !== 0);
}
