import {symptomCheck} from './symptom-check.ts';

export const entryTakenByOtherRule = symptomCheck({
  code: 'ST401',
  name: 'entry-taken-by-other-rule',
  severity: 'error',
  summary: "A rule that is not kube-proxy's takes a Service's packets before kube-proxy's rules see them",
  remedy: 'Find out whose rule it is (a host port of a pod, a mesh, a firewall): remove it, or give one of the two another port.',
});
