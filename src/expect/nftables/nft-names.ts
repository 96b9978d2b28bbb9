import type {Endpoint} from '../../model/endpoint.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {hash8} from '../name-hash.ts';

/** The names of everything that kube-proxy creates for one Service port. */
export interface PortNames {
  /** The part of its chain names after the role: `2QRHZV4L-default/kubernetes/tcp/https`. */
  readonly base: string;
  readonly service: string;
  readonly local: string;
  readonly external: string;
  readonly firewall: string;
  readonly endpoint: (endpoint: Endpoint) => string;
  readonly affinity: (endpoint: Endpoint) => string;
}

const known = new WeakMap<ServicePort, PortNames>();

/** Names are the same on every node, and hashing takes much of the time in a large cluster: they are computed once. */
export function portNames(port: ServicePort): PortNames {
  let names = known.get(port);
  if (names === undefined) {
    names = makeNames(port);
    known.set(port, names);
  }
  return names;
}

function makeNames({namespace, service, protocol, portName}: ServicePort): PortNames {
  const text = `${namespace}/${service}/${protocol.toLowerCase()}/${portName}`;
  const base = hashed(text);
  const endpoints = new Map<Endpoint, string>();
  const endpointChain = (endpoint: Endpoint): string => {
    let name = endpoints.get(endpoint);
    if (name === undefined) {
      const {address, port} = endpoint;
      // nftables allows no colons in names.
      name = `${endpointRole}${hashed(`${text}__${address.includes(':') ? address.replaceAll(':', '.') : address}/${port}`)}`;
      endpoints.set(endpoint, name);
    }
    return name;
  };
  return {
    base,
    ...{service: `service-${base}`, local: `local-${base}`, external: `external-${base}`, firewall: `firewall-${base}`},
    endpoint: endpointChain,
    affinity: endpoint => `affinity-${endpointChain(endpoint).slice(endpointRole.length)}`,
  };
}

const endpointRole = 'endpoint-';

/** Follows `hashAndTruncate`. */
function hashed(text: string): string {
  const name = `${hash8(text)}-${text}`;
  return name.length > 240 ? `${name.slice(0, 237)}...` : name;
}

type NftRole = 'service' | 'local' | 'external' | 'firewall' | 'endpoint' | 'affinity';

/** The parts of the name of a chain or set that belongs to one Service port or endpoint; null for all others. */
export interface ParsedName {
  readonly role: NftRole;
  readonly base: string;
  /** `namespace/name:port`, unless the name was truncated. */
  readonly servicePortName: string;
  readonly namespace: string;
  readonly service: string;
}

export function parseNftName(name: string): ParsedName | null {
  const found = /^(service|local|external|firewall|endpoint|affinity)-([A-Z2-7]{8}-([^/]+)\/([^/]+)\/([a-z]+)(?:\/(.*))?)$/s.exec(name);
  if (found === null) return null;
  const [, role, base = '', namespace = '', service = '', , rest = ''] = found;
  const portName = rest.replace(/__.*$/s, '').replace(/\.\.\.$/, '');
  return {
    role: role as NftRole,
    ...{base, namespace, service},
    servicePortName: `${namespace}/${service}${portName === '' ? '' : `:${portName}`}`,
  };
}
