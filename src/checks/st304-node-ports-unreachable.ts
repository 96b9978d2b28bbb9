import {symptomCheck} from './symptom-check.ts';

export const nodePortsUnreachable = symptomCheck({
  code: 'ST304',
  name: 'node-ports-unreachable',
  severity: 'error',
  summary: 'The jump to the node ports is missing, restricted to the wrong addresses, or shadowed',
  remedy: 'Restart kube-proxy on this node; if the addresses are the matter, compare nodePortAddresses with the addresses of the node.',
});
