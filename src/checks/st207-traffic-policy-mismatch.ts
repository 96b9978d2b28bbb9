import {symptomCheck} from './symptom-check.ts';

export const trafficPolicyMismatch = symptomCheck({
  code: 'ST207',
  name: 'traffic-policy-mismatch',
  severity: 'error',
  summary: 'Traffic is spread as for another traffic policy than the configured one',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not followed the change of policy.',
});
