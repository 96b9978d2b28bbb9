import {symptomCheck} from './symptom-check.ts';

export const droppedByOtherRule = symptomCheck({
  code: 'ST402',
  name: 'dropped-by-other-rule',
  severity: 'error',
  summary: "A rule that is not kube-proxy's drops or rejects a Service's packets",
  remedy: 'Find out whose rule it is (firewalld, ufw, a security agent) and make an exception for the traffic of Services there.',
});
