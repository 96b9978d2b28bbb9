import {type Address, type Family, familyOf, formatAddress, parseAddress} from '../../model/address.ts';
import {hostIP, type NodeFacts} from '../../model/node/node-facts.ts';
import {plural, someOf} from '../../model/text.ts';
import {noting, type Side, walkSide} from '../../trace/side.ts';
import {packetOf, packetToNode, type Probe} from '../outcomes/probes.ts';
import {classesOfProbe, clientPorts, type SenderGroups} from '../outcomes/senders.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {causeText, type EffectCase} from './rule-effect.ts';
import type {Endpoint, ServedPort} from '../../model/endpoint.ts';
import {holds} from '../../model/intervals.ts';
import {type Environment, type NodeRule, type Outcome, type Packet, untouched} from '../../trace/walked-packet.ts';
import type {ServicePort} from '../../model/service-port.ts';

/** Packets beside those of Services, which Services need. */
interface OtherPackets {
  readonly side: Side;
  readonly ports: readonly ServedPort[];
  readonly groups: SenderGroups;
  readonly effects: EffectCase;
}

/** Rules that stop the messages by which neighbors are found, what tunnels carry, and health checks of load balancers. */
export function stoppedPackets(given: OtherPackets): readonly Symptom[] {
  return [...neighborSymptoms(given), ...tunnelSymptoms(given), ...healthCheckSymptoms(given)];
}

/** How the kernel stops a packet; null if it does not, or if that is not certain. */
function stopOf(side: Side, packet: Packet): Outcome | null {
  const [outcome, ...others] = walkSide(side, packet);
  return others.length === 0 && (outcome?.verdict === 'drop' || outcome?.verdict === 'reject') ? outcome : null;
}

/** Null for a policy. */
function stoppingRule({path, policy}: Outcome): NodeRule | null {
  return policy === undefined ? (path.at(-1) ?? null) : null;
}

/** One symptom for each rule or policy. */
function byCause<T extends {readonly stop: Outcome}>(stopped: readonly T[]): readonly (readonly [T, ...T[]])[] {
  return [...Map.groupBy(stopped, ({stop}) => stop.policy ?? stoppingRule(stop)).values()] as [T, ...T[]][];
}

/** What all of these symptoms are. */
function symptomOf(stop: Outcome, family: Family, affects: readonly ServicePort[]) {
  const rule = stoppingRule(stop);
  return {family, port: null, affects, expected: [], actual: rule === null ? [] : [rule]};
}

/** Rules by which the node, its pods and other nodes cannot find each other on a link: one symptom for each. */
function neighborSymptoms({side, ports, groups, effects}: OtherPackets): readonly Symptom[] {
  const {facts, family} = effects.context;
  const own = parseAddress(hostIP(facts, family) ?? '');
  if (family !== 'IPv6' || own === null || ports.length === 0) return [];
  const pods = [...groups.pods.keys()].filter(value => holds(groups.spaces.get('pod') ?? [], value));
  const neighbors = [...[...groups.nodes.keys()].slice(0, 1), ...pods.slice(0, maxPods)].map(value => ({
    family,
    value,
    text: formatAddress(family, value),
  }));
  const byLink = new Map(neighbors.flatMap(neighbor => linkTo(facts, side, neighbor)));
  const found = [...byLink].flatMap(([dev, neighbor]) => lostMessages(side, dev, {own, neighbor}).map(lost => ({dev, ...lost})));
  return byCause(found).flatMap(all => {
    const [{stop}] = all;
    const rule = stoppingRule(stop);
    if (rule === null ? stop.policy === undefined : effects.isOwn(rule)) return [];
    const [what, where] = [all.map(({text}) => text), all.map(({dev}) => dev)].map(texts => someOf([...new Set(texts)], {max: 4}));
    const scope = `${plural(ports.length, 'Service port')}, such as ${ports[0]?.port.servicePortName ?? ''}`;
    const effect = all.some(({isToSend}) => isToSend) ? 'does not find' : 'is not found by';
    const detail = `${what} (on ${where}) are dropped ${causeText(rule, stop.policy, effects)}: but for permanent entries, the node ${effect} nodes, pods and clients there, and packets of Services are lost (${scope})`;
    const affects = ports.map(({port}) => port);
    return {...symptomOf(stop, family, affects), kind: 'dropped-by-other-rule', severity: 'warning', detail};
  });
}

const maxPods = 3;

/** The interface behind which an address is, if neighbors are asked for there; none for tunnels without link-layer addresses. */
export function linkTo(
  {network}: NodeFacts,
  {environment}: Pick<Side, 'environment'>,
  address: Address,
): readonly (readonly [string, Address])[] {
  const dev = environment.interfaceOf?.(address) ?? null;
  if (dev === null) return [];
  const kind = network.links?.find(({name}) => name === dev)?.kind ?? '';
  return /^(?:wireguard|ipip|sit|ip6tnl|gre|ip6gre|tun|ppp|none)$/.test(kind) || /^(?:wg|tun|lo$)/.test(dev) ? [] : [[dev, address]];
}

