import {parseAddress, joinHostPort} from '../../model/address.ts';
import {isReadyPod, type PodObject} from '../../model/api-objects.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import {hostIP} from '../../model/node/node-facts.ts';
import {namespacedName, someOf} from '../../model/text.ts';
import {addressesOfPod, portsOfPod} from '../../expect/node-context.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {type Side, walkSide} from '../../trace/side.ts';
import {packetToNode} from '../outcomes/probes.ts';
import type {SenderGroups} from '../outcomes/senders.ts';
import type {NodeRules} from '../proxy-mode.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {rewrites} from './node-rule.ts';
import type {EffectCase} from './rule-effect.ts';

interface HostPortCase {
  readonly side: Side;
  readonly rules: NodeRules;
  /** Tables of nftables that are not kube-proxy's. */
  readonly tables: readonly NftTable[];
  readonly groups: SenderGroups;
  readonly effects: EffectCase;
}

/**
 * Host ports of pods of this node whose rules are there and are never reached, because a rule before them sends the packets to another
 * address. A pod without a rule may be too young, or served by other means than rules.
 */
export function hostPortSymptoms(given: HostPortCase): readonly Symptom[] {
  const {rules, groups, effects} = given;
  const {facts, family} = effects.context;
  const pods = groups.arePodsUnknown ? [] : (rules.api.pods ?? []).filter(pod => pod.spec?.nodeName === facts.name && isReady(pod));
  return pods.flatMap(pod => {
    const own = addressesOfPod(pod).find(address => parseAddress(address)?.family === family);
    const lost = own === undefined ? [] : hostPortsOf(pod).flatMap(port => lossOf(port, own, given) ?? []);
    return [...Map.groupBy(lost, ({to}) => to).values()].map((alike): Symptom => {
      const texts = (key: 'name' | 'end' | 'living'): string => someOf([...new Set(alike.map(one => one[key]))], {max: 4});
      const [s, are, them] = alike.length === 1 ? ['', 'is', 'it'] : ['s', 'are', 'them'];
      const last = alike[0]?.rules.at(-1);
      const chain = last?.chain ?? '';
      const isOfPod = /^(?:CNI-|KUBE-HP|KUBE-HOSTPORT)|hostport/.test(`${chain} ${last?.table}`);
      const detail = `host port${s} ${texts('name')} of pod ${namespacedName(pod.metadata)} ${are} lost: packets to ${them} are sent to ${texts('end')}, ${alike[0]?.who}, by ${isOfPod ? 'rules of another pod' : `a rule of ${chain}`}. Those for this pod (${texts('living')}) come later and are never reached`;
      const flush = /^(?:CNI-DN|KUBE-HP)-/.test(chain) ? ` (${family === 'IPv6' ? 'ip6tables' : 'iptables'} -t nat -F ${chain})` : '';
      const remedy = isOfPod
        ? `A pod that is gone left its rule behind, and rules of new pods are put after it. Delete it on this node${flush}, and find out why the CNI plugin or the container runtime did not.`
        : 'Find out which program has the port on this node, and give one of the two another.';
      const place = {family, port: null, affects: [], expected: [], actual: [...new Set(alike.flatMap(one => one.rules))]};
      return {kind: 'entry-taken-by-other-rule', variant: 'lost-host-port', detail, remedy, ...place};
    });
  });
}

/**
 * Null where packets reach the pod, or where that is not certain. `name`: `80/TCP`. `end`: where packets are sent, by these rules.
 * `living`: where they should be sent.
 */
function lossOf({containerPort, hostPort, protocol = 'TCP', hostIP: bound = ''}: HostPort, own: string, given: HostPortCase) {
  const {side, rules, groups, effects} = given;
  const {facts, family} = effects.context;
  const address = /^(?:0\.0\.0\.0|::)?$/.test(bound) ? (hostIP(facts, family) ?? '') : bound;
  const sent = packetToNode({protocol, destination: address, port: hostPort}, effects.context, side.environment);
  if (sent === null) return null;
  const [first, ...others] = walkSide(side, sent.packet);
  const isCertain = first?.verdict !== 'undecided' || first.isRewrittenAnyway === true;
  const end = first?.destination ?? (isCertain ? first?.rewrittenTo : undefined) ?? '';
  const last = first?.path.findLastIndex(rewrites) ?? -1;
  const rule = first?.path[last];
  const to = parseAddress(splitHostPort(end).address);
  const living = joinHostPort(own, containerPort);
  if (first === undefined || others.length > 0 || rule === undefined || to === null || effects.isOwn(rule)) return null;
  if (to.text === parseAddress(own)?.text || groups.nodes.has(to.value) || side.environment.isLocal(to) !== false) return null;
  const holder = groups.pods.get(to.value);
  const other = rules.api.pods?.find(({metadata}) => namespacedName(metadata) === holder);
  if ((other !== undefined && hostPortsOf(other).some(one => one.hostPort === hostPort)) || !isInRules(living, given)) return null;
  const who = holder === undefined ? 'an address that no pod has' : `the address of pod ${holder}`;
  return {name: `${hostPort}/${protocol}`, to: to.text, end, rules: first.path.slice(Math.max(last - 1, 0), last + 1), who, living};
}

/** Whether a rule of another program sends packets to the port of a pod. */
function isInRules(living: string, {rules, tables}: HostPortCase): boolean {
  const ofIptables = rules.iptables.flatMap(one => [
    ...(one.tables.get('nat')?.chains.startingWith('CNI-', 'KUBE-HP-', 'KUBE-HOSTPORT') ?? []),
  ]);
  const chains = [...ofIptables, ...tables.flatMap(one => [...one.chains.values()])];
  return chains.some(chain => `${chain.text().replaceAll('\n', ' ')} `.includes(` ${living} `));
}

type HostPort = ReturnType<typeof portsOfPod>[number] & {readonly hostPort: number; readonly containerPort: number};

function hostPortsOf(pod: PodObject): readonly HostPort[] {
  return portsOfPod(pod).flatMap(({hostPort = 0, containerPort = 0, ...port}) =>
    hostPort === 0 ? [] : [{...port, hostPort, containerPort}],
  );
}

/** It is there since a while, and not about to go: its rules are those of its present address. */
function isReady(pod: PodObject): boolean {
  const {metadata, spec, status} = pod;
  return spec?.hostNetwork !== true && metadata.deletionTimestamp === undefined && status?.phase === 'Running' && isReadyPod(pod);
}
