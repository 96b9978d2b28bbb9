import {modesInRules} from '../analyze/modes-in-rules.ts';
import type {Check} from './check.ts';
import {restart} from './commands/node-commands.ts';

export const modeMismatch: Check<'ST503'> = {
  code: 'ST503',
  name: 'mode-mismatch',
  severity: 'warning',
  summary: 'kube-proxy reports one mode, the kernel holds another',
  remedy:
    'Restart kube-proxy on this node and check its log for the mode that it chose. Remove the rules of the other mode (kube-proxy --cleanup, or a reboot).',
  // Silent if the kernel has the rules of kube-proxy's mode, whatever else it has: that is ST502.
  *node({api, node, config, rulesets, nft}) {
    const held = modesInRules({node, rulesets, nft});
    const said = config.mode.value;
    if (held.length === 0 || held.some(({mode}) => mode === said)) return;
    const found = held.map(({mode, sign}) => `${mode} (${sign()})`).join(' and ');
    const message = `kube-proxy reports ${said} mode (${config.mode.source}), and the kernel holds the rules of ${found}`;
    yield {node: node.name, message, ...restart({api, node})};
  },
};
