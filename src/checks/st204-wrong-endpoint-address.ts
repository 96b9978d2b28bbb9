import {symptomCheck} from './symptom-check.ts';

export const wrongEndpointAddress = symptomCheck({
  code: 'ST204',
  name: 'wrong-endpoint-address',
  severity: 'error',
  summary: 'The chain of an endpoint sends traffic to another address or port',
  remedy:
    'Restart kube-proxy on this node (delete its pod, or restart the service that runs it); it writes all rules anew when it starts. Then see in its log why it had not. kube-proxy does not write such a rule: find out who changed it.',
});
