import {symptomCheck} from './symptom-check.ts';

export const noServiceRules = symptomCheck({
  code: 'ST305',
  name: 'no-service-rules',
  severity: 'error',
  summary: "A node holds none of kube-proxy's Service rules at all",
  remedy:
    'Look whether kube-proxy runs on this node and what its log says of iptables-restore; one bad rule makes the whole restore fail. Restart it when the cause is gone.',
});
