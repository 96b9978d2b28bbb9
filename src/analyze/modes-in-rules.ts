import type {Family} from '../model/family.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {Chain, Ruleset} from '../model/ruleset.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {portalChains} from './userspace/portal-rules.ts';

/** A proxy mode whose rules or servers the kernel holds, and the evidence for it. */
export interface ModeInRules {
  readonly mode: 'iptables' | 'ipvs' | 'nftables' | 'userspace';
  readonly sign: () => string;
}

interface RulesOfNode {
  readonly node: NodeDump;
  readonly rulesets: ReadonlyMap<Family, Ruleset>;
  readonly nft: () => NftRuleset | null;
}

/** The modes whose rules, tables or virtual servers a node holds, going by what was collected of it. */
export function modesInRules({node, rulesets, nft}: RulesOfNode): readonly ModeInRules[] {
  const held: ModeInRules[] = [];
  const all = [...rulesets.values()];
  // One is enough; they are counted only for a message.
  if (chainsOfServices(all).next().done !== true)
    held.push({mode: 'iptables', sign: () => `${[...chainsOfServices(all)].length} chains of Services in iptables`});
  const portals = all.flatMap(ruleset => portalChains.filter(({name}) => (ruleset.chain('nat', name)?.ruleCount ?? 0) > 0)).length;
  if (portals > 0) held.push({mode: 'userspace', sign: () => `${portals} chains of portals in iptables`});
  const ipvs = ipvsSigns(node, all);
  if (ipvs.length > 0) held.push({mode: 'ipvs', sign: () => ipvs.join(', ')});
  if ([...(nft()?.tables.values() ?? [])].some(({name}) => name === 'kube-proxy'))
    held.push({mode: 'nftables', sign: () => 'the nftables table kube-proxy'});
  return held;
}

function* chainsOfServices(rulesets: readonly Ruleset[]): IterableIterator<Chain> {
  for (const ruleset of rulesets) {
    const chains = ruleset.tables.get('nat')?.chains.startingWith('KUBE-SVC-', 'KUBE-SVL-', 'KUBE-EXT-') ?? [];
    for (const chain of chains) if (chain.ruleCount > 0) yield chain;
  }
}

function ipvsSigns(node: NodeDump, rulesets: readonly Ruleset[]): readonly string[] {
  const servers = (node.read('ipvsadm-save')?.toString('utf8') ?? '').match(/^-A /gm)?.length ?? 0;
  const link = node.read('kube-ipvs0.json')?.toString('utf8') ?? '';
  const addresses = link.match(/"local"/g)?.length ?? 0;
  const chains = rulesets.flatMap(ruleset =>
    [...ruleset.tables.values()].flatMap(({chains: own}) => ipvsChains.filter(name => own.has(name))),
  );
  return [
    ...(servers > 0 ? [`${servers} virtual servers`] : []),
    ...(addresses > 0 ? [`${addresses} addresses on kube-ipvs0`] : []),
    ...(chains.length > 0 ? [`iptables chains such as ${[...new Set(chains)].slice(0, 3).join(', ')}`] : []),
  ];
}

/** Chains that only the IPVS mode makes. */
const ipvsChains = [
  'KUBE-LOAD-BALANCER',
  'KUBE-NODE-PORT',
  'KUBE-IPVS-FILTER',
  'KUBE-IPVS-OUT-FILTER',
  'KUBE-SOURCE-RANGES-FIREWALL',
  'KUBE-IPVS-IPS',
];
