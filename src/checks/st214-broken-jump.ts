import {symptomCheck} from './symptom-check.ts';

export const brokenJump = symptomCheck({
  code: 'ST214',
  name: 'broken-jump',
  severity: 'error',
  summary: 'A rule jumps to a chain that is empty or missing',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not. Since 1.27 kube-proxy rewrites an unchanged Service only in a full sync.',
});
