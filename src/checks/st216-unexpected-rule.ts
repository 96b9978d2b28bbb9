import {symptomCheck} from './symptom-check.ts';

export const unexpectedRule = symptomCheck({
  code: 'ST216',
  name: 'unexpected-rule',
  severity: 'info',
  summary: "A rule in kube-proxy's chains that kube-proxy would not have written",
  remedy: "Find out who writes into kube-proxy's chains. Restarting kube-proxy on this node removes the rule.",
});
