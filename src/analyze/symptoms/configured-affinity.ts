import type {ServicePort} from '../../model/service-port.ts';

/** The session affinity that a Service asks for, for the end of a message. */
export function configuredAffinity({affinitySeconds}: ServicePort): string {
  return affinitySeconds === null ? 'none is configured' : `ClientIP for ${affinitySeconds} s is configured`;
}
