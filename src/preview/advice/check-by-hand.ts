import {type Family, parseCidr} from '../../model/address.ts';
import type {AdviceCase, NodeAdvice} from './advice-case.ts';
import {rangesOf} from './service-range.ts';

/** Effects of a change to nftables mode that neither objects nor dumps show. */
export function checkByHand({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (configAfter.mode.value !== 'nftables') return [];
  const ranges = rangesOf(setup, configAfter);
  const hasRoutes = (family: Family = 'IPv4'): boolean => (setup.facts.network?.routes[family] ?? null) !== null;
  return [...hostsInRange(ranges, ranges?.every(text => hasRoutes(parseCidr(text)?.family)) ?? false), ...readers];
}

function hostsInRange(ranges: readonly string[] | null, isRouted: boolean): readonly NodeAdvice[] {
  if (ranges?.length === 0) return [];
  const about = {topic: 'by-hand', id: 'check-by-hand', ofCluster: true} as const;
  if (ranges !== null)
    return [
      {
        ...about,
        reason: `hosts inside the Service range ${ranges.join(', ')}${isRouted ? ' that only routers beyond the nodes have routes to' : ''}: nftables mode drops packets to its unallocated addresses`,
        remedy: `Look in the routing tables of ${isRouted ? '' : 'the nodes and '}the network for addresses in the range.`,
      },
    ];
  return [
    {
      ...about,
      reason:
        'endpoints, pod networks, nodes and routed hosts inside the Service range: nftables mode from 1.33 on drops packets to its unallocated addresses, and the ServiceCIDRs are not known',
      remedy: 'Compare with: kubectl get servicecidrs. A bundle holds them as api/servicecidrs.json.',
    },
  ];
}

const readers: readonly NodeAdvice[] = [
  {
    topic: 'by-hand',
    id: 'check-by-hand',
    ofCluster: true,
    reason: 'programs that read the iptables rules of kube-proxy, such as exporters and agents: KUBE-SERVICES is empty in nftables mode',
    remedy: 'Find out from their documentation whether they support nftables mode.',
  },
];
