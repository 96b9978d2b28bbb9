import type {ServiceObject} from '../model/api-objects.ts';
import type {Observation, ServiceName} from '../model/finding.ts';
import type {ServicePort} from '../model/service-port.ts';

/** How a finding names a Service. */
export function nameOf(service: ServiceObject): ServiceName {
  return {namespace: service.metadata.namespace ?? 'default', name: service.metadata.name};
}

/** How a finding names a Service port. */
export function ofPort(port: ServicePort): Pick<Observation, 'service' | 'port' | 'family'> {
  return {
    family: port.family,
    service: {namespace: port.namespace, name: port.service},
    port: {name: port.portName, protocol: port.protocol, port: port.port},
  };
}
