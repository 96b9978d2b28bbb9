import {symptomCheck} from './symptom-check.ts';

export const missingEntry = symptomCheck({
  code: 'ST206',
  name: 'missing-entry',
  severity: 'error',
  summary: 'One way in to a Service is not programmed while others are',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not.',
});
