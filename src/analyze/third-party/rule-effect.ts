import type {ServedPort} from '../../model/endpoint.ts';
import type {NodeContext} from '../../expect/node-context.ts';
import {type Family, parseAddress} from '../../model/address.ts';
import {type AffectedSenders, severities, type Severity} from '../../model/finding.ts';
import {holds, type Intervals, subtract} from '../../model/intervals.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import type {Backend, RuleText} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {plural} from '../../model/text.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {addressesIn} from '../../parse/nftables/address-list.ts';
import {type ConnectionOutcome, type Environment, inAnyCase, type NodeRule} from '../../trace/walked-packet.ts';
import {unknownOutside, describePathOutcome, near, type PathOutcome} from '../outcomes/environment.ts';
import {type Probe, whose} from '../outcomes/probes.ts';
import {sourceName} from '../outcomes/sources.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {isKubeProxyChain, isUnmarkedDrop} from './iptables-rules.ts';
import {
  acceptsPackets,
  decidedAt,
  decides,
  filtersContent,
  interceptorOf,
  isOfPolicy,
  isUnconditional,
  leadsAstray,
  leadsToHook,
  limitOf,
  marksForDrop,
  masquerades,
  namesDestination,
  namesInterface,
  refusesPackets,
  rewrites,
  setsMark,
  steers,
  takesPackets,
  unmasqueraderOf,
  untracks,
} from './node-rule.ts';

/** What is wrong with one entry from one source, and the rule that does it. */
export interface RuleEffect extends Pick<Symptom, 'kind' | 'severity' | 'detail' | 'variant' | 'gist' | 'policyOf'> {
  readonly probe: Probe;
  /** Null when it is the policy of a chain, whose name may be in `policy`. */
  readonly rule: NodeRule | null;
  readonly policy?: string;
  /** The path to the rule asks for the address or port that packets are sent to. */
  readonly namesDestination: boolean;
  /** The path to the rule asks for an interface. */
  readonly namesInterface: boolean;
  /** It is about a reply or a later packet of a connection. */
  readonly isLater?: true;
  /** The share of the connections of the senders that is lost or goes elsewhere, where they are pods of the node. */
  readonly share?: number;
  /** The only endpoint that packets of these senders do not reach. */
  readonly endpoint?: string;
  /** Of a rule of network policies: what it is if no policy asks for it, and whether the path to it leaves no packet out. */
  readonly ifNoPolicy?: Pick<RuleEffect, 'kind' | 'detail'> & {readonly isForAll: boolean};
}

/** What the effects of rules depend on, beside the rules: what kube-proxy wrote, and how it treats packets that it does not masquerade. */
export interface EffectCase {
  readonly context: NodeContext;
  /** Whether kube-proxy wrote the rule. */
  readonly isOwn: (rule: Pick<NodeRule, 'table' | 'chain'>) => boolean;
  /** The backend of iptables that has a rule, or the policy of a chain, if the node has rules in both; otherwise null. */
  readonly backendOf: (place: Pick<RuleText, 'table' | 'chain'> & Partial<RuleText>) => Backend | null;
  /** Whether kube-proxy, in this mode, writes a chain of iptables of this name in this table. */
  readonly isOwnChain: (chain: string, table: string) => boolean;
  readonly nft: NftRuleset | null;
  /** Whether a pod in the network of the node may be NodeLocal DNSCache; null if the pods are not known. */
  readonly holdsDnsCache: () => boolean | null;
  /** What a packet passes to be masqueraded: kube-proxy's chain or rules. */
  readonly masquerading: string;
  /** A dump of the node's rules is truncated, which is a finding of its own. */
  readonly isTruncated: boolean;
}

/** A probe that was walked through all rules of a node. */
export interface WalkedProbe {
  readonly probe: Probe;
  readonly port: ServicePort;
  /** The outcome in kube-proxy's rules alone. */
  readonly alone: PathOutcome;
  readonly pathOutcome: PathOutcome;
  readonly environment: Environment;
  /** The addresses of the node's pods, and those of other nodes. */
  readonly pods: Intervals;
  readonly remotePods: Intervals;
}

