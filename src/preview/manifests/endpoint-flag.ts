import {parseAddress} from '../../model/address.ts';
import type {EndpointSliceObject, ServiceObject, ServicePortSpec, SlicePort} from '../../model/api-objects.ts';
import {serviceNameLabel} from '../../model/endpoint.ts';

/** `IP[:PORT][@NODE]`, as given on a command line. */
export interface GivenEndpoint {
  readonly address: string;
  readonly family: 'IPv4' | 'IPv6';
  readonly port: number | null;
  readonly node: string | null;
}

/** Reads `10.0.0.1`, `10.0.0.1:8080@node-a`, `fd00::1`, `[fd00::1]:8080`; null if it is none of these. */
export function parseEndpoint(text: string): GivenEndpoint | null {
  const [place = '', node = null, ...rest] = text.split('@');
  if (rest.length > 0 || node === '') return null;
  const found = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(place) ?? /^([0-9a-fA-F:]+)$/.exec(place);
  const address = parseAddress(found?.[1] ?? found?.[2] ?? '');
  const port = found?.[3] === undefined ? null : Number(found[3]);
  if (address === null || (port !== null && (port < 1 || port > 65_535))) return null;
  return {address: address.text, family: address.family, port, node};
}

/** The slices that the given endpoints of a Service would be in. A port's name where a named target port has no number. */
export function slicesOf(service: ServiceObject, endpoints: readonly GivenEndpoint[]): readonly EndpointSliceObject[] | string {
  const ports = service.spec?.ports ?? [];
  const groups = Map.groupBy(endpoints, ({family, port}) => `${family} ${port}`);
  const slices: EndpointSliceObject[] = [];
  for (const [index, group] of [...groups.values()].entries()) {
    const [first] = group;
    if (first === undefined) continue;
    const slicePorts = ports.map(port => slicePort(port, first.port));
    const named = slicePorts.find(port => typeof port === 'string');
    if (typeof named === 'string') return named;
    slices.push({
      metadata: {
        name: `${service.metadata.name}-given-${index}`,
        namespace: service.metadata.namespace ?? 'default',
        labels: {[serviceNameLabel]: service.metadata.name},
      },
      addressType: first.family,
      ports: slicePorts.filter(port => typeof port !== 'string'),
      endpoints: group.map(({address, node}) => ({
        addresses: [address],
        conditions: {ready: true, serving: true, terminating: false},
        ...(node === null ? {} : {nodeName: node}),
      })),
    });
  }
  return slices;
}

function slicePort({name = '', protocol = 'TCP', port, targetPort}: ServicePortSpec, typedPort: number | null): SlicePort | string {
  if (typedPort === null && typeof targetPort === 'string') return targetPort;
  const number = typedPort ?? (typeof targetPort === 'number' ? targetPort : (port ?? 0));
  return {name, protocol, port: number};
}
