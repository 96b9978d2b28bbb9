import type {Entry} from '../../model/entry.ts';
import type {Rule} from '../../model/ruleset.ts';

/** Whether a rule matches the packets of this entry. */
export function isEntryRule(rule: Rule, entry: Entry): boolean {
  if (destinationPort(rule) !== String(entry.port)) return false;
  return entry.address === null
    ? rule.chain === 'KUBE-NODEPORTS' || rule.chain === 'KUBE-EXTERNAL-SERVICES'
    : destinationHost(rule) === entry.address;
}

/** The address and port, or the node port, that a rule of a shared chain matches, for a message. */
export function entryOfRule(rule: Rule): string {
  const port = destinationPort(rule) ?? 'any port';
  if (rule.chain === 'KUBE-NODEPORTS') return `node port ${port}`;
  const host = destinationHost(rule) ?? 'any address';
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function destinationPort(rule: Rule): string | undefined {
  return rule.matches.flatMap(match => match.options).find(({flag}) => flag === '--dport')?.values[0];
}

function destinationHost(rule: Rule): string | undefined {
  return rule.options.find(({flag}) => flag === '-d')?.values[0]?.split('/')[0];
}

/** kube-proxy's comments begin with the name of the Service port; null for a rule that names none. */
export function servicePortName(rule: Rule): string | null {
  const comment = rule.matches.find(match => match.name === 'comment')?.options[0]?.values[0] ?? '';
  return /^([^\s/]+\/[^\s/]+)(?: |$)/.exec(comment)?.[1] ?? null;
}
