import {symptomCheck} from './symptom-check.ts';

export const missingReject = symptomCheck({
  code: 'ST212',
  name: 'missing-reject',
  severity: 'error',
  summary: 'A Service without endpoints does not refuse: connections hang or leak out of the node',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not.',
});