type Effect = Omit<RuleEffect, 'probe' | 'namesDestination' | 'namesInterface'>;

/** Null when the outcome is the one of kube-proxy's rules alone, or is not caused by a third-party rule. */
export function ruleEffect(outcome: ConnectionOutcome, walkedProbe: WalkedProbe, effectCase: EffectCase): RuleEffect | null {
  const effect = effectOf(outcome, walkedProbe, effectCase);
  if (effect === null) return null;
  const path = [...(outcome.lost?.outcome.path ?? []), ...outcome.path].filter(rule => !effectCase.isOwn(rule));
  const withBackend = <P extends Parameters<EffectCase['backendOf']>[0]>(place: P): P => {
    const backend = effectCase.backendOf(place);
    return backend === null ? place : {...place, backend};
  };
  return {
    ...(isUnpromised(effect, walkedProbe.probe) ? {severity: 'info'} : {}),
    ...effect,
    rule: effect.rule === null ? null : withBackend(effect.rule),
    ...(effect.rule === null && effect.policy !== undefined ? {policyOf: withBackend(chainOf(effect.policy))} : {}),
    probe: walkedProbe.probe,
    namesDestination: path.some(namesDestination),
    namesInterface: path.some(namesInterface),
  };
}

/** Of `filter/FORWARD`. */
function chainOf(policy: string): {readonly table: string; readonly chain: string} {
  const [table = '', chain = ''] = policy.split('/', 2);
  return {table, chain};
}

function effectOf(outcome: ConnectionOutcome, walkedProbe: WalkedProbe, effectCase: EffectCase): Effect | null {
  const sentTo = outcome.destination ?? outcome.rewrittenTo;
  if (sentTo !== undefined && outcome.verdict !== 'accept' && isNeverAnswered(sentTo, walkedProbe)) return null;
  if (outcome.verdict === 'undecided')
    return takenAnyway(outcome, walkedProbe, effectCase) ?? undetermined(outcome, walkedProbe, effectCase);
  if (outcome.verdict !== 'accept') return losesPackets(walkedProbe) ? refusal(outcome, walkedProbe, effectCase) : null;
  return (
    unrefused(outcome, walkedProbe, effectCase) ?? accepted(outcome, walkedProbe, effectCase) ?? lostLater(outcome, walkedProbe, effectCase)
  );
}

/** Whether fewer packets reach the endpoints than by kube-proxy's rules alone: others are lost to a fault of these rules. */
function losesPackets(walkedProbe: WalkedProbe): boolean {
  const {probe, alone, pathOutcome} = walkedProbe;
  if (probe.direct !== undefined) return pathOutcome.dropped + pathOutcome.rejected > alone.dropped + alone.rejected;
  for (const [destination, {probability}] of alone.destinations) {
    const left = pathOutcome.destinations.get(destination)?.probability ?? 0;
    if (left < probability && !near(left, probability) && !isNeverAnswered(destination, walkedProbe)) return true;
  }
  return false;
}

/**
 * Whether no rule of this node decides that a connection fails: it leads from another node, or a pod there, to an endpoint that is not here
 * either, and is not masqueraded. The endpoint's node answers the client straight, with the endpoint's address.
 */
function isNeverAnswered(destination: string, {probe, alone, pods, environment}: WalkedProbe): boolean {
  const {kind} = probe.source;
  if ((kind !== 'remote-pod' && kind !== 'other-node') || alone.destinations.get(destination)?.masquerade !== false) return false;
  const address = parseAddress(splitHostPort(destination).address);
  return address !== null && environment.isLocal(address) === false && !holds(pods, address.value);
}

/** What was sent elsewhere reaches no endpoint, whatever a later rule does that cannot be evaluated. */
function takenAnyway(outcome: ConnectionOutcome, walkedProbe: WalkedProbe, effectCase: EffectCase): Effect | null {
  const {rewrittenTo, isRewrittenAnyway} = outcome;
  const {destinations} = walkedProbe.alone;
  if (rewrittenTo === undefined || isRewrittenAnyway !== true || destinations.size === 0 || destinations.has(rewrittenTo)) return null;
  return accepted({...outcome, destination: rewrittenTo}, walkedProbe, effectCase);
}

