import {symptomCheck} from './symptom-check.ts';

export const servicesChainNotHooked = symptomCheck({
  code: 'ST301',
  name: 'services-chain-not-hooked',
  severity: 'error',
  summary: "A base chain does not lead into kube-proxy's chains",
  remedy:
    'Restart kube-proxy on this node: it puts its jumps back when it starts (from 1.27 on only then and in full syncs). Then find out who removed the jump: a firewall reload, or an agent that rewrites base chains.',
});
