import {symptomCheck} from './symptom-check.ts';

export const sourceRangesMismatch = symptomCheck({
  code: 'ST210',
  name: 'source-ranges-mismatch',
  severity: 'error',
  summary: 'loadBalancerSourceRanges let in what they should not, or keep out what they should let in',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not followed the change. Until then, close the address at the load balancer or the network.',
});