/** Of a path that depends on what cannot be evaluated, the rule that it depends on. */
function undetermined(
  {doubt, path, reason, policy, isUnrouted}: ConnectionOutcome,
  {probe, alone}: WalkedProbe,
  effectCase: EffectCase,
  who = whose(probe),
): Effect | null {
  const causes = isUnrouted === true ? steers : decides;
  const rule = doubt ?? path.findLast(one => reason !== undefined && !effectCase.isOwn(one) && causes(one)) ?? path.at(-1);
  if (alone.undecided > 0 || (doubt === undefined && effectCase.isTruncated)) return null;
  const detail = `the outcome for ${who} is undetermined: ${reason ?? ''}`;
  if (doubt === undefined && policy !== undefined) return {kind: 'undecided-path', rule: null, policy, detail};
  if (rule === undefined || effectCase.isOwn(rule)) return null;
  const limit = limitOf(rule, effectCase.nft);
  const isMinor =
    (masquerades(rule) && !rewrites(rule) && limit === null) || isOfPolicy(rule) || filtersContent(rule) || limit?.isHigh === true;
  const does = refusesPackets(rule) ? 'drops or refuses' : acceptsPackets(rule) ? 'accepts' : isUnrouted === true ? 'loses' : null;
  const said =
    limit === null
      ? {detail, gist: does === null ? undefined : `whether a rule of another program ${does} packets is unknown`}
      : {
          detail: `${who} are limited to ${limit.text} by a third-party rule${inBackend(rule, effectCase)}: ${beyond(rule)}`,
          gist: `a rule of another program limits packets to ${limit.text}: ${beyond(rule)}`,
        };
  return {kind: 'undecided-path', rule, ...said, ...(isMinor ? {severity: 'info'} : {})};
}

function beyond(rule: NodeRule): string {
  if (refusesPackets(rule)) return 'what exceeds it is dropped or refused';
  if (masquerades(rule)) return 'what exceeds it is lost';
  return acceptsPackets(rule) ? 'what exceeds it is left to the rules after it' : 'what exceeds it is treated in another way';
}

function refusal(outcome: ConnectionOutcome, walkedProbe: WalkedProbe, effectCase: EffectCase): Effect | null {
  const {probe, environment, pathOutcome} = walkedProbe;
  const {verdict, path, policy} = outcome;
  const untracking = path.find(one => untracks(one) && !effectCase.isOwn(one));
  if (untracking !== undefined) return intercepted(untracking, walkedProbe, effectCase);
  const rule = policy === undefined ? decisive(outcome, effectCase) : null;
  if (policy === undefined && rule === null) {
    // Untranslated, packets meet rules of kube-proxy's that are for others, such as the DROP of a node port without a local endpoint.
    const taker = interceptorOf(path.filter(one => !effectCase.isOwn(one)));
    return taker === null ? null : intercepted(taker, walkedProbe, effectCase);
  }
  if (policy !== undefined && effectCase.isOwn(chainOf(policy))) return null;
  const {hostIPs} = effectCase.context.facts;
  const {text: asked} = probe.packet.destination;
  // Of the addresses of a node, clients know those that its Node has: others are of VPNs and bridges, which programs close to all but their own.
  const isAside = probe.entry.kind === 'nodePort' && probe.direct === undefined && hostIPs.length > 0 && !hostIPs.includes(asked);
  const who = `${whose(probe)}${isAside ? ` at ${asked}` : ''}`;
  const refused = verdict === 'reject' ? 'refused' : 'dropped';
  if (rule !== null && isLeftBehind(rule)) {
    const detail = `${who} are ${refused} by a rule that iptables mode left behind in ${rule.table}/${rule.chain}`;
    return {kind: 'unexpected-reject', severity: 'error', rule, detail};
  }
  const hook = decidedAt(outcome, effectCase.nft);
  const isForPod = probe.direct !== undefined && environment.isLocal(probe.packet.destination) !== true;
  const isSentOn = (path.some(rewrites) || isForPod) && hook !== 'input' && hook !== 'output';
  const base = {rule, policy, ...(isAside ? {severity: 'info' as const} : {})};
  const why = rule !== null && steers(rule) && outcome.reason !== undefined ? `, because ${outcome.reason}` : '';
  const by = `${causeText(rule, policy, effectCase)}${why}`;
  const usual = isSentOn
    ? {kind: 'forward-blocked' as const, detail: `${who} are sent to an endpoint and then ${refused} ${by}`}
    : {kind: 'dropped-by-other-rule' as const, detail: `${who} are ${refused} ${by}`};
  if (rule === null || !isOfPolicy(rule)) return {...base, ...usual};
  // Other endpoints are not of this policy.
  const which = outcome.destination === null || pathOutcome.destinations.size === 0 ? '' : ` that are sent to ${outcome.destination}`;
  const detail = `${who}${which} are ${refused} by a network policy`;
  const pods = [...walkedProbe.pods, ...walkedProbe.remotePods];
  const isOfAllPods = (network: string): boolean =>
    pods.length > 0 && subtract(pods, addressesIn([network], probe.packet.family)).length === 0;
  const isForAll = path.filter(one => !effectCase.isOwn(one)).every(one => isUnconditional(one, isOfAllPods));
  return {kind: 'dropped-by-other-rule', severity: 'info', rule, detail, ifNoPolicy: {...usual, isForAll}};
}

