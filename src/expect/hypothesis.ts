import type {ServicePort} from '../model/service-port.ts';
import type {LocalDetector} from './node-context.ts';

/** Assumptions of a kube-proxy that contradict the API. */
export interface Hypothesis {
  readonly nodeName?: string;
  readonly zone?: string | null;
  readonly detector?: LocalDetector;
  readonly masqueradeAll?: boolean;
  /** For a Service port with endpoints given twice: which of the lists that kube-proxy may have made of them. */
  readonly picks?: ReadonlyMap<ServicePort, number>;
}
