import {symptomCheck} from './symptom-check.ts';

export const masqueradeMismatch = symptomCheck({
  code: 'ST211',
  name: 'masquerade-mismatch',
  severity: 'warning',
  summary: 'A packet is masqueraded where it should not be, or not where it should',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not. When many nodes show it, compare clusterCIDR and masqueradeAll of kube-proxy with the pod network.',
});
