import type {ExpectedTable} from '../../../expect/nftables/expected-table.ts';
import type {NftPort} from '../../../expect/nftables/nft-port.ts';
import type {NftTableSource} from '../../../model/nft-ruleset.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import type {Packet} from '../../../trace/packet.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import {type OutcomeChange, outcomeChanges, type PortProbe} from '../../outcomes/outcome-changes.ts';
import {nftPathOutcome} from '../nft-outcome.ts';

export type TableChange = OutcomeChange<RuleText, NftPort>;

interface TablePair {
  readonly expected: ExpectedTable;
  readonly table: NftTableSource;
  readonly other: NftTableSource;
}

/** The probes whose outcome in a table is not the one in the other table. */
export function changedProbes({expected, table, other}: TablePair, probes: Iterable<PortProbe<NftPort>>): readonly TableChange[] {
  const environment = environmentOf(expected.context.facts);
  const walks = {
    walk: (packet: Packet) => nftPathOutcome(table, packet, environment),
    walkWithout: (packet: Packet) => nftPathOutcome(other, packet, environment),
  };
  return [...outcomeChanges(probes, walks)];
}
