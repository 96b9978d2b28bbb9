import {symptomCheck} from './symptom-check.ts';

export const clusterCidrMismatch = symptomCheck({
  code: 'ST504',
  name: 'cluster-cidr-mismatch',
  severity: 'warning',
  summary: "The CIDR or interface in the masquerade rules does not cover the node's pods, or is not the configured one",
  remedy:
    'Compare clusterCIDR and detectLocalMode of kube-proxy with spec.podCIDRs of the nodes and with the pod network of the CNI, and restart kube-proxy after a correction.',
});
