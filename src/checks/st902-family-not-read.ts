import {isExcerpt} from '../judge/iptables/excerpt.ts';
import {garbledRules} from '../judge/iptables/garbled-rules.ts';
import type {Check} from './check.ts';

export const familyNotRead: Check<'ST902'> = {
  code: 'ST902',
  name: 'family-not-read',
  severity: 'warning',
  summary: 'A family or table that is needed is missing from the dump',
  remedy: 'Collect both iptables-save and ip6tables-save of the node, with all tables.',
  // Silent where the dump is there and cannot be relied on, which is ST506.
  *node({node, unread, rulesets}) {
    for (const {family, reason} of unread) {
      const ruleset = rulesets.get(family);
      if (ruleset !== undefined && (ruleset.cut !== null || garbledRules(ruleset).length > 0)) continue;
      const how = ruleset !== undefined && isExcerpt(ruleset) ? 'was checked in part' : 'was not checked';
      yield {node: node.name, family, message: `${family} ${how} on ${node.name}: ${reason}`};
    }
  },
};
