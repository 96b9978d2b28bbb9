import {type Family, families, parseAddress, parseCidr} from '../../model/address.ts';
import {once} from '../../model/once.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {type AddressInterval, parseInterval} from '../../parse/nftables/address-list.ts';
import {podCIDRsOf} from '../node-context.ts';
import {clusterIPOf} from './cluster-view.ts';

interface ServiceRange extends AddressInterval {
  readonly text: string;
}

/**
 * The networks of one family that cluster IPs are allocated from; null where they are not known. An API server that serves ServiceCIDRs
 * always has one, so an empty list says nothing. Follows `ServiceCIDRConfig`.
 */
export function serviceRanges({serviceCIDRs}: ApiObjects, family: Family): readonly string[] | null {
  const cidrs = (serviceCIDRs ?? []).flatMap(({spec}) => spec?.cidrs ?? []);
  if (cidrs.length === 0) return null;
  return [...new Set(cidrs.flatMap(text => parseCidr(text) ?? []).flatMap(cidr => (cidr.family === family ? cidr.text : [])))];
}

/** The addresses that are certainly among those that cluster IPs are allocated from. */
export const knownServiceRanges = once((api: ApiObjects): readonly ServiceRange[] =>
  families.flatMap(family => serviceRanges(api, family)?.flatMap(rangeOf) ?? rangeOfClusterIPs(api, family)),
);

/** The first address of the range is that of default/kubernetes, and the range has at most this many bits. */
const rangeBits = 20n;

function rangeOfClusterIPs({services}: ApiObjects, family: Family): readonly ServiceRange[] {
  const used = (services ?? []).flatMap(service => {
    const address = parseAddress(clusterIPOf(service, family) ?? '');
    return address === null ? [] : [{address, isFirst: service.metadata.namespace === 'default' && service.metadata.name === 'kubernetes'}];
  });
  const first = used.find(({isFirst}) => isFirst)?.address;
  if (first === undefined) return [];
  const inRange = used.flatMap(({address}) => (address.value >> rangeBits === first.value >> rangeBits ? address : []));
  const last = inRange.reduce((most, address) => (address.value > most.value ? address : most), first);
  return [{family, low: first.value, high: last.value, text: `${first.text} to ${last.text}`}];
}

function rangeOf(text: string): readonly ServiceRange[] {
  const interval = parseInterval(text);
  return interval === null ? [] : [{...interval, text}];
}

/** Addresses of nodes inside these ranges, and networks of their pods that share addresses with them. */
export function nodesInRanges({nodes}: ApiObjects, ranges: readonly AddressInterval[]) {
  if (ranges.length === 0) return [];
  return (nodes ?? []).flatMap(node => {
    const {name} = node.metadata;
    const overlapping = podCIDRsOf(node).filter(text => overlaps(text, ranges));
    const addresses = (node.status?.addresses ?? []).flatMap(({type, address = ''}) =>
      type !== 'Hostname' && overlaps(address, ranges) ? [address] : [],
    );
    return [
      ...overlapping.map(text => ({address: null, text: `the pod network ${text} of ${name}`})),
      ...addresses.map(address => ({address, text: `the address ${address} of ${name}`})),
    ];
  });
}

/** Whether an address or network shares addresses with one of the ranges. */
export function overlaps(text: string, ranges: readonly AddressInterval[]): boolean {
  const own = parseInterval(text);
  return own !== null && ranges.some(({family, low, high}) => family === own.family && low <= own.high && own.low <= high);
}
