import {symptomCheck} from './symptom-check.ts';

export const unexpectedReject = symptomCheck({
  code: 'ST213',
  name: 'unexpected-reject',
  severity: 'error',
  summary: 'A Service with endpoints is refused or dropped by a kube-proxy rule',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not followed the EndpointSlices.',
});
