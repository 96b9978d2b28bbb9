import type {NodeContext} from '../../expect/node-context.ts';
import {formatAddress} from '../../model/address.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {type AddressInterval, parseInterval} from '../../parse/nftables/address-list.ts';
import type {Source} from './sources.ts';

/**
 * A client in each network that texts of rules or elements name, and that loadBalancerSourceRanges do not hold: a range that was removed from
 * the Service may still be allowed on the node. Without ranges, all clients are allowed.
 */
export function clientsOfOtherRanges(texts: readonly string[], {sourceRanges}: ServicePort, context: NodeContext): readonly Source[] {
  if (sourceRanges.length === 0) return [];
  const ranges = intervalsIn(sourceRanges);
  const named = intervalsIn(texts.flatMap(text => text.match(/[\da-f.:]+(?:[/-][\da-f.:]+)?/g) ?? []));
  return named
    .filter(({family}) => family === context.family)
    .slice(0, maxNetworks)
    .flatMap(network => {
      const address = addressOutside(network, ranges, context);
      return address === undefined ? [] : [{kind: 'other-range', address, interface: context.facts.primaryInterface}];
    });
}

const maxNetworks = 64;

function intervalsIn(texts: readonly string[]): readonly AddressInterval[] {
  return texts.flatMap(text => parseInterval(text) ?? []);
}

/** Tries addresses all over the network. */
function addressOutside(
  {family, low, high}: AddressInterval,
  ranges: readonly AddressInterval[],
  {facts}: NodeContext,
): string | undefined {
  const size = high - low + 1n;
  const isAllowed = (value: bigint): boolean => ranges.some(range => range.family === family && range.low <= value && value <= range.high);
  return Array.from({length: 16}, (_, part) => low + (size * BigInt(2 * part + 1)) / 32n)
    .filter(value => !isAllowed(value))
    .map(value => formatAddress(family, value))
    .find(text => !facts.addresses.includes(text));
}
