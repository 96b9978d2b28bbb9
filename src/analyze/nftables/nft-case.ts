import type {NftDifference} from '../../compare/compare-nft-table.ts';
import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import type {NftPort} from '../../expect/nftables/nft-port.ts';
import type {NftChain, NftTable} from '../../model/nft-ruleset.ts';
import type {KnownSenders} from '../outcomes/sources.ts';
import type {NftServiceView} from './nft-service-view.ts';

export type NftPortDifference = NftDifference<NftPort>;

/** One family's table on one node, with the expected one. */
export interface NftCase {
  readonly expected: ExpectedTable;
  readonly actual: NftTable;
  readonly view: NftServiceView;
  readonly senders: () => KnownSenders;
}

export interface NftPortCase extends NftCase {
  readonly item: NftPort;
  readonly differences: readonly NftPortDifference[];
}

export interface NftBaseRulesCase extends NftCase {
  /** Differences that belong to no Service port. */
  readonly differences: readonly NftPortDifference[];
  readonly unexpectedChains: readonly NftChain[];
  /** The networks whose unallocated addresses kube-proxy should drop packets to; null where they are not known. */
  readonly serviceRanges: readonly string[] | null;
  /** Differences that the findings of Services explain. */
  readonly isExplained: (difference: NftPortDifference) => boolean;
}
