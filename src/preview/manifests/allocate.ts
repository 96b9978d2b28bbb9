import type {ServiceObject, ServicePortSpec, ServiceSpec} from '../../model/api-objects.ts';

interface ExistingServices {
  /** The current Service in the cluster. */
  readonly before: ServiceObject | undefined;
  readonly others: readonly ServiceObject[];
}

interface Allocated {
  readonly service: ServiceObject;
  readonly notes: readonly string[];
}

/** Gives a Service what the API server would allocate: a cluster IP and node ports, existing or assumed ones, and its status. */
export function allocate(service: ServiceObject, {before, others}: ExistingServices): Allocated {
  const {spec = {}} = service;
  if (spec.type === 'ExternalName') return {service, notes: []};
  const name = `${service.metadata.namespace ?? 'default'}/${service.metadata.name}`;
  const addresses = clusterIPs(spec, before?.spec, others);
  const ports = nodePorts(spec, before?.spec, others);
  const status = service.status ?? before?.status;
  return {
    service: {
      ...service,
      spec: {
        ...spec,
        clusterIP: addresses.value[0] ?? 'None',
        clusterIPs: addresses.value,
        ports: ports.value,
        ...healthCheck(spec, before?.spec),
      },
      ...(status === undefined ? {} : {status}),
    },
    notes: [
      ...(addresses.isStandIn ? [`${name} has no cluster IP yet; ${addresses.value.join(' and ')} stands in for it`] : []),
      ...(ports.isStandIn
        ? [`${name} has no node ports yet; ${ports.value.map(({nodePort}) => nodePort).join(', ')} stand in for them`]
        : []),
    ],
  };
}

interface Choice<T> {
  readonly value: readonly T[];
  readonly isStandIn: boolean;
}

function clusterIPs(spec: ServiceSpec, before: ServiceSpec | undefined, others: readonly ServiceObject[]): Choice<string> {
  const given = spec.clusterIPs ?? (spec.clusterIP === undefined || spec.clusterIP === '' ? undefined : [spec.clusterIP]);
  const known = given ?? before?.clusterIPs ?? (before?.clusterIP === undefined ? undefined : [before.clusterIP]);
  if (known !== undefined) return {value: known, isStandIn: false};
  const used = new Set(others.flatMap(one => one.spec?.clusterIPs ?? [one.spec?.clusterIP ?? '']));
  const families = spec.ipFamilies ?? ['IPv4'];
  return {value: families.map(family => firstFree(family === 'IPv6' ? '2001:db8:198::' : '198.18.0.', used)), isStandIn: true};
}

/** Addresses reserved for documentation and benchmarks belong to no Service. */
function firstFree(prefix: string, used: ReadonlySet<string>): string {
  for (let at = 1; ; at++) {
    const address = prefix.endsWith(':') ? `${prefix}${at.toString(16)}` : `198.18.${Math.floor((at - 1) / 250)}.${((at - 1) % 250) + 1}`;
    if (!used.has(address)) return address;
  }
}

function nodePorts(spec: ServiceSpec, before: ServiceSpec | undefined, others: readonly ServiceObject[]): Choice<ServicePortSpec> {
  const ports = (spec.ports ?? []).map(port => ({...port, protocol: port.protocol ?? 'TCP'}));
  if (spec.type !== 'NodePort' && spec.type !== 'LoadBalancer') return {value: ports, isStandIn: false};
  const used = new Set(others.flatMap(one => one.spec?.ports?.map(({nodePort}) => nodePort) ?? []));
  let isStandIn = false;
  const value = ports.map(port => {
    const known =
      port.nodePort ?? before?.ports?.find(one => one.port === port.port && (one.protocol ?? 'TCP') === port.protocol)?.nodePort;
    if (known !== undefined) return {...port, nodePort: known};
    isStandIn = true;
    let nodePort = 30_000;
    while (used.has(nodePort)) nodePort++;
    used.add(nodePort);
    return {...port, nodePort};
  });
  return {value, isStandIn};
}

function healthCheck(spec: ServiceSpec, before: ServiceSpec | undefined): Pick<ServiceSpec, 'healthCheckNodePort'> {
  const port = spec.healthCheckNodePort ?? before?.healthCheckNodePort;
  return port === undefined ? {} : {healthCheckNodePort: port};
}
