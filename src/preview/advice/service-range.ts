import {someOf} from '../../model/text.ts';
import {nodesInRanges} from '../../expect/cluster/service-range.ts';
import {droppedRanges} from '../../expect/nftables/base-chains.ts';
import {proxyTableId} from '../../expect/nftables/expected-table.ts';
import {contains, families, parseCidr} from '../../model/address.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import {parseInterval} from '../../parse/nftables/address-list.ts';
import type {NodeSetup} from '../node-setup.ts';
import type {AdviceCase, NodeAdvice} from './advice-case.ts';

/**
 * Nodes, pod networks and routed networks inside the Service range: nftables mode from 1.33 on drops packets to them. Endpoints inside it
 * are found by their packets.
 */
export function serviceRange({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  const ranges = rangesOf(setup, configAfter);
  if (ranges === null || ranges.length === 0 || isDroppedToday(setup)) return [];
  const inside = nodesInRanges(
    setup.api,
    ranges.flatMap(text => parseInterval(text) ?? []),
  ).map(({text}) => text);
  const routed = routesInto(setup, ranges);
  const said = (who: readonly string[], of: object): readonly NodeAdvice[] =>
    who.length === 0
      ? []
      : [
          {
            topic: 'change',
            id: 'unallocated-addresses',
            effect: 'lost',
            ...of,
            reason: `${someOf(who, {max: 3})} ${who.length === 1 ? 'is' : 'are'} inside the Service range ${ranges.join(', ')}: nftables mode drops new connections to them`,
            remedy: 'Renumber them, or delete the ServiceCIDR that holds them.',
          },
        ];
  return [...said(inside, {ofCluster: true}), ...said(routed, {})];
}

/** A route to all of the range, as nodes without a default route have it, leads to no host. */
function routesInto({facts: {network}}: NodeSetup, ranges: readonly string[]): readonly string[] {
  const cidrs = ranges.flatMap(text => parseCidr(text) ?? []);
  const routes = families.flatMap(family => network?.routes[family] ?? []);
  const inside = routes.filter(
    ({kind, to}) => kind === 'unicast' && cidrs.some(cidr => to.prefix > cidr.prefix && contains(cidr, {...to, value: to.base})),
  );
  return [
    ...new Set(inside.map(({to, hops}) => `${to.text}, which a route by ${hops[0]?.gateway ?? hops[0]?.dev ?? 'the node'} leads to,`)),
  ];
}

/** The networks of both families that packets are dropped to after the change; null where they are not known. */
export function rangesOf(setup: NodeSetup, config: ProxyConfig): readonly string[] | null {
  if (config.mode.value !== 'nftables') return [];
  const ranges = families.map(family =>
    droppedRanges({api: setup.api, config, family, table: setup.nft()?.tables.get(proxyTableId(family)) ?? null}),
  );
  return ranges.includes(undefined) ? null : ranges.flatMap(range => range ?? []);
}

function isDroppedToday(setup: NodeSetup): boolean {
  return (rangesOf(setup, setup.config) ?? []).length > 0;
}
