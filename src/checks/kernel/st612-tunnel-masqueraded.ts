import {internalIPs, nodeObject} from '../../expect/api-index.ts';
import {type Address, parseAddress} from '../../model/address.ts';
import {outsideOf} from '../../model/node/policy-routing.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {type ChainResult, limitsFor, startBranch} from '../../trace/branch.ts';
import {iptablesChains} from '../../trace/iptables/walk-packet.ts';
import {type Packet, pathRules, untouched} from '../../trace/walked-packet.ts';
import type {NodeCheckContext} from '../check-types.ts';
import {check} from '../catalog.ts';
import {listPlace} from '../commands/commands.ts';
import {podAddresses, routeTo} from './node-paths.ts';

export const tunnelMasqueraded = check('ST612', {
  *node(context) {
    const rules = context.rulesets.get('IPv4');
    const way = rules === undefined ? null : tunneledWay(context);
    if (rules === undefined || way === null) return;
    const mark = 1 << context.config.masqueradeBit.value;
    // From a client outside, by a node port, to a pod on another node.
    const inner = {source: way.client, destination: way.pod, port: 80, mark, origin: 'arriving', outInterface: way.tunnel} as const;
    const [marked] = leaving(rules, context, {...inner, protocol: 'tcp'}).filter(
      ({packet}) => packet.masquerade && (packet.mark & mark) !== 0,
    );
    if (marked === undefined) return;
    const outer = {
      source: way.thisNode,
      destination: way.otherNode,
      port: way.port,
      mark: marked.packet.mark,
      origin: 'node',
      outInterface: null,
    } as const;
    const [again] = leaving(rules, context, {...outer, protocol: 'udp'}).filter(({packet}) => packet.masquerade);
    if (again === undefined) return;
    const actual = [marked, again].flatMap(({path}) => pathRules(path).slice(-1));
    const carrier = way.tunnel === null ? 'a VXLAN of flannel, if that is its backend' : way.tunnel;
    const message = `${actual[0]?.chain ?? ''} masquerades packets that Services send to pods on other nodes and leaves their mark on them: the packets that carry them through ${carrier} are masqueraded again (UDP ${way.port}). Where the kernel or the network card computes their checksums wrongly then, connections stall for a minute.`;
    const observation = {family: 'IPv4', message, actual} as const;
    yield {...observation, ...listPlace(context, observation)};
  },
});

/**
 * A way to a pod on another node through a VXLAN; null if there is none. `thisNode` and `otherNode`: the nodes at both ends. `tunnel`: null
 * if interfaces were not read, and flannel has rules.
 */
function tunneledWay(context: NodeCheckContext) {
  const {links} = context.facts.network;
  const [client] = outsideOf('IPv4');
  const own = parseAddress(context.facts.hostIPs[0] ?? '');
  const isFlannel = context.rulesets.get('IPv4')?.chain('nat', 'FLANNEL-POSTRTG') !== undefined;
  // Most nodes have none, and the endpoints of the cluster are many.
  const mayTunnel = links === null ? isFlannel : links.some(({vxlan}) => vxlan);
  if (client === undefined || own?.family !== 'IPv4' || !mayTunnel) return null;
  for (const [name, pods] of podAddresses(context, 'IPv4')) {
    const pod = pods[0]?.address;
    const object = nodeObject(context.api, name);
    const node = object === undefined ? null : parseAddress(internalIPs(object)[0] ?? '');
    if (name === context.node.name || !pod || !node) continue;
    if (links === null) return {client, pod, thisNode: own, otherNode: node, tunnel: null, port: 8472};
    const route = routeTo(context, pod);
    const link = route.kind === 'unicast' ? links?.find(other => other.name === route.dev) : undefined;
    if (link?.vxlan) return {client, pod, thisNode: own, otherNode: node, tunnel: link.name, port: link.vxlan.port};
  }
  return null;
}

type Leaving = Pick<Packet, 'source' | 'destination' | 'port' | 'protocol' | 'mark' | 'origin' | 'outInterface'>;

/** What table nat does to a packet that leaves, as far as that is certain. */
function leaving(rules: Ruleset, {facts}: NodeCheckContext, packet: Leaving): readonly ChainResult[] {
  const environment = {
    isLocal: ({text}: Address) => (facts.allAddresses ? facts.addresses.includes(text) : null),
    canBeInterface: () => null,
    inSet: () => null,
    knownTo: new Set<string>(),
    redirectAddress: () => null,
  };
  const chain = iptablesChains({rules, environment, limits: limitsFor(rules)}).find(({hook, isNat}) => isNat && hook === 'postrouting');
  const start: Packet = {...untouched, family: 'IPv4', ...packet, rewritten: true};
  return (chain?.walk(startBranch(start)) ?? []).filter(({supposed, verdict}) => supposed === null && verdict === 'accept');
}
