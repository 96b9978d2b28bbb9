import type {NftDifference} from '../../compare/compare-nft-table.ts';
import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import type {NftPort} from '../../expect/nftables/nft-port.ts';
import type {NftSource, NftTable, NftTableSource} from '../../model/nft-ruleset.ts';
import type {ServiceView} from './service-view.ts';

export type NftPortDifference = NftDifference<NftPort>;

/** One family's table on one node, beside what it should be. */
export interface NftCase {
  readonly expected: ExpectedTable;
  readonly actual: NftTable;
  readonly view: ServiceView;
}

/** A ruleset of these tables alone. */
export function sourceOf(...tableSources: readonly NftTableSource[]): NftSource {
  return {tableSources};
}
