import {parseNftName} from '../../../expect/nftables/nft-names.ts';
import type {Entry} from '../../../model/entry.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import type {NftPortCase, NftPortDifference} from '../nft-case.ts';

/** Rules and elements of the Service port that are not on the node. */
export function missingOf({differences}: NftPortCase): readonly NftPortDifference[] {
  return differences.filter(({kind}) => kind === 'missing');
}

/** Rules and elements that kube-proxy would not have written. */
export function extraOf({differences}: NftPortCase): readonly NftPortDifference[] {
  return differences.filter(({kind}) => kind === 'extra');
}

export function isOwnChain({expected, item}: NftPortCase, chain: string): boolean {
  return expected.ownerOf(chain) === item || parseNftName(chain)?.base === item.names.base;
}

/** The actual elements that match an entry's packets. */
export function elementsAt(given: NftPortCase, entry: Entry): readonly RuleText[] {
  const {actual, expected} = given;
  const key = elementKey(given, entry);
  const name = entry.address === null ? 'service-nodeports' : 'service-ips';
  const value = actual.set(name)?.elements.get(key)?.value ?? null;
  return value === null ? [] : [{table: expected.id, chain: name, line: 1, isOrdinal: true, text: `${key} : ${value}`}];
}

/** The key of an entry in the maps of kube-proxy: `10.96.1.1 . tcp . 80`, or `tcp . 30080` for a node port. */
export function elementKey({item}: NftPortCase, {address, port}: Entry): string {
  const protocol = item.port.protocol.toLowerCase();
  return `${address === null ? '' : `${address} . `}${protocol} . ${port}`;
}
