import {symptomCheck} from './symptom-check.ts';

export const healthCheckPortBlocked = symptomCheck({
  code: 'ST219',
  name: 'health-check-port-blocked',
  severity: 'warning',
  summary: 'The accept rule of a healthCheckNodePort is missing',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not.',
});
