import type {CategorizedEndpoints, Endpoint} from '../../model/endpoint.ts';
import type {ServicePort} from '../../model/service-port.ts';

/** One Service port with the endpoints that kube-proxy on one node has for it, in any proxy mode. */
export interface ServedPort {
  readonly port: ServicePort;
  readonly endpoints: CategorizedEndpoints;
  /** All endpoints, whether usable or not. */
  readonly all: readonly Endpoint[];
  /** How many lists of endpoints kube-proxy can have built: more than one if the API contains duplicate endpoints. */
  readonly lists: number;
  /** The name under which the node stores the clients of an endpoint: a `recent` list or an affinity set. */
  readonly clientList: (endpoint: Endpoint) => string;
}
