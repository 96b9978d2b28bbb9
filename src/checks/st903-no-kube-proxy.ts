import type {Check} from './check.ts';

export const noKubeProxy: Check<'ST903'> = {
  code: 'ST903',
  name: 'no-kube-proxy',
  severity: 'info',
  summary: "The node's Services are served by something other than kube-proxy",
  remedy: 'Use the tool of the program that serves Services on this node (cilium-dbg service list, ovn-nbctl lb-list).',
  *node({node, status}) {
    if (status.kind === 'not-served') yield {node: node.name, message: `${node.name}: ${status.reason}`};
  },
};
