import type {CategorizedEndpoints, Endpoint} from '../../model/endpoint.ts';
import type {ServicePort} from '../../model/service-port.ts';

/** One Service port with the endpoints that kube-proxy on one node knows of it, in any proxy mode. */
export interface ServedPort {
  readonly port: ServicePort;
  readonly endpoints: CategorizedEndpoints;
  /** All endpoints, usable or not. */
  readonly all: readonly Endpoint[];
  /** How many lists of endpoints kube-proxy may have made: more than one where the API gives endpoints twice. */
  readonly lists: number;
  /** Under which name the node remembers the clients of an endpoint: the list of `recent`, or an affinity set. */
  readonly clientList: (endpoint: Endpoint) => string;
}
