import {symptomCheck} from './symptom-check.ts';

export const missingEndpoint = symptomCheck({
  code: 'ST202',
  name: 'missing-endpoint',
  severity: 'error',
  summary: 'An endpoint that should get traffic gets none on a node',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not followed the EndpointSlices.',
});