/** The API promises cluster IPs to nobody outside. */
function isUnpromised({isLater}: Effect, {entry, source, senders}: Probe): boolean {
  return entry.kind === 'clusterIP' && source.kind === 'outside' && !(isLater === true && senders?.areNodes === true);
}

/** What refuses packets, in words: a rule, or else the policy of a chain. */
export function causeText(rule: NodeRule | null, policy = 'a chain', effectCase: EffectCase): string {
  if (rule !== null) return `by a third-party rule${inBackend(rule, effectCase)}`;
  return `because no rule accepts them and the policy of ${policy}${inBackend(chainOf(policy), effectCase)} is DROP`;
}

/** Commands of one backend do not show what the other holds. */
function inBackend(place: Parameters<EffectCase['backendOf']>[0], {backendOf}: EffectCase): string {
  const backend = backendOf(place);
  return backend === null ? '' : ` in iptables-${backend}`;
}

/** Of a Service that another mode of kube-proxy served. */
function isLeftBehind({table, chain}: NodeRule): boolean {
  return isKubeProxyChain(chain, table) && !/^KUBE-(?:FIREWALL|MARK-DROP)$/.test(chain);
}

/** The third-party rule that refuses a packet: the last one, or one that makes kube-proxy's rules or the kernel do it. */
function decisive({path, reason, isUnrouted}: ConnectionOutcome, {isOwn}: EffectCase): NodeRule | null {
  const thirdParty = path.filter(rule => !isOwn(rule));
  if (isUnrouted === true) return thirdParty.findLast(steers) ?? null;
  if (reason !== undefined) return thirdParty.findLast(decides) ?? null;
  const last = path.at(-1);
  if (last === undefined) return null;
  if (!isOwn(last)) return last;
  // kube-proxy itself drops what is invalid to connection tracking.
  if (/ --ctstate INVALID /.test(last.text)) return thirdParty.findLast(decides) ?? null;
  return last.chain === 'KUBE-FIREWALL' && isUnmarkedDrop(last.text) ? last : (thirdParty.findLast(marksForDrop) ?? null);
}

