import {type Address, formatAddress, parseAddress} from '../../model/address.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import {holds} from '../../model/intervals.ts';
import {hostIP, type NodeFacts} from '../../model/node/node-facts.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {plural, someOf} from '../../model/text.ts';
import type {Environment, NodeRule, Outcome, Packet} from '../../trace/packet.ts';
import {type Side, walkSide} from '../../trace/side.ts';
import type {SenderGroups} from '../outcomes/senders.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {causeText, type EffectCase} from './rule-effect.ts';

/** Rules by which the node, its pods and other nodes cannot find each other on a link: one symptom for each. */
export function neighborSymptoms(
  side: Side,
  ports: readonly ServedPort[],
  {groups, effects}: {readonly groups: SenderGroups; readonly effects: EffectCase},
): readonly Symptom<RuleText>[] {
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
  const byRule = Map.groupBy(found, ({outcome: {path, policy}}) => policy ?? path.at(-1));
  return [...byRule].flatMap(([cause, all]) => {
    const rule = typeof cause === 'string' ? null : (cause ?? null);
    if (cause === undefined || (rule !== null && effects.isOwn(rule))) return [];
    const [what, where] = [all.map(({text}) => text), all.map(({dev}) => dev)].map(texts => someOf([...new Set(texts)], {max: 4}));
    const by = causeText(rule, typeof cause === 'string' ? cause : undefined, effects);
    const scope = `${plural(ports.length, 'Service port')}, such as ${ports[0]?.port.servicePortName ?? ''}`;
    const effect = all.some(({isToSend}) => isToSend) ? 'does not find' : 'is not found by';
    const detail = `${what} (on ${where}) are dropped ${by}: but for permanent entries, the node ${effect} nodes, pods and clients there, and packets of Services are lost (${scope})`;
    const affects = ports.map(({port}) => port);
    return [
      {
        kind: 'dropped-by-other-rule',
        severity: 'warning',
        family,
        port: null,
        affects,
        detail,
        expected: [],
        actual: rule === null ? [] : [rule],
      },
    ];
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
  const kind = network?.links?.find(({name}) => name === dev)?.kind ?? '';
  return /^(?:wireguard|ipip|sit|ip6tnl|gre|ip6gre|tun|ppp|none)$/.test(kind) || /^(?:wg|tun|lo$)/.test(dev) ? [] : [[dev, address]];
}

/** Messages by which IPv6 finds its neighbors, and that rules drop on an interface. */
export interface LostMessages {
  /** `neighbor advertisements (ICMPv6 type 136) that arrive`. */
  readonly text: string;
  /** The node itself finds its neighbors by them; by the others they find the node, which they may have learned from what it sends. */
  readonly isToSend: boolean;
  readonly outcome: Outcome<NodeRule>;
}

const messages = [
  {icmpType: 135, isArriving: false, isToSend: true, text: 'neighbor solicitations (ICMPv6 type 135) that leave'},
  {icmpType: 136, isArriving: true, isToSend: true, text: 'neighbor advertisements (ICMPv6 type 136) that arrive'},
  {icmpType: 135, isArriving: true, isToSend: false, text: 'neighbor solicitations (ICMPv6 type 135) that arrive'},
  {icmpType: 136, isArriving: false, isToSend: false, text: 'neighbor advertisements (ICMPv6 type 136) that leave'},
] as const;

/**
 * The messages that are lost on an interface from whatever address of this link they have: the node's own one or that of the link, its group,
 * or the neighbor's.
 */
export function lostMessages(
  side: Side,
  dev: string,
  {own, neighbor}: {readonly own: Address; readonly neighbor: Address},
): readonly LostMessages[] {
  const here = [own, ...ownOfLink];
  const there = [neighbor, ...neighborOfLink];
  return messages.flatMap(({icmpType, isArriving, isToSend, text}) => {
    // A solicitation asks a group, and later the address itself.
    const to = [...(isArriving ? here : there), ...(icmpType === 135 ? groups : [])];
    const outcomes = pairs(isArriving ? there : here, to).map(([source, destination]) => {
      const [first, ...others] = walkSide(onLink(side, dev, here), messageOf({source, destination, dev, icmpType, isArriving}));
      return first !== undefined && others.length === 0 && (first.verdict === 'drop' || first.verdict === 'reject') ? first : null;
    });
    const [outcome] = outcomes;
    return outcome === undefined || outcome === null || outcomes.includes(null) ? [] : [{text, isToSend, outcome}];
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
    family: 'IPv6',
    protocol: 'icmpv6',
    icmpType,
    source,
    destination,
    port: 0,
    origin: isArriving ? 'arriving' : 'node',
    inInterface: isArriving ? dev : null,
    outInterface: isArriving ? null : dev,
    mark: 0,
    connectionMark: 0,
    rewritten: false,
    masquerade: false,
    // Connection tracking leaves them out.
    untracked: true,
  };
}
