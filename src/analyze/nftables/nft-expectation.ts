import type {NftExpectation} from '../../compare/compare-nft-table.ts';
import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import {nodePortIPs} from '../../expect/nftables/base-sets.ts';
import type {NftPort} from '../../expect/nftables/nft-port.ts';

/** An ExpectedTable in the form in which tables are compared: grouped by Service port. */
export function asNftExpectation(expected: ExpectedTable): NftExpectation<NftPort> {
  return {
    table: expected.id,
    owners: expected.ports,
    objectsOf: item => expected.objectsOf(item),
    baseRules: expected.baseRules,
    baseSets: expected.baseSets,
    baseElements: (nodePortIPs(expected.context) ?? []).map(key => ({set: 'nodeport-ips', key, value: null, comment: null})),
  };
}