/** Connections are opened, and then nothing arrives. */
function lostLater({drawnPorts, lost}: ConnectionOutcome, walkedProbe: WalkedProbe, effectCase: EffectCase): Effect | null {
  if (lost === undefined) return null;
  const {packet, outcome: found, share = 1} = lost;
  const outcome = inAnyCase(found);
  const {probe} = walkedProbe;
  const part = share < 1 ? `${Math.max(1, Math.round(share * 100))}% of ` : '';
  const who = packet === 'reply' ? `replies to ${part}${whose(probe)}` : `${whose(probe)} on open connections`;
  if (outcome.verdict === 'undecided')
    return laterIf(undetermined({...outcome, reason: outcome.reason ?? ''}, walkedProbe, effectCase, who));
  const {policy} = outcome;
  const rule = policy === undefined ? decisive(outcome, effectCase) : null;
  if (policy === undefined && rule === null) return null;
  const refused = outcome.verdict === 'reject' ? 'refused' : 'dropped';
  const base = {
    kind: 'dropped-by-other-rule',
    isLater: true,
    rule,
    ...(packet === 'reply' ? {variant: 'lost-replies' as const} : {}),
  } as const;
  // No policy asks that connections are not tracked.
  if (rule !== null && isOfPolicy(rule) && !decides(rule))
    return {...base, severity: 'info', detail: `${who} are ${refused} by a network policy`};
  const by = causeText(rule, policy, effectCase);
  const isUnknown = rule !== null && decides(rule) && outcome.path.at(-1) !== rule;
  const reason = outcome.reason ?? (isUnknown ? unrecognized : undefined);
  const drawn = share < 1 && drawnPorts !== undefined ? ', depending on the source port that masquerading draws' : '';
  const why = reason === undefined ? drawn : `${drawn}, because ${reason}`;
  return {...base, policy, detail: `${who} are ${refused} ${by}${why}`};
}

const unrecognized = 'connection tracking does not recognize them';

function laterIf(effect: Effect | null): Effect | null {
  return effect === null ? null : {...effect, isLater: true};
}

/**
 * kube-proxy in iptables mode refuses packets to a Service without endpoints in table filter, where a rule before its own can accept them. At
 * its own addresses the node refuses them too: nothing listens there.
 */
function unrefused({destination, path}: ConnectionOutcome, {probe, alone, environment}: WalkedProbe, {isOwn}: EffectCase): Effect | null {
  if (environment.isLocal(probe.packet.destination) === true) return null;
  if (destination !== null || probe.direct !== undefined || alone.destinations.size > 0 || alone.rejected === 0) return null;
  const rule = path.findLast(one => !isOwn(one) && !leadsToHook(one));
  if (rule === undefined || rule.table !== 'filter' || !acceptsPackets(rule)) return null;
  const detail = `it has no endpoints, so ${whose(probe)} must be refused; a third-party rule accepts them before kube-proxy's rule refuses them: clients wait until they time out, where they should get "connection refused"`;
  return {kind: 'missing-reject', rule, detail, ...(isOfPolicy(rule) ? {severity: 'info'} : {})};
}

