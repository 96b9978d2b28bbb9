import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {ChainSource, Rule} from '../../model/ruleset.ts';
import {walkPacket} from '../../trace/iptables/walk-packet.ts';
import type {Outcome} from '../../trace/packet.ts';
import {type PathOutcome, collectPathOutcome, type Walk} from '../outcomes/path-outcome.ts';

/** The outcome of a packet that was walked through iptables. */
export function pathOutcomeOf(outcomes: readonly Outcome[]): PathOutcome {
  return collectPathOutcome(outcomes, rememberedIn);
}

/** The walk of packets through these rules. */
export function walkOf(rules: ChainSource): Walk<Rule> {
  return (packet, environment) => pathOutcomeOf(walkPacket(rules, packet, environment));
}

function rememberedIn(path: readonly Rule[]): string | null {
  const matches = path.findLast(({target}) => target?.name === 'DNAT')?.matches ?? [];
  const recent = matches.find(({name, options}) => name === 'recent' && options.some(({flag}) => flag === '--set'));
  return recent?.options.find(({flag}) => flag === '--name')?.values[0] ?? null;
}

/** `SVC`, `SVL` or `XLB`: the chain that picked the endpoint; null when none did. */
export function balancingRole(pathOutcome: PathOutcome): string | null {
  for (const {path} of pathOutcome.destinations.values()) {
    const roles = path
      .flatMap(rule => parseChainName(rule.chain)?.role ?? [])
      .filter(role => role === 'SVC' || role === 'SVL' || role === 'XLB');
    const last = roles.at(-1);
    if (last !== undefined) return last;
  }
  return null;
}
