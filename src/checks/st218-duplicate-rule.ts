import {symptomCheck} from './symptom-check.ts';

export const duplicateRule = symptomCheck({
  code: 'ST218',
  name: 'duplicate-rule',
  severity: 'info',
  summary: 'The same rule stands in a chain twice',
  remedy: 'Nothing to do now. If their number grows, compare the iptables versions of the node and of the kube-proxy image.',
});
