import {symptomCheck} from './symptom-check.ts';

export const serviceNotProgrammed = symptomCheck({
  code: 'ST201',
  name: 'service-not-programmed',
  severity: 'error',
  summary: 'A node knows nothing of a Service port that it should serve',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not.',
});
