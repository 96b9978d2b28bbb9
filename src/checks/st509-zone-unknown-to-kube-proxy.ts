import {symptomCheck} from './symptom-check.ts';

export const zoneUnknownToKubeProxy = symptomCheck({
  code: 'ST509',
  name: 'zone-unknown-to-kube-proxy',
  severity: 'warning',
  summary: 'For all Services with hints the node uses the endpoints that a node without a zone would use',
  remedy:
    'Restart kube-proxy on this node: it reads the zone label when it starts (a start-up race of 1.34 to 1.36, or a label that was set later).',
});
