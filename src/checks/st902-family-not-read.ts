import {isExcerpt} from '../analyze/iptables/excerpt.ts';
import {invalidRules} from '../analyze/iptables/invalid-rules.ts';
import type {NodeDump} from '../model/snapshot.ts';
import type {Check} from './check.ts';
import {iptables, onNode} from './commands/node-commands.ts';

export const familyNotRead: Check<'ST902'> = {
  code: 'ST902',
  name: 'family-not-read',
  severity: 'warning',
  summary: 'A family or table that is needed is missing from the dump',
  remedy: 'Collect both iptables-save and ip6tables-save of the node, with all tables.',
  // Silent if the dump exists and is unreliable, which is ST506.
  *node({api, node, unread, rulesets, config, status, nft}) {
    const isNft = config.mode.value === 'nftables';
    for (const {family, reason} of unread) {
      const ruleset = rulesets.get(family);
      if (isNft && (nft()?.cut ?? null) !== null) continue;
      if (ruleset !== undefined && (ruleset.cut !== null || invalidRules(ruleset).length > 0)) continue;
      const how = ruleset !== undefined && isExcerpt(ruleset) ? 'was checked in part' : 'was not checked';
      yield {
        node: node.name,
        family,
        message: `${family} ${how} on ${node.name}: ${reason}`,
        ...onNode({api, node}, isNft ? 'nft list ruleset' : `${iptables(family)}-save`),
      };
    }
    const unseen = isNft && status.kind === 'checked' ? unseenIptables(node) : [];
    if (unseen.length > 0) {
      const message = `there is no ${unseen.join(' and no ')} of ${node.name}: whether third-party rules in iptables affect Services was not checked`;
      yield {node: node.name, severity: 'info', message};
    }
  },
};

/**
 * kube-proxy in nftables mode needs no iptables, but other programs on the node may use it. A dump may also show that there are no rules.
 */
function unseenIptables({files}: NodeDump): readonly string[] {
  return ['iptables', 'ip6tables']
    .filter(tool => !files.some(file => file.startsWith(tool) && file.endsWith('-save')))
    .map(tool => `${tool}-save`);
}
