import {symptomCheck} from './symptom-check.ts';

export const postroutingBroken = symptomCheck({
  code: 'ST302',
  name: 'postrouting-broken',
  severity: 'error',
  summary: 'The masquerade mark is never set, never tested or never honoured',
  remedy:
    'Restart kube-proxy on this node, and find out who changed the chain. Two agents with the same mark bit are a usual cause (masqueradeBit).',
});
