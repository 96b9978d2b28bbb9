import {symptomCheck} from './symptom-check.ts';

export const missingRule = symptomCheck({
  code: 'ST217',
  name: 'missing-rule',
  severity: 'info',
  summary: 'A rule that kube-proxy would have written is not there, and no other code says it better',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not.',
});
