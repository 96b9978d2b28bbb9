import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {serviceKey} from '../../expect/cluster/cluster-view.ts';
import type {SlicePort} from '../../model/api-objects.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {Check, ClusterContext} from '../check.ts';
import {unusualEntries} from './port-entries.ts';
import {nameOf, ofPort} from '../service-observation.ts';
import {editService} from '../commands/service-commands.ts';

export const portWithoutEndpoint: Check<'ST102'> = {
  code: 'ST102',
  name: 'port-without-endpoint',
  severity: 'warning',
  summary: "A Service port's name and protocol occur in no EndpointSlice although the Service has endpoints",
  remedy: 'Give the port of the Service, of its pods (a named targetPort) and of hand-made EndpointSlices the same name and protocol.',
  *cluster(context) {
    for (const entry of unusualEntries(context)) {
      if (isNamedInSlices(entry, context)) continue;
      const {port} = entry;
      const offered = [
        ...new Set(
          slicePorts(port, context).map(
            ({name, protocol, port: number}) => `${name || '(unnamed)'} ${number ?? '(no number)'}/${protocol ?? 'TCP'}`,
          ),
        ),
      ];
      const wanted = `${port.portName || '(unnamed)'}/${port.protocol}`;
      yield {
        ...ofPort(port),
        ...editService(nameOf(port.object)),
        message: `${port.servicePortName}: no EndpointSlice has a port ${wanted}; they have ${offered.join(', ')}. Connections to it are refused`,
      };
    }
  },
};

/** True as well if the Service has no endpoints at all: then the name is not the cause. */
export function isNamedInSlices({port, set}: PortEntry, context: ClusterContext): boolean {
  if (set.endpoints.length > 0) return true;
  const ports = slicePorts(port, context);
  return (
    ports.length === 0 ||
    ports.some(
      ({name, protocol, port: number}) =>
        (name ?? undefined) === port.portName && (protocol ?? 'TCP') === port.protocol && number !== null && number !== undefined,
    )
  );
}

/** The ports of a Service's slices with endpoints. */
function slicePorts(port: ServicePort, {view, proxy}: ClusterContext): readonly SlicePort[] {
  return view
    .slicesOf(serviceKey(port), proxy)
    .filter(({addressType, endpoints}) => (addressType ?? port.family) === port.family && (endpoints ?? []).length > 0)
    .flatMap(({ports}) => ports ?? []);
}
