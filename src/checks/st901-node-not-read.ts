import type {Check} from './check.ts';

export const nodeNotRead: Check<'ST901'> = {
  code: 'ST901',
  name: 'node-not-read',
  severity: 'warning',
  summary: 'A node could not be read',
  remedy: 'Read the node in another way, or name the nodes to be looked at with --node.',
  *node({node, status}) {
    if (status.kind === 'unread' || status.kind === 'unsupported')
      yield {node: node.name, message: `${node.name} was not checked: ${status.reason}`};
  },
};
