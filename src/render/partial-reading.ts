import type {Report} from '../model/report.ts';
import {nodeList} from './node-list.ts';

/** What was not seen on nodes of which only some chains were read; null if all rules were read. */
export function partialReading({nodes}: Report): string | null {
  const names = nodes.filter(({read}) => read === 'reachable').map(({name}) => name);
  if (names.length === 0) return null;
  return `Only the chains that packets to the named Services can reach were read on ${nodeList(names)}. Rules in other chains of table nat, third-party rules too, were not seen; --full reads all rules.`;
}
