import {type Address, type Family, parseAddress} from '../../model/address.ts';
import {hostIP} from '../../model/node/node-facts.ts';
import {type Astray, isUsualRule, outsideOf, routedAstray, routingCause, usualDevice} from '../../model/node/policy-routing.ts';
import {type CommandLine, commandLine, joinedCommand, someOf} from '../../model/text.ts';
import type {NodeCheckContext} from '../check.ts';
import {networkOf, podAddresses} from './node-paths.ts';

/** Packets that policy routing sends away from a pod: whose, and what shows it on the node. */
interface Misrouted {
  readonly message: string;
  readonly commands: readonly (CommandLine | null)[];
}

/** Who sends packets to endpoints through a node: an address of each, as packets are when they are routed. */
interface Group {
  readonly who: (senders: readonly string[]) => string;
  readonly senders: readonly {readonly source: Address; readonly mark: number; readonly iif: string}[];
}

/** One for each rule of policy routing, with the first group of senders that it hits and the other ones named. */
export function misroutedPackets(context: NodeCheckContext, family: Family): readonly Misrouted[] {
  if (networkOf(context).policyRules[family]?.every(isUsualRule) !== false) return [];
  const ends = endpointsOf(context, family);
  const hits = groupsOf(context, family).flatMap(({who, senders}) => {
    const found = senders.flatMap(sender => {
      const astray = ends
        .filter(({text}) => text !== sender.source.text)
        .map(to => ({to, sender, astray: routedAstray(context.facts, to, sender)}))
        .find(one => one.astray !== null);
      return astray?.astray === null || astray === undefined ? [] : [{...astray, astray: astray.astray}];
    });
    const [first] = found;
    return first === undefined ? [] : [{...first, who: who(found.map(({sender}) => sender.source.text))}];
  });
  return [...Map.groupBy(hits, ({astray}) => routingCause(astray)).values()].flatMap(group => {
    const [first] = group;
    return first === undefined ? [] : [misrouted({...first, who: group.map(({who}) => who).join(', and ')})];
  });
}

function misrouted({astray, to, sender, who}: {astray: Astray; to: Address; sender: Group['senders'][number]; who: string}): Misrouted {
  const mark = sender.mark === 0 ? commandLine`` : commandLine`mark ${`0x${sender.mark.toString(16)}`}`;
  return {
    message: `${routingCause(astray)} sends ${who} by ${astray.dev}, while ${astray.instead} leads to the endpoint ${to.text}: what Services send there is lost, or the answers are.`,
    commands: [
      commandLine`ip rule show`,
      joinedCommand(commandLine`ip route get ${to.text} from ${sender.source.text} iif ${sender.iif}`, mark),
    ],
  };
}

/** Some pods of this node, and of others. */
function endpointsOf(context: NodeCheckContext, family: Family): readonly Address[] {
  const pods = podAddresses(context, family);
  const here = (pods.get(context.node.name) ?? []).slice(0, maxEndpoints);
  const elsewhere = [...pods].flatMap(([node, own]) => (node === context.node.name ? [] : own.slice(0, 1))).slice(0, maxEndpoints);
  return [...here, ...elsewhere].flatMap(({address}) => parseAddress(address) ?? []).filter(address => address.family === family);
}

const maxPods = 50;
const maxEndpoints = 3;

function groupsOf(context: NodeCheckContext, family: Family): readonly Group[] {
  const {facts, node} = context;
  const sender = (text: string | undefined, given?: string | null): Group['senders'] => {
    const source = parseAddress(text ?? '');
    if (source === null || source.family !== family) return [];
    const iif = given ?? usualDevice(facts, source);
    return iif === null ? [] : [{source, mark: 0, iif}];
  };
  const pods = podAddresses(context, family);
  const own = (pods.get(node.name) ?? []).slice(0, maxPods).flatMap(({address}) => sender(address));
  const others = [...pods].flatMap(([name, [first]]) => (name === node.name ? [] : sender(first?.address, facts.primaryInterface)));
  const [client] = outsideOf(family).flatMap(({text}) => sender(text));
  const mark = 1 << context.config.masqueradeBit.value;
  return [
    {who: senders => `packets of pods of this node (${someOf(senders)})`, senders: own},
    {who: () => 'packets of pods of other nodes', senders: others.slice(0, maxEndpoints)},
    {who: () => 'packets of the node itself', senders: sender(hostIP(facts, family) ?? undefined, 'lo')},
    {
      who: () =>
        `packets with the mark 0x${mark.toString(16)}, by which kube-proxy marks what it masquerades (of clients outside and of other nodes, to node ports and load balancers)`,
      senders: client === undefined ? [] : [{...client, mark}],
    },
  ];
}
