import {symptomCheck} from './symptom-check.ts';

export const staleEndpoint = symptomCheck({
  code: 'ST203',
  name: 'stale-endpoint',
  severity: 'error',
  summary: 'Traffic on a live path goes to an address that is no usable endpoint of the Service',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not followed the EndpointSlices.',
});
