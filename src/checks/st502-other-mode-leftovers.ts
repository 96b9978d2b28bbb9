import {heldModes} from '../judge/held-modes.ts';
import type {Check} from './check.ts';

export const otherModeLeftovers: Check<'ST502'> = {
  code: 'ST502',
  name: 'other-mode-leftovers',
  severity: 'warning',
  summary: 'Rules or virtual servers of a proxy mode that is not running',
  remedy:
    'Clean up on this node: run kube-proxy --cleanup with the image and flags of its kube-proxy and start it again, or reboot the node.',
  *node({node, config, rulesets}) {
    const said = config.mode.value;
    const held = heldModes(node, rulesets);
    if (!held.some(({mode}) => mode === said)) return;
    for (const {mode, sign} of held) {
      if (mode === said || (mode === 'iptables' && said === 'ipvs')) continue;
      yield {node: node.name, message: `kube-proxy runs in ${said} mode, and ${mode} mode left something behind: ${sign}`};
    }
  },
};
