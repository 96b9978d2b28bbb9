import {symptomCheck} from './symptom-check.ts';

export const canaryMissing = symptomCheck({
  code: 'ST306',
  name: 'canary-missing',
  severity: 'info',
  summary: "kube-proxy's canary chain is gone from a table: something flushed it",
  remedy:
    'Wait for a minute: kube-proxy writes everything anew when it notices. Then find out who flushes (a firewall reload, iptables-restore without --noflush).',
});
