import {parseAddress} from '../../../model/address.ts';
import type {Branch} from '../../../trace/branch.ts';
import {walkChain} from '../../../trace/iptables/walk-chain.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import type {BaseRulesCase} from './base-rules-case.ts';

interface Passed {
  readonly mark: number;
  readonly masquerade: boolean;
  readonly dropped: boolean;
}

/** The effect of a chain on a packet with this mark; null if it is undetermined. A missing chain has no effect. */
export function passChain(
  {actual, expected}: Pick<BaseRulesCase, 'actual' | 'expected'>,
  table: string,
  name: string,
  mark: number,
): Passed | null {
  const chain = actual.chain(table, name);
  if (chain === undefined) return {mark, masquerade: false, dropped: false};
  const any = parseAddress(expected.family === 'IPv4' ? '198.18.77.7' : '2001:db8:ffff::77');
  if (any === null) return null;
  const packet = {
    family: expected.family,
    protocol: 'tcp',
    source: any,
    destination: any,
    port: 80,
    origin: 'arriving',
    inInterface: null,
    outInterface: null,
    mark,
    connectionMark: 0,
    rewritten: true,
    masquerade: false,
    untracked: false,
  } as const;
  const start: Branch = {packet, probability: 1, path: null, inferred: [], supposed: null};
  const results = walkChain({rules: actual, environment: environmentOf(expected.context.facts), budget: 10_000}, table, chain, start);
  const result = results.length === 1 ? results[0] : undefined;
  return result === undefined || result.verdict === 'undecided' ? null : {...result.packet, dropped: result.verdict === 'drop'};
}
