import {once} from '../../expect/api-index.ts';
import {append} from '../../model/lists.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';

/**
 * Rules that show a reader older than the writer: iptables 1.8.8 and later write a DNAT that earlier ones print as an invalid rule
 * (kubernetes#112477). Several checks of a node ask, and a large node has a quarter of a million such chains.
 */
export const invalidRules = once(({tables}: Ruleset): readonly Rule[] => {
  const chains = tables.get('nat')?.chains;
  if (chains === undefined || !texts.some(text => chains.mayContain?.(text) ?? true)) return [];
  const invalid: Rule[] = [];
  for (const chain of chains.startingWith('KUBE-SEP-')) {
    if (!pattern.test(chain.text())) continue;
    append(
      invalid,
      chain.rules().filter(({target}) => target?.name === 'DNAT'),
    );
  }
  return invalid;
});

const pattern = /--to-destination (?::0|0\.0\.0\.0:0|\S+ --random --persistent)|DNAT \[unsupported revision\]/;

/** A rule that the pattern matches contains one of these. */
const texts = ['--to-destination :0', '--to-destination 0.0.0.0:0', ' --random --persistent', 'DNAT [unsupported revision]'];