/** What third-party rules do to a packet that is accepted: it goes elsewhere, stays without an endpoint, or has another source address. */
function accepted(outcome: ConnectionOutcome, walkedProbe: WalkedProbe, effectCase: EffectCase): Effect | null {
  const {destination, path} = outcome;
  const {probe, alone, pathOutcome, environment} = walkedProbe;
  const who = whose(probe);
  const thirdParty = path.filter(rule => !effectCase.isOwn(rule));
  // What another node sent on keeps its destination.
  const isMarked = probe.direct !== undefined && outcome.masquerade && !alone.outcomes.some(({masquerade}) => masquerade);
  if (isMarked) return addressLost({...outcome, destination: probe.direct}, walkedProbe, effectCase);
  if (destination === null) {
    const rule = losesPackets(walkedProbe) ? interceptorOf(thirdParty) : null;
    return rule === null ? null : intercepted(rule, walkedProbe, effectCase);
  }
  const share = alone.destinations.get(destination);
  if (share === undefined) {
    const rule = thirdParty.findLast(rewrites) ?? thirdParty.findLast(leadsAstray) ?? thirdParty.findLast(takesPackets) ?? null;
    if (rule === null) return null;
    const isRefused = alone.destinations.size === 0 && alone.rejected + alone.dropped > 0;
    const detail = isRefused
      ? `${who} are accepted by a third-party rule, although kube-proxy's rules refuse them`
      : `${who} are sent to ${destination} by a third-party rule that comes before kube-proxy's rules`;
    return {kind: 'entry-taken-by-other-rule', rule, detail, ...(isRefused && isOfPolicy(rule) ? {severity: 'info'} : {})};
  }
  const isMasqueraded = pathOutcome.destinations.get(destination)?.masquerade === true;
  if (!share.masquerade) return isMasqueraded ? addressLost(outcome, walkedProbe, effectCase) : null;
  if (isMasqueraded) return wrongAddress(outcome, walkedProbe, effectCase);
  // What the node itself sends may have that address already.
  const end = parseAddress(splitHostPort(destination).address);
  const given = end === null ? null : environment.masqueradeAddress?.({...probe.packet, destination: end, outInterface: null});
  const rule = given?.text === probe.packet.source.text ? null : unmasqueraderOf(path, effectCase.isOwn, effectCase.context.mark);
  if (rule === null) return null;
  const how = setsMark(rule) ? 'changes their mark' : `intercepts them before ${effectCase.masquerading}`;
  const gist = `packets are not masqueraded, a rule of another program ${how}`;
  return {kind: 'postrouting-broken', rule, detail: `${who} should be masqueraded, but a third-party rule ${how}`, gist};
}

/** A third-party rule that masquerades what kube-proxy leaves as it is. The address of the node itself is no loss. */
function addressLost(outcome: ConnectionOutcome, walkedProbe: WalkedProbe, effectCase: EffectCase): Effect | null {
  const {probe, port} = walkedProbe;
  const isKept =
    probe.source.kind === 'pod' || probe.source.kind === 'remote-pod' || (probe.entry.kind !== 'clusterIP' && port.externalPolicyLocal);
  if (!isKept || !isPod(outcome.destination, walkedProbe)) return wrongAddress(outcome, walkedProbe, effectCase);
  const rule = outcome.path.findLast(one => !effectCase.isOwn(one) && (masquerades(one) || setsMark(one))) ?? null;
  if (rule === null) return null;
  const isLocal = probe.source.kind === 'outside';
  const detail = `${whose(probe)} should keep their source address${isLocal ? ' (externalTrafficPolicy: Local)' : ''}, but a third-party rule masquerades them`;
  return (
    wrongAddress(outcome, walkedProbe, effectCase) ?? {
      kind: 'masquerade-mismatch',
      variant: 'masqueraded',
      rule,
      detail,
      severity: isLocal ? 'error' : 'info',
    }
  );
}

/** What leaves the cluster is masqueraded on most nodes. */
function isPod(destination: string | null, {pods, remotePods}: WalkedProbe): boolean {
  const address = parseAddress(splitHostPort(destination ?? '').address);
  return address !== null && (holds(pods, address.value) || holds(remotePods, address.value));
}

/**
 * SNAT to an address that the node does not have, or that nobody else may know: no reply comes back. Those of the node itself and of its pods
 * pass the node, which translates them before it asks for a route.
 */
function wrongAddress(
  {path, sourceAfter, destination}: ConnectionOutcome,
  {probe, environment, pods}: WalkedProbe,
  {isOwn, context: {facts}}: EffectCase,
): Effect | null {
  if (sourceAfter === undefined || !facts.allAddresses) return null;
  const end = parseAddress(splitHostPort(destination ?? '').address);
  const [link, linkOfSource] = [end, sourceAfter].map(address => (address === null ? null : environment.interfaceOf?.(address)));
  // On a bridge, pods answer each other without the node.
  const isAnsweredStraight = holds(pods, sourceAfter.value) && (link == null || linkOfSource == null || link === linkOfSource);
  if (end !== null && (environment.isLocal(end) !== false || (holds(pods, end.value) && !isAnsweredStraight))) return null;
  const rule = path.findLast(one => !isOwn(one) && masquerades(one)) ?? null;
  const what = `${whose(probe)} get the source address ${sourceAfter.text}`;
  if (rule === null) return null;
  if (environment.isLocal(sourceAfter) === false) {
    const gist = 'replies are lost, a rule of another program gives packets an address that the node does not have';
    const detail = `${what}, which the node does not have: replies do not come back`;
    return {kind: 'postrouting-broken', variant: 'address-of-no-node', rule, detail, gist};
  }
  return environment.isKnownOutside?.(sourceAfter) !== false ? null : {kind: 'undecided-path', rule, detail: `${what}, ${unknownOutside}`};
}

