import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import type {NftPort} from '../../expect/nftables/nft-port.ts';
import type {NftTableSource} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {type Fate, sameEnds, sameFate} from '../outcomes/path-outcome.ts';
import type {Probe} from '../outcomes/probes.ts';
import {nftFate} from './nft-outcome.ts';

/** One packet that fares otherwise in one table than in another. */
export interface TableChange {
  readonly item: NftPort;
  readonly probe: Probe;
  readonly fate: Fate<RuleText>;
  readonly other: Fate<RuleText>;
  /** It ends elsewhere, and is not only masqueraded in another way. */
  readonly lost: boolean;
}

export interface TablePair {
  readonly expected: ExpectedTable;
  readonly table: NftTableSource;
  readonly other: NftTableSource;
}

/** What becomes of probes in a table, where it is something else than in the other one. */
export function changedProbes(
  {expected, table, other}: TablePair,
  probes: Iterable<{readonly item: NftPort; readonly probe: Probe}>,
): readonly TableChange[] {
  const environment = environmentOf(expected.context.facts);
  const changes: TableChange[] = [];
  for (const {item, probe} of probes) {
    const fate = nftFate(table, probe.packet, environment);
    const without = nftFate(other, probe.packet, environment);
    if (!sameFate(fate, without)) changes.push({item, probe, fate, other: without, lost: !sameEnds(fate, without)});
  }
  return changes;
}
