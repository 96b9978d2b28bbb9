import {invalidRules} from '../analyze/iptables/invalid-rules.ts';
import type {Check} from './check.ts';
import {iptables, onNode} from './commands/node-commands.ts';

export const dumpUnreliable: Check<'ST506'> = {
  code: 'ST506',
  name: 'dump-unreliable',
  severity: 'warning',
  summary: 'The dump shows signs of a reader older than its writer, or is truncated',
  remedy: 'Read the node again, with the tools that belong to its kube-proxy (run iptables-save or nft inside the kube-proxy container).',
  *node({api, node, rulesets, config, nft, status, symptoms}) {
    const cut = config.mode.value === 'nftables' ? (nft()?.cut ?? null) : null;
    if (cut !== null) {
      // A dump in JSON is a single line.
      const where = cut.line > 1 ? `at line ${cut.line} ` : '';
      yield {
        node: node.name,
        message: `the dump of nftables is truncated ${where}inside table ${cut.table}: rules after that were not checked`,
        ...onNode({api, node}, 'nft list ruleset'),
      };
    }
    for (const [family, ruleset] of rulesets) {
      if (ruleset.cut !== null) {
        const message = `the ${family} dump is truncated at line ${ruleset.cut.line} inside table ${ruleset.cut.table}: rules after that were not checked`;
        yield {node: node.name, family, message, ...onNode({api, node}, `${iptables(family)}-save`)};
      }
      // Rules that are as expected are not invalid.
      const invalid = status.kind === 'checked' && symptoms.length === 0 ? [] : invalidRules(ruleset);
      if (invalid.length > 0) {
        const message = `${family}: the destination of DNAT rules reads as ":0 --persistent" or 0.0.0.0:0: the iptables that read these rules is older than the one that wrote them`;
        yield {node: node.name, family, message, actual: invalid.slice(0, 3), ...onNode({api, node}, `${iptables(family)}-save`)};
      }
    }
  },
};
