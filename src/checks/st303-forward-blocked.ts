import {symptomCheck} from './symptom-check.ts';

export const forwardBlocked = symptomCheck({
  code: 'ST303',
  name: 'forward-blocked',
  severity: 'error',
  summary: 'A packet already sent to a pod is dropped in FORWARD',
  remedy: 'Accept the pod network in FORWARD, or set its policy to ACCEPT, in whatever sets it (Docker, iptables-persistent, firewalld).',
});
