import type {PortEntry} from '../expect/cluster/cluster-view.ts';
import {chainsOfRoles} from '../expect/iptables/chain-names.ts';
import {deletesLocalChains} from '../expect/iptables/iptables-versions.ts';
import {addressInside, type Family, familyOf, parseCidr} from '../model/address.ts';
import type {Severity, Variant} from '../model/finding.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {KubeProxyVersion} from '../model/proxy-config.ts';
import type {Chain, Rule, Ruleset} from '../model/ruleset.ts';
import {fileText, type NodeDump} from '../model/snapshot.ts';
import {plural} from '../model/text.ts';
import type {Outcome, Packet} from '../trace/walked-packet.ts';
import {type Side, walkSide} from '../trace/side.ts';
import {packetOf} from './outcomes/probes.ts';
import {portalChains, portalRules} from './userspace/userspace-mode.ts';

/** Rules that an old kube-proxy left behind, and what they still do. */
export interface Leftover {
  readonly family: Family;
  readonly message: string;
  readonly variant?: Variant;
  /** They intercept packets. */
  readonly catches: boolean;
  readonly rules: readonly Rule[];
}

/** Portals of the userspace mode beside another mode: kube-proxy no longer listens on their ports, so connections to them are refused. */
export function leftoverPortals(ruleset: Ruleset): Leftover | null {
  const rules = portalRules(ruleset);
  if (rules.length === 0) return null;
  const first = portalChains.filter(chain => rules.some(rule => rule.chain === chain) && comesFirst(ruleset, chain.name, chain.hook));
  const names = [...new Set(rules.map(({servicePortName}) => servicePortName))].slice(0, 3).join(', ');
  const held = `userspace mode left ${rules.length} rules in ${portalChains
    .map(({name}) => name)
    .filter(name => (ruleset.chain('nat', name)?.ruleCount ?? 0) > 0)
    .join(', ')} (of ${names})`;
  const effect =
    first.length > 0
      ? `${first.map(({name}) => name).join(' and ')} come before KUBE-SERVICES: their packets go to ports on which kube-proxy no longer listens`
      : 'packets that KUBE-SERVICES does not match still go to ports on which kube-proxy no longer listens';
  return {family: ruleset.family, message: `${held}; ${effect}`, catches: first.length > 0, rules: rules.slice(0, 6).map(({rule}) => rule)};
}

function comesFirst(ruleset: Ruleset, chain: string, hook: string): boolean {
  const targets = (ruleset.chain('nat', hook)?.rules() ?? []).map(({target}) => target?.name);
  const at = targets.indexOf(chain);
  const services = targets.indexOf('KUBE-SERVICES');
  return at >= 0 && (services < 0 || at < services);
}

/** kube-proxy from 1.28 on does not remove KUBE-XLB chains. Chains that they jump to cannot be deleted. */
export function leftoverLocalChains(ruleset: Ruleset, version: KubeProxyVersion): Leftover | null {
  if (deletesLocalChains(version)) return null;
  const chains = [...chainsOfRoles(ruleset, ['XLB'])];
  const rules = chains.flatMap(chain => chain.rules());
  if (rules.length === 0) return null;
  const message = `kube-proxy 1.23 or older left ${plural(chains.length, 'chain')} KUBE-XLB-… (such as ${chains[0]?.name}), which kube-proxy from 1.28 on does not remove: chains that they lead to cannot be deleted, and then every sync of kube-proxy fails`;
  return {family: ruleset.family, message, variant: 'every-sync-fails', catches: false, rules: rules.slice(0, 6)};
}

/** What rules of a proxy mode that no longer runs still do to packets. */
export interface LeftoverEffect {
  readonly severity: Severity;
  readonly text: string;
}

/** Above this number, Service ports are not probed. */
export const maxPorts = 300;

/** Walks packets of pods to cluster IPs through the leftovers alone: packets that these match may never reach the rules in use. Null if none match. */
export function leftoverEffect(leftovers: Side, entries: readonly PortEntry[], facts: NodeFacts): LeftoverEffect | null {
  const caught: PortEntry[] = [];
  const wrong: PortEntry[] = [];
  for (const entry of entries.slice(0, maxPorts)) {
    const packet = packetFromPod(entry, facts);
    const outcomes = packet === null ? [] : walkSide(leftovers, packet);
    if (!intercepts(outcomes)) continue;
    caught.push(entry);
    const usable = new Set(entry.set.endpoints.filter(({ready, terminating}) => ready || terminating).map(({hostPort}) => hostPort));
    const astray = outcomes.some(({destination}) => (destination === null ? !entry.port.internalPolicyLocal : !usable.has(destination)));
    if (usable.size > 0 && astray) wrong.push(entry);
  }
  const [first] = wrong.length > 0 ? wrong : caught;
  if (first === undefined) return null;
  const count = `${plural(caught.length, 'Service port')}`;
  const astray = wrong.length > 0 ? `, and sends those of ${wrong.length} to an address that is no endpoint of theirs` : '';
  const text = `it still intercepts packets of ${count}${astray} (such as ${first.port.servicePortName}), and nothing keeps its rules up to date`;
  return {severity: wrong.length > 0 ? 'error' : 'warning', text};
}

/** Whether the rules translate, refuse or drop the packet. */
export function intercepts(outcomes: readonly Pick<Outcome, 'verdict' | 'destination'>[]): boolean {
  return outcomes.some(({verdict, destination}) => verdict !== 'undecided' && (verdict !== 'accept' || destination !== null));
}

/** A packet of a pod of the node, or of the node itself, to the cluster IP of a Service port. */
export function packetFromPod({port}: PortEntry, {podCIDRs, addresses}: NodeFacts): Packet | null {
  const network = podCIDRs.map(text => parseCidr(text)).find(cidr => cidr?.family === port.family) ?? null;
  const source =
    (network === null ? null : addressInside(network, new Set())) ?? addresses.find(address => familyOf(address) === port.family);
  if (source === undefined) return null;
  return packetOf(port, {source, destination: port.clusterIP, port: port.port, from: {kind: 'pod', interface: null}});
}

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
  const servers = fileText(node, 'ipvsadm-save').match(/^-A /gm)?.length ?? 0;
  const link = fileText(node, 'kube-ipvs0.json');
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
