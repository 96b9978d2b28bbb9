/** The chain of a rule as iptables-save prints it; empty for any other line. */
export function chainOf(rule: string): string {
  return rule.startsWith('-A ') ? (rule.split(' ', 2)[1] ?? '') : '';
}

/**
 * In a base chain kube-proxy does not mind the order of its jumps; in a chain that Services share, not that of the Services.
 * Rules that differ in their comments alone are the same.
 */
export function areIndependent(first: string, second: string): boolean {
  const chain = chainOf(first);
  if (!chain.startsWith('KUBE-') || withoutComment(first) === withoutComment(second)) return true;
  return sharedChains.has(chain) && servicePortOf(first) !== servicePortOf(second);
}

const sharedChains = new Set(['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-EXTERNAL-SERVICES', 'KUBE-PROXY-FIREWALL']);

function servicePortOf(rule: string): string {
  return /--comment "?([^\s"]+)/.exec(rule)?.[1] ?? '';
}

function withoutComment(rule: string): string {
  return rule.replace(/ --comment (?:"[^"]*"|\S+)/, '');
}
