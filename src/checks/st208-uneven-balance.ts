import {symptomCheck} from './symptom-check.ts';

export const unevenBalance = symptomCheck({
  code: 'ST208',
  name: 'uneven-balance',
  severity: 'warning',
  summary: 'Usable endpoints do not get equal shares of the traffic',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not. kube-proxy gives equal shares: find out who changed the rules.',
});
