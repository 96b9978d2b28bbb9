import type {Check} from './check.ts';

export const familyNotRead: Check<'ST902'> = {
  code: 'ST902',
  name: 'family-not-read',
  severity: 'warning',
  summary: 'A family or table that is needed is missing from the dump',
  remedy: 'Collect both iptables-save and ip6tables-save of the node, with all tables.',
  *node({node, unread, status}) {
    if (status.kind !== 'checked') return;
    for (const {family, reason} of unread) yield {node: node.name, family, message: `${family} was not checked on ${node.name}: ${reason}`};
  },
};
