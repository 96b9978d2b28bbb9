import {symptomCheck} from './symptom-check.ts';

export const staleService = symptomCheck({
  code: 'ST205',
  name: 'stale-service',
  severity: 'error',
  summary: 'A Service port that the API does not have still answers on a node',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not carried out the deletion.',
});
