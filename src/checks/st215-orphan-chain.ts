import {symptomCheck} from './symptom-check.ts';

export const orphanChain = symptomCheck({
  code: 'ST215',
  name: 'orphan-chain',
  severity: 'info',
  summary: 'kube-proxy chains that nothing reaches',
  remedy:
    'Nothing to do: kube-proxy removes them in its next full sync. KUBE-XLB chains under 1.28 or later stay until the node is restarted and can block syncs.',
});