const messages = [
  {icmpType: 135, isArriving: false, isToSend: true, text: 'neighbor solicitations (ICMPv6 type 135) that leave'},
  {icmpType: 136, isArriving: true, isToSend: true, text: 'neighbor advertisements (ICMPv6 type 136) that arrive'},
  {icmpType: 135, isArriving: true, isToSend: false, text: 'neighbor solicitations (ICMPv6 type 135) that arrive'},
  {icmpType: 136, isArriving: false, isToSend: false, text: 'neighbor advertisements (ICMPv6 type 136) that leave'},
] as const;

/**
 * The messages that are lost on an interface from whatever address of this link they have: the node's own one or that of the link, its
 * group, or the neighbor's. `text`: `neighbor advertisements (ICMPv6 type 136) that arrive`. `isToSend`: the node itself finds its
 * neighbors by them; by the others they find the node, which they may have learned from what it sends.
 */
export function lostMessages(side: Side, dev: string, {own, neighbor}: {readonly own: Address; readonly neighbor: Address}) {
  const here = [own, ...ownOfLink];
  const there = [neighbor, ...neighborOfLink];
  return messages.flatMap(({icmpType, isArriving, isToSend, text}) => {
    // A solicitation asks a group, and later the address itself.
    const to = [...(isArriving ? here : there), ...(icmpType === 135 ? groups : [])];
    const stops = pairs(isArriving ? there : here, to).map(([source, destination]) =>
      stopOf(onLink(side, dev, here), messageOf({source, destination, dev, icmpType, isArriving})),
    );
    const [stop = null] = stops;
    return stop === null || stops.includes(null) ? [] : [{text, isToSend, stop}];
  });
}

const addressesOf = (text: string): readonly Address[] => [parseAddress(text)].filter(address => address !== null);
const [ownOfLink, neighborOfLink, groups] = [addressesOf('fe80::2'), addressesOf('fe80::1'), addressesOf('ff02::1:ff00:1')];

function pairs(sources: readonly Address[], destinations: readonly Address[]): readonly (readonly [Address, Address])[] {
  return sources.flatMap(source => destinations.map(destination => [source, destination] as const));
}

/** The link decides by which interface a message passes, and no route. */
function onLink(side: Side, dev: string, here: readonly Address[]): Side {
  const {obstacle: _, ownObstacle: _own, arrivalObstacle: _arrival, doubtedWay: _way, sender: _sender, ...environment} = side.environment;
  const isLocal: Environment['isLocal'] = address =>
    address.text.startsWith('ff02:') || here.some(({text}) => text === address.text) ? true : environment.isLocal(address);
  return {...side, environment: {...environment, isLocal, interfaceOf: () => dev}};
}

function messageOf(given: Pick<Packet, 'source' | 'destination'> & {dev: string; icmpType: number; isArriving: boolean}): Packet {
  const {source, destination, dev, icmpType, isArriving} = given;
  return {
    ...untouched,
    family: 'IPv6',
    protocol: 'icmpv6',
    icmpType,
    source,
    destination,
    port: 0,
    origin: isArriving ? 'arriving' : 'node',
    inInterface: isArriving ? dev : null,
    outInterface: isArriving ? null : dev,
    // Connection tracking leaves them out.
    untracked: true,
  };
}

/** Rules that stop what carries packets of pods between nodes, where that is certain for each of them: one symptom for each tunnel and way. */
function tunnelSymptoms({side, ports, groups, effects}: OtherPackets): readonly Symptom[] {
  const {facts, family} = effects.context;
  const nodes = [...groups.nodes].slice(0, maxNodes);
  const ends = nodes.map(([value]) => formatAddress(family, value));
  const stopped = stoppedTunnels({side, facts, family}, ends);
  const others = new Set([...(stopped.length === 0 ? [] : groups.nodes.keys())].map(value => formatAddress(family, value)));
  const isPod = ({address}: Endpoint): boolean => !others.has(address) && !facts.hostIPs.includes(address);
  return stopped.map(({link, port, isArriving, stop}) => {
    const affects = ports.flatMap(item => (item.all.some(isPod) ? [item.port] : []));
    const [way, whose] = isArriving ? ['from', `to ${link}`] : ['to', `by ${link}`];
    const what = `packets that carry those of pods ${way} other nodes (${someOf(nodes.map(([, node]) => node))}) ${whose}, UDP ${port}`;
    const detail = `${what}, are ${stop.verdict === 'drop' ? 'dropped' : 'refused'} ${causeText(stoppingRule(stop), stop.policy, effects)}: pods of this node and of other nodes do not reach each other, nor get an answer`;
    const remedy = `Accept UDP port ${port} ${way} the other nodes in the tool that wrote the rule (firewalld, ufw, a security agent).`;
    return {...symptomOf(stop, family, affects), kind: 'dropped-by-other-rule', detail, remedy};
  });
}

