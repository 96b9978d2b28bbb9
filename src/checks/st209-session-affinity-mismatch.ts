import {symptomCheck} from './symptom-check.ts';

export const sessionAffinityMismatch = symptomCheck({
  code: 'ST209',
  name: 'session-affinity-mismatch',
  severity: 'warning',
  summary: 'Session affinity is missing, extra, or has another timeout',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not followed the change of sessionAffinity.',
});
