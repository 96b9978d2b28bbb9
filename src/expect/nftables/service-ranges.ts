import {parseCidr} from '../../model/address.ts';
import type {Family} from '../../model/family.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {isServiceCIDRRule} from './base-chains.ts';
import {dropsUnallocated} from './nft-versions.ts';

/**
 * The networks of one family that cluster IPs are allocated from; null where they are not known. An API server that serves ServiceCIDRs
 * always has one, so an empty list says nothing. Follows `ServiceCIDRConfig`.
 */
export function serviceRanges({serviceCIDRs}: ApiObjects, family: Family): readonly string[] | null {
  const cidrs = (serviceCIDRs ?? []).flatMap(({spec}) => spec?.cidrs ?? []);
  if (cidrs.length === 0) return null;
  return [...new Set(cidrs.flatMap(text => parseCidr(text) ?? []).flatMap(cidr => (cidr.family === family ? cidr.text : [])))];
}

interface DroppedRangesInput {
  readonly api: ApiObjects;
  readonly config: ProxyConfig;
  readonly family: Family;
  /** The node's own table: its rule shows the ranges where the ServiceCIDRs were not read. */
  readonly table: NftTable | null;
}

/** The networks whose unallocated addresses a kube-proxy in nftables mode drops packets to; undefined where they are not known. */
export function droppedRanges({api, config, family, table}: DroppedRangesInput): readonly string[] | undefined {
  if (!dropsUnallocated(config.version.value, config.featureGates.value)) return [];
  return serviceRanges(api, family) ?? rangesInTable(table);
}

function rangesInTable(table: NftTable | null): readonly string[] | undefined {
  const rule = table?.chains
    .get('cluster-ips-check')
    ?.rules()
    .find(({body}) => isServiceCIDRRule(body));
  return rule === undefined ? undefined : networksIn(rule.body);
}

/** The networks that a rule of cluster-ips-check names. */
export function networksIn(body: string): readonly string[] {
  return [...body.matchAll(/[0-9a-f.:]*[.:][0-9a-f.:]*(?:\/\d+|-[0-9a-f.:]+)?/g)].map(([found]) => found);
}
