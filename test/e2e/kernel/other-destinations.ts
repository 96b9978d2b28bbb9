import type {Destination, Question} from './questions.ts';

/** To what packets are sent to try the rules of other-rules.iptables-save. */
export const otherDestinations: readonly Destination[] = [
  // Marks, distinguished by the port of the endpoint; goto and return.
  ...to('203.0.113.32', 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010),
  ...to('203.0.113.33', 80, 443, 444, 8000, 8005, 8010, 8011),
  ...[34, 35, 37, 41, 42, 43, 44, 46, 50, 51, 70].flatMap(host => to(`203.0.113.${host}`, 80)),
  ...to('203.0.113.36', 80, 81),
  ...to('203.0.113.38', 79, 80, 90, 91),
  ...to('203.0.113.39', 39, 30_085),
  ...to('203.0.113.40', 53),
  // By chance and in turn.
  ...to('203.0.113.45', 80),
  ...[36, 40, 46, 50].map(host => ({address: `203.0.113.${host}`, port: 81, protocol: 'UDP' as const})),
  // To the node: untracked, refused, dropped on the way in or on the loopback interface.
  ...['172.18.0.11', '10.244.11.1', '127.0.0.1'].flatMap(address => to(address, 30_080, 30_081, 30_082, 30_083, 30_084, 30_085)),
];

function to(address: string, ...ports: readonly number[]): readonly Destination[] {
  return ports.map(port => ({address, port}));
}

/** REDIRECT sends to the address of the interface by which a packet came in, and `packet` knows only the node's own address. */
export function isRedirectedElsewhere({from, query}: Question): boolean {
  return query.destination === '203.0.113.43' && from === 'pods';
}
