import type {ServicePort} from '../model/service-port.ts';
import type {LocalDetector} from './node-context.ts';

/** Assumptions about kube-proxy that contradict the API. */
export interface Hypothesis {
  readonly nodeName?: string;
  readonly zone?: string | null;
  readonly detector?: LocalDetector;
  readonly masqueradeAll?: boolean;
  /** For a Service port with duplicate endpoints: which of the possible lists kube-proxy built. */
  readonly picks?: ReadonlyMap<ServicePort, number>;
}
