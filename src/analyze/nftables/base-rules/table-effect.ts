import type {ExpectedTable} from '../../../expect/nftables/expected-table.ts';
import type {NftPort} from '../../../expect/nftables/nft-port.ts';
import type {NftTableSource} from '../../../model/nft-ruleset.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import {type PathOutcome, hasSameEnds, isSameOutcome} from '../../outcomes/path-outcome.ts';
import type {Probe} from '../../outcomes/probes.ts';
import {nftPathOutcome} from '../nft-outcome.ts';

/** A probe whose outcome in one table is not the one in another. */
export interface TableChange {
  readonly item: NftPort;
  readonly probe: Probe;
  readonly pathOutcome: PathOutcome<RuleText>;
  readonly other: PathOutcome<RuleText>;
  /** It ends elsewhere, and is not only masqueraded differently. */
  readonly lost: boolean;
}

export interface TablePair {
  readonly expected: ExpectedTable;
  readonly table: NftTableSource;
  readonly other: NftTableSource;
}

/** The probes whose outcome in a table is not the one in the other table. */
export function changedProbes(
  {expected, table, other}: TablePair,
  probes: Iterable<{readonly item: NftPort; readonly probe: Probe}>,
): readonly TableChange[] {
  const environment = environmentOf(expected.context.facts);
  const changes: TableChange[] = [];
  for (const {item, probe} of probes) {
    const pathOutcome = nftPathOutcome(table, probe.packet, environment);
    const without = nftPathOutcome(other, probe.packet, environment);
    if (!isSameOutcome(pathOutcome, without))
      changes.push({item, probe, pathOutcome, other: without, lost: !hasSameEnds(pathOutcome, without)});
  }
  return changes;
}