/** A rule that keeps packets from kube-proxy's rules. */
function intercepted(rule: NodeRule, {probe, alone, environment}: WalkedProbe, {context: {facts}, holdsDnsCache}: EffectCase): Effect {
  const kind = 'entry-taken-by-other-rule';
  const isLocal = environment.isLocal(probe.packet.destination) === true ? true : facts.allAddresses ? false : null;
  const isOfCache = rule.text.includes('NodeLocal DNS Cache');
  // NodeLocal DNSCache binds the cluster IP of the DNS Service on the node, and switches connection tracking off for it.
  if (untracks(rule) && probe.packet.port === 53 && (isLocal ?? isOfCache)) {
    const what = `${whose(probe)} are left to the node itself, without kube-proxy's rules: NodeLocal DNSCache bound the address`;
    if (!isOfCache || holdsDnsCache() !== false) return {kind, severity: 'info', rule, detail: what};
    return {kind, severity: 'warning', rule, detail: `${what}, and none of its pods runs on this node: nothing may answer`};
  }
  const reached = describePathOutcome(alone);
  const detail = `${whose(probe)} never reach kube-proxy's rules, because a third-party rule intercepts them; they should reach ${reached}`;
  return {kind, rule, detail};
}

/** The more severe of two; that of its kind, which is left out, is at least a warning. */
export function isWorse(severity: Severity | undefined, than: Severity | undefined): boolean {
  return severities.indexOf(severity ?? 'error') < severities.indexOf(than ?? 'error');
}

/** The same for every effect of a rule of one kind. */
export function effectKey(effect: RuleEffect): string {
  return `${effect.kind} ${effect.isLater ?? ''} ${ruleKey(effect)}`;
}

export function ruleKey({rule, policy}: RuleEffect): string {
  return [policy, rule?.table, rule?.chain, rule?.line, rule?.text].join(' ');
}

function affectedSenders({source, senders, packet}: Probe): AffectedSenders {
  const {family, port, protocol} = packet;
  const example = {family, source: packet.source.text, destination: packet.destination.text, port, protocol: protocol.toUpperCase()};
  return {text: senders?.text ?? sourceName(source), example, pods: senders?.pods ?? []};
}

/** For a rule about particular Services. */
export function symptomOfPort(effect: RuleEffect, {port}: ServedPort): Symptom {
  const {detail, probe, share, endpoint} = effect;
  const entry = probe.direct === undefined ? {entry: probe.entry} : {};
  return {...shared(effect), family: port.family, port, ...entry, detail, share, endpoint};
}

/** For a rule that concerns the node. */
export function symptomOfNode(effect: RuleEffect, items: Iterable<ServedPort>, family: Family): Symptom {
  const ports = [...items].map(({port}) => port);
  const scope = `${plural(ports.length, 'Service port')}, such as ${ports[0]?.servicePortName ?? ''}`;
  const {detail, probe, share} = effect;
  return {
    ...shared(effect),
    family,
    port: null,
    affects: ports,
    detail: `${detail.replace(' its ', ' the ')} (${scope})`,
    share: probe.entry.kind === 'clusterIP' ? share : undefined,
    // Each Service has other endpoints.
    ...(effect.namesDestination ? {isShareOfOne: true} : {}),
  };
}

function shared({kind, severity, variant, gist, rule, probe, policyOf}: RuleEffect): Omit<Symptom, 'family' | 'port' | 'detail'> {
  return {kind, severity, variant, gist, policyOf, senders: affectedSenders(probe), expected: [], actual: rule === null ? [] : [rule]};
}
