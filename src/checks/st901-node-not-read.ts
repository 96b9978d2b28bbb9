import type {Check} from './check.ts';

export const nodeNotRead: Check<'ST901'> = {
  code: 'ST901',
  name: 'node-not-read',
  severity: 'warning',
  summary: 'A node could not be read',
  remedy: 'Read the node in another way, or name the nodes to be looked at with --node.',
  // Silent where a part of the node was read: what is missing is ST902, and a dump that ends too early is ST506.
  *node({node, status, unread}) {
    if ((status.kind === 'unread' || status.kind === 'unsupported') && unread.length === 0)
      yield {node: node.name, message: `${node.name} was not checked: ${status.reason}`};
  },
};
