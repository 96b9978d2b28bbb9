import {append} from '../../model/lists.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';

/** Rules that show a reader older than the writer: iptables 1.8.8 and later write a DNAT that earlier ones print as an invalid rule (kubernetes#112477). */
export function invalidRules(ruleset: Ruleset): readonly Rule[] {
  const invalid: Rule[] = [];
  for (const chain of ruleset.tables.get('nat')?.chains.startingWith('KUBE-SEP-') ?? []) {
    if (!/--to-destination (?::0|0\.0\.0\.0:0|\S+ --random --persistent)|DNAT \[unsupported revision\]/.test(chain.text())) continue;
    append(
      invalid,
      chain.rules().filter(({target}) => target?.name === 'DNAT'),
    );
  }
  return invalid;
}
