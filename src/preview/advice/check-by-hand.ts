import {allOf} from '../../analyze/iptables/node-rulesets.ts';
import {families} from '../../model/address.ts';
import type {NodeSetup} from '../node-setup.ts';
import {otherTables} from '../sides.ts';
import type {AdviceCase, NodeAdvice} from './advice-case.ts';
import {rangesOf} from './service-range.ts';

/** Effects of a change to nftables mode that neither objects nor dumps show, and what they show of nft. */
export function checkByHand({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (configAfter.mode.value !== 'nftables') return [];
  return [...hostsInRange(rangesOf(setup, configAfter)), ...readers, ...newerNft({setup, configAfter})];
}

function hostsInRange(ranges: readonly string[] | null): readonly NodeAdvice[] {
  if (ranges?.length === 0) return [];
  const about = {topic: 'by-hand', id: 'check-by-hand', ofCluster: true} as const;
  if (ranges !== null)
    return [
      {
        ...about,
        reason: `hosts that are routed inside the Service range ${ranges.join(', ')}: nftables mode drops packets to its unallocated addresses`,
        remedy: 'Look in the routing tables of the nodes and the network for addresses in the range.',
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
    ...{topic: 'by-hand', id: 'check-by-hand', ofCluster: true},
    reason: 'programs that read the iptables rules of kube-proxy, such as exporters and agents: KUBE-SERVICES is empty in nftables mode',
    remedy: 'Find out from their documentation whether they support nftables mode.',
  },
];

/** kubernetes#136786: an nft before 1.0.6.1 crashes when it lists a table that 1.1.3 or newer wrote. */
function newerNft({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (configAfter.version.value.minor >= 37) return [];
  const nft = setup.nft();
  if (nft === null)
    return [
      {
        ...{topic: 'by-hand', id: 'newer-nft'},
        reason:
          "other programs on the node that use nft 1.1.3 or newer: the nft in kube-proxy's image can crash on their tables; the node's nft was not read",
        remedy: 'Run nft --version and nft list tables on the node.',
      },
    ];
  const others = tablesOfOthers(setup);
  if (others.length === 0 || !isAtLeast(nft.toolVersion, [1, 1, 3])) return [];
  return [
    {
      ...{topic: 'change', id: 'newer-nft'},
      reason: `nft ${nft.toolVersion} is used on the node, and ${others.join(', ')} ${others.length === 1 ? 'is' : 'are'} not kube-proxy's: the nft in images of kube-proxy before 1.37 can crash on tables that a newer nft wrote, and then nothing is synced`,
      remedy: 'Use kube-proxy 1.37, or a patch release with kubernetes#137501.',
    },
  ];
}

function tablesOfOthers(setup: NodeSetup): readonly string[] {
  const iptables = families.flatMap(family => allOf(setup.dumps, family));
  return otherTables(setup.nft(), iptables).map(({id}) => `table ${id}`);
}

function isAtLeast(version: string | null, wanted: readonly number[]): boolean {
  const own = (version ?? '').split('.').map(Number);
  const at = wanted.findIndex((number, index) => own[index] !== number);
  return at < 0 || (own[at] ?? 0) > (wanted[at] ?? 0);
}