/** What carries packets of pods to or from each of some nodes, and is stopped on this one. */
export function stoppedTunnels(
  {side, facts, family}: {readonly side: Side; readonly facts: NodeFacts; readonly family: Family},
  nodes: readonly string[],
): readonly {readonly link: string; readonly port: number; readonly isArriving: boolean; readonly stop: Outcome}[] {
  const {links, routes} = facts.network;
  const own = hostIP(facts, family);
  // Tunnels of both families have their ends in that of the node.
  if (own === null || familyOf(facts.hostIPs[0] ?? '') !== family || links?.some(({vxlan}) => vxlan !== null) !== true) return [];
  const used = new Set((routes[family] ?? []).flatMap(({hops}) => hops.map(({dev}) => dev)));
  return links.flatMap(({name, isUp, vxlan}) => {
    if (vxlan === null || !isUp || !used.has(name) || vxlan.carrier === null || vxlan.carrier !== facts.primaryInterface) return [];
    return [true, false].flatMap(isArriving => {
      const from = isArriving ? {kind: 'other-node', interface: vxlan.carrier} : {kind: 'node', interface: null};
      const stops = nodes.map(node => {
        const [source, destination] = isArriving ? [node, own] : [own, node];
        const packet = packetOf({protocol: 'UDP', family}, {source, destination, port: vxlan.port, from});
        return packet === null ? null : stopOf(side, packet);
      });
      const [stop] = stops;
      return stop == null || stops.includes(null) ? [] : [{link: name, port: vxlan.port, isArriving, stop}];
    });
  });
}

const maxNodes = 20;

/**
 * Rules that keep everybody outside from the healthCheckNodePort of Services, where load balancers ask a node whether it has endpoints: one
 * symptom for each rule. One that lets some in may be made for the load balancer.
 */
function healthCheckSymptoms(given: OtherPackets): readonly Symptom[] {
  const {ports, effects} = given;
  const asked = ports.filter(({port}) => port.healthCheckNodePort !== 0 && port.loadBalancerVIPs.length > 0);
  const byNumber = Map.groupBy(asked, ({port}) => port.healthCheckNodePort);
  const lost = [...byNumber].flatMap(([number, items]) => {
    const stop = whatStops(number, given);
    return stop === null ? [] : [{stop, number, items}];
  });
  return byCause(lost).map(alike => {
    const [{stop}] = alike;
    const rule = stoppingRule(stop);
    const affects = alike.flatMap(({items}) => items.map(({port}) => port));
    const names = someOf([...new Set(affects.map(({namespace, service}) => `${namespace}/${service}`))]);
    const numbers = someOf(alike.map(({number}) => String(number)));
    const state = `health checks at port ${numbers} (healthCheckNodePort of ${names}) are ${stop.verdict === 'drop' ? 'dropped' : 'refused'}`;
    return {
      kind: 'health-check-port-blocked',
      severity: affects.some(isOfCloud) ? 'warning' : 'info',
      ...symptomOf(stop, effects.context.family, affects),
      // What made the policy no rule shows.
      ...(rule === null ? {remedy: 'Open the port for the load balancer in the tool that set the policy (firewalld, ufw).'} : {}),
      detail: `${state} ${causeText(rule, stop.policy, effects)}: a load balancer that asks there sends nothing to this node`,
    };
  });
}

/** How the kernel stops all clients outside; null if some get in, if that is not certain, or if rules of kube-proxy do it. */
function whatStops(number: number, {side, groups, effects}: OtherPackets): Outcome | null {
  const {context, isOwn} = effects;
  const destination = hostIP(context.facts, context.family) ?? '';
  const sent = packetToNode({protocol: 'TCP', destination, port: number}, context, side.environment);
  if (sent === null) return null;
  const probe: Probe = {...sent, entry: {kind: 'nodePort', address: null, port: number}, knownTo: new Set()};
  let getsIn = false;
  const isOver = (): boolean => getsIn;
  const {classes, isTruncated} = classesOfProbe(
    probe,
    {groups, except: [], ports: [clientPorts], most: maxClasses, isOver},
    (own, note) => {
      const found = stopOf(noting(side, note), own.packet);
      const rule = found === null ? null : stoppingRule(found);
      const stop = rule !== null && isOwn(rule) ? null : found;
      getsIn = stop === null;
      return stop;
    },
  );
  const [[, first] = []] = classes;
  return isTruncated || classes.some(([, outcome]) => outcome === null) ? null : (first ?? null);
}

const maxClasses = 100;

/** Whether a load balancer outside of the cluster serves it, as those of clouds that ask this port. Others need not. */
function isOfCloud({object: {metadata, status}}: ServicePort): boolean {
  const ingress = status?.loadBalancer?.ingress ?? [];
  const annotations = Object.keys(metadata.annotations ?? {});
  return (
    ingress.some(({hostname}) => hostname !== undefined) ||
    annotations.some(name =>
      /^(?:service(?:\.beta|\.alpha)?\.kubernetes\.io\/[a-z]+-load-?balancer|cloud\.google\.com\/|networking\.gke\.io\/|load-balancer\.hetzner\.cloud\/|loadbalancer\.openstack\.org\/)/.test(
        name,
      ),
    )
  );
}
