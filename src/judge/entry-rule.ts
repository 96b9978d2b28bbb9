import type {Entry} from '../model/entry.ts';
import type {Rule} from '../model/ruleset.ts';

/** Whether a rule lets packets in by this entry. */
export function isEntryRule(rule: Rule, entry: Entry): boolean {
  const port = rule.matches.flatMap(match => match.options).find(({flag}) => flag === '--dport')?.values[0];
  if (port !== String(entry.port)) return false;
  const destination = rule.options.find(({flag}) => flag === '-d')?.values[0];
  return entry.address === null
    ? rule.chain === 'KUBE-NODEPORTS' || rule.chain === 'KUBE-EXTERNAL-SERVICES'
    : destination?.split('/')[0] === entry.address;
}
