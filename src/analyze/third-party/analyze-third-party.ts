import {type NodeContext, portsOfPod} from '../../expect/node-context.ts';
import {type Family, formatAddress, parseAddress} from '../../model/address.ts';
import type {Endpoint, ServedPort} from '../../model/endpoint.ts';
import {holds, type Intervals, intervalsOf} from '../../model/intervals.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import {partition} from '../../model/lists.ts';
import {linksOfPods, otherArrivals} from '../../model/node/policy-routing.ts';
import type {ChainSource} from '../../model/ruleset.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {once} from '../../model/once.ts';
import type {Severity} from '../../model/finding.ts';
import {usesClusterEndpoints} from '../../model/service-port.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {type AlikeInterfaces, type ConnectionOutcome, type Environment, inAnyCase, type NodeRule} from '../../trace/walked-packet.ts';
import type {NoteCondition} from '../../trace/sender-space.ts';
import {drawnPorts} from '../../trace/run-rule.ts';
import {backendOf, isShownByIptables, knowsAge, noting, type Side, walkConnection, walkSide} from '../../trace/side.ts';
import {markedWays} from '../outcomes/kernel-obstacle.ts';
import {collectPathOutcome, hasSameKinds, outcomeOn} from '../outcomes/environment.ts';
import {directProbe, type Probe, probesFor} from '../outcomes/probes.ts';
import {clientNames, type Source, type SourceKind, sourceName} from '../outcomes/sources.ts';
import {alikeInterfaces} from './alike-interfaces.ts';
import {bridgeSymptoms} from './bridge-rules.ts';
import {stoppedPackets} from './stopped-packets.ts';
import {hostPortSymptoms} from './host-ports.ts';
import {classesOfProbe, clientPorts, otherPorts, type SenderGroups} from '../outcomes/senders.ts';
import type {Symptom, SymptomKind} from '../symptoms/symptom.ts';
import {type Distinctions, distinctionsBy, groupPorts, representatives} from './distinctions.ts';
import {holdsThirdPartyRules, strayChains} from './iptables-rules.ts';
import {maySelect, PolicyRefusals} from './network-policies.ts';
import {isOwnTable, masquerades} from './node-rule.ts';
import {type EffectCase, effectKey, isWorse, type RuleEffect, ruleEffect, ruleKey, symptomOfNode, symptomOfPort} from './rule-effect.ts';
import type {NodeRules} from '../proxy-mode.ts';

export interface WalkedRules {
  readonly context: NodeContext;
  /** The rules that kube-proxy should have written, those that it wrote, and all rules of the node. */
  readonly sides: {readonly should: Side; readonly does: Side; readonly all: Side};
  readonly rules: NodeRules;
  readonly mode: Pick<EffectCase, 'masquerading' | 'isOwnChain'>;
}

interface ThirdPartyCase extends WalkedRules {
  readonly ports: readonly ServedPort[];
  readonly senders: () => SenderGroups;
  /** What is wrong with the rules of a Service port; null where they are the expected ones. */
  symptomsOf(item: ServedPort): readonly Symptom[] | null;
}

/** A rule that concerns more than 50 Service ports, or more than half of them, is about the node. */
function maxNamed(ports: number): number {
  return Math.max(1, Math.min(50, ports / 2));
}

/**
 * What third-party rules do to Services' packets, in every mode: each class of senders is walked through kube-proxy's rules alone, and
 * through all rules of the node with the replies. Service ports that no third-party rule tells apart are walked once.
 */
export function analyzeThirdPartyRules(given: ThirdPartyCase): readonly Symptom[] {
  const thirdPartyCase = {...given, sides: {...given.sides, all: routedByMark(given.sides.all, given.context)}};
  const {ports, context, rules, symptomsOf} = thirdPartyCase;
  const tables = thirdPartyTables(thirdPartyCase);
  const onBridges = bridgeSymptoms(rules.nft(), context.facts, context.family);
  if (tables.length === 0 && !rules.iptables.some(one => holdsThirdPartyRules(one, thirdPartyCase.mode.isOwnChain))) return onBridges;
  const {environment} = thirdPartyCase.sides.all;
  const parties = {iptables: rules.iptables, tables, sets: rules.sets, environment, family: context.family};
  const distinctions = distinctionsBy(parties);
  const walks: Walks = {
    distinctions,
    alike: alikeInterfaces(parties),
    groups: thirdPartyCase.senders(),
    effects: effectCase(thirdPartyCase),
    effort: {left: maxWalked, questions: maxQuestions, isTruncated: false},
  };
  const walk = once((item: ServedPort) => analyzeItem(item, thirdPartyCase, walks));
  const found = new Map<string, NotedEffect>();
  const isSelected = (item: ServedPort): boolean => maySelect(rules.api, item.port.object);
  const ends = (item: ServedPort): readonly string[] =>
    (symptomsOf(item) ?? []).flatMap(({kind, endpoint}) => (kind === 'missing-endpoint' ? [] : (endpoint ?? [])));
  for (const group of groupPorts(ports, context, distinctions, ends).flatMap(one => partition(one, isSelected)))
    for (const {item, alike} of representatives(group, one => symptomsOf(one) === null || reachesSameKinds(one, thirdPartyCase)))
      for (const effect of walk(item)) noteEffect(found, effect, [item, ...alike]);
  // A node may have a rule for each of thousands of pods: what is found of a Service port is sorted once.
  const byRule = once((item: ServedPort) => {
    const own = new Map<string, NotedEffect>();
    for (const one of walk(item)) noteEffect(own, one, [item]);
    return Map.groupBy(oneForEachRule(own.values()), ({effect}) => ruleKey(effect));
  });
  const [minor, others] = partition(oneForEachRule(found.values()), ({effect}) => isMinorMasquerading(effect));
  const symptoms = others.flatMap(noted => {
    const {effect, items, isBeside} = noted;
    if (items.size === 1) return [...items].map(item => ({...symptomOfPort(effect, item), ...hitSenders(noted)}));
    if (isBeside === true || !effect.namesDestination || items.size > maxNamed(ports.length))
      return [{...symptomOfNode(effect, items, context.family), ...hitSenders(noted)}];
    // Each Service port is walked itself, so that its finding describes its own packet.
    return [...items].flatMap(item => {
      const ofRule = byRule(item).get(ruleKey(effect)) ?? [];
      // Where the rule refuses more of them in another place, they are one finding too.
      const same = ofRule.find(one => one.effect.kind === effect.kind) ?? ofRule.find(one => refuses(one.effect) && refuses(effect));
      return same === undefined ? [] : [{...symptomOfPort(same.effect, item), ...hitSenders(same)}];
    });
  });
  const masquerading = [...Map.groupBy(minor, ({effect}) => chainKey(effect)).values()].map(alike => oneSymptom(alike, context.family));
  return [
    ...onBridges,
    ...stoppedPackets({...walks, side: thirdPartyCase.sides.all, ports}),
    ...hostPortSymptoms({side: thirdPartyCase.sides.all, rules, tables, groups: walks.groups, effects: walks.effects}),
    ...symptoms,
    ...masquerading,
    ...(walks.effort.isTruncated ? [walkedInPart(thirdPartyCase, walks.effort)] : []),
  ];
}

/** Rules of other programs may set a mark by which policy routing sends packets elsewhere. */
function routedByMark(side: Side, {facts, family, mark}: NodeContext): Side {
  return {...side, environment: {...side.environment, ...markedWays(facts, family, Number(mark))}};
}

/** An effect with the Service ports that it concerns. */
interface NotedEffect {
  readonly effect: RuleEffect;
  readonly items: Set<ServedPort>;
  /** Whom it hits as badly, in words: parts of a kind of client, or the whole kind. */
  readonly hit: Map<string, SourceKind>;
  /** Another finding is about what the rule does in the first place. */
  readonly isBeside?: true;
}

/** One rule is one finding, with the first entry and source that showed it; the one that it harms most comes first. */
function noteEffect(all: Map<string, NotedEffect>, effect: RuleEffect, items: Iterable<ServedPort>): void {
  const key = effectKey(effect);
  const known = all.get(key);
  if (known !== undefined && isWorse(known.effect.severity, effect.severity)) return;
  const isWorst = known === undefined || isWorse(effect.severity, known.effect.severity);
  const isFirst = isWorst || exampleRank(effect.probe) < exampleRank(known.effect.probe);
  all.set(key, {
    effect: isFirst ? effect : known.effect,
    items: isWorst ? new Set(items) : isFirst ? new Set([...items, ...known.items]) : addAll(known.items, items),
    hit: (isWorst ? new Map<string, SourceKind>() : known.hit).set(...clientsOf(effect.probe)),
  });
}

function addAll<T>(set: Set<T>, more: Iterable<T>): Set<T> {
  for (const one of more) set.add(one);
  return set;
}

function clientsOf({source: {kind}, senders}: Probe): readonly [string, SourceKind] {
  return [senders?.text ?? clientNames[kind] ?? '', kind];
}

function hitSenders({hit}: NotedEffect): {readonly hitSenders: readonly string[]} {
  const all = [...hit].filter(([name, kind]) => name !== '' && (name === clientNames[kind] || !hit.has(clientNames[kind] ?? name)));
  return {hitSenders: all.map(([name]) => name)};
}

/** What other nodes send on comes after what clients send, and addresses that nobody has come last. */
function exampleRank({direct, senders}: Probe): number {
  return (senders?.most === 'info' ? 2 : 0) + (direct === undefined ? 0 : 1);
}

/**
 * A rule that refuses packets is one finding, although it may refuse them in several places; what it does to replies is none beside another.
 * Service ports that it harms as much in another place alone are a second one.
 */
function oneForEachRule(all: Iterable<NotedEffect>): readonly NotedEffect[] {
  const ofRules = Map.groupBy(all, ({effect}) => ruleKey(effect));
  return [...ofRules.values()].flatMap(own => {
    const [first, ...others] = own.toSorted((a, b) => (isBefore(a, b) ? -1 : isBefore(b, a) ? 1 : 0));
    if (first === undefined) return [];
    const [refusing, different] = partition(others, ({effect}) => refuses(effect));
    const asBad = refusing.filter(({effect}) => !isWorse(first.effect.severity, effect.severity));
    const left = new Set(asBad.flatMap(({items}) => [...items]).filter(item => !first.items.has(item)));
    const leading = asBad.find(({items}) => [...items].some(item => left.has(item)));
    const hit = new Map([first, ...asBad.filter(({effect}) => effect.isLater === first.effect.isLater)].flatMap(one => [...one.hit]));
    const beside = leading === undefined ? [] : [{...leading, items: left, isBeside: true} as const];
    return [{...first, hit}, ...different, ...beside];
  });
}

/** The source of packets is lost where nothing depends on it. */
function isMinorMasquerading({severity, rule}: RuleEffect): boolean {
  return severity === 'info' && rule !== null && masquerades(rule);
}

function chainKey({kind, rule}: RuleEffect): string {
  return [kind, rule?.table, rule?.chain].join(' ');
}

/** What the rules of one chain do is one finding, with all of them. */
function oneSymptom(alike: readonly NotedEffect[], family: Family): Symptom {
  const [first] = alike;
  const items = new Set(alike.flatMap(one => [...one.items]));
  const [item] = items;
  if (first === undefined || item === undefined) throw new Error('no effect');
  const symptom = items.size === 1 ? symptomOfPort(first.effect, item) : symptomOfNode(first.effect, items, family);
  return {...symptom, actual: alike.flatMap(({effect: {rule}}) => rule ?? [])};
}

function refuses({kind, isLater}: RuleEffect): boolean {
  return kind === 'forward-blocked' || kind === 'dropped-by-other-rule' || isLater === true;
}

/** The more severe comes first, then first packets before replies, then that of more Service ports. */
function isBefore(a: NotedEffect, b: NotedEffect): boolean {
  if (a.effect.severity !== b.effect.severity) return isWorse(a.effect.severity, b.effect.severity);
  const rank = laterRank(a.effect) - laterRank(b.effect);
  return rank === 0 ? a.items.size > b.items.size : rank < 0;
}

/** First packets of clients come before replies to them, and these before what other nodes send on. */
function laterRank({isLater, probe}: RuleEffect): number {
  return Number(isLater === true) + (probe.direct === undefined ? 0 : 2);
}

/** The tables of nftables that packets pass beside kube-proxy's, and that no dump of iptables shows. */
function thirdPartyTables({rules, context, sides}: WalkedRules): readonly NftTable[] {
  const tables = [...(rules.nft()?.tables.values() ?? [])];
  const own = context.family === 'IPv4' ? 'ip' : 'ip6';
  return tables.filter(
    table =>
      [own, 'inet', 'netdev'].includes(table.family) &&
      table.baseChains.length > 0 &&
      !table.dormant &&
      isOwnTable({table: table.id}) !== true &&
      !isShownByIptables(table, sides.all.iptables),
  );
}

function effectCase({context, rules, mode, sides}: WalkedRules): EffectCase {
  const nft = rules.nft();
  const isTruncated = (nft !== null && nft.truncation !== null) || rules.iptables.some(({truncation}) => truncation !== null);
  const isExpected = (ruleset: ChainSource, chain: string): boolean =>
    sides.should.iptables.some(one => one.chain('nat', chain)?.text() === ruleset.chain('nat', chain)?.text());
  const strays = new Set(rules.iptables.flatMap(ruleset => strayChains(ruleset).filter(chain => !isExpected(ruleset, chain))));
  const isOwn = (rule: Pick<NodeRule, 'table' | 'chain'>): boolean =>
    isOwnTable(rule) ?? (mode.isOwnChain(rule.chain, rule.table) && !(rule.table === 'nat' && strays.has(rule.chain)));
  const holdsDnsCache = (): boolean | null => mayHoldDnsCache(rules.api, context.facts.name);
  return {...mode, context, isOwn, nft, isTruncated, holdsDnsCache, backendOf: place => backendOf(sides.all, place)};
}

function mayHoldDnsCache({pods, podsOf}: ApiObjects, node: string): boolean | null {
  if (pods === null || podsOf !== undefined) return null;
  const own = pods.filter(({spec}) => spec?.hostNetwork === true && spec.nodeName === node);
  return own.some(pod => /dns/i.test(pod.metadata.name ?? '') || portsOfPod(pod).some(({containerPort}) => containerPort === 53));
}

/** Whether all packets to a Service port end in the kinds of outcomes that they should, by kube-proxy's rules alone. */
function reachesSameKinds(item: ServedPort, {context, sides}: WalkedRules): boolean {
  const probes = probesFor({item, context, hairpins: []}).filter(({knownTo}) => knownTo.size === 0);
  return probes.every(({packet}) => hasSameKinds(outcomeOn(sides.should, packet), outcomeOn(sides.does, packet)));
}

/** Above this number of classes on a node, only the usual sender of each kind is walked: a policy for each of hundreds of pods makes many. */
const maxWalked = 20_000;

/** A list of a thousand networks, a rule for each, asks each class a thousand questions. */
const maxQuestions = 3_000_000;

/** Not all senders were walked, so nothing is proved for the others. */
function walkedInPart({context: {family}}: WalkedRules, {left}: Walks['effort']): Symptom {
  const detail = `third-party rules tell so many senders apart that only ${Math.min(maxWalked, maxWalked - left)} classes of them were walked: the outcome for packets from the others is undetermined`;
  return {kind: 'undecided-path', severity: 'warning', family, port: null, detail, expected: [], actual: []};
}

interface Walks {
  /** Counts down over all Service ports. */
  readonly effort: {left: number; questions: number; isTruncated: boolean};
  readonly distinctions: Distinctions;
  readonly alike: AlikeInterfaces;
  readonly groups: SenderGroups;
  readonly effects: EffectCase;
}

function analyzeItem(item: ServedPort, walkedRules: WalkedRules, walks: Walks): readonly RuleEffect[] {
  const {all} = walkedRules.sides;
  const usual = analyzeSide(item, walkedRules, walks, all);
  if (all.nft === null || knowsAge(all, 'nat')) return usual;
  const other = analyzeSide(item, walkedRules, walks, {...all, isIptablesYounger: true});
  const known = new Set(usual.map(effectKey));
  return [...usual, ...other.filter(found => !known.has(effectKey(found))).map(onlyIfYounger)];
}

/** No dump shows which table translates first: the kernel calls the newest table first. */
function onlyIfYounger(found: RuleEffect): RuleEffect {
  const detail = `${found.detail}, if table nat of iptables was made after the table of nftables, which no dump tells`;
  return {...found, severity: found.severity ?? 'warning', detail};
}

function analyzeSide(item: ServedPort, {context, sides, rules: {api}}: WalkedRules, walks: Walks, all: Side): readonly RuleEffect[] {
  const {distinctions, alike, groups, effects, effort} = walks;
  const here = item.all.flatMap(({address}) => parseAddress(address) ?? []);
  const except = intervalsOf(here.map(({value}) => [value, value] as const));
  const pods = groups.spaces.get('pod') ?? [];
  const remotePods = groups.spaces.get('remote-pod') ?? [];
  const local = item.endpoints.reachable.filter(({address}) => holds(pods, parseAddress(address)?.value ?? -1n)).slice(0, maxHairpins);
  const processes = item.endpoints.reachable.filter(({address}) => isOwnAddress(address, all.environment)).slice(0, 1);
  const probes = [
    ...probesFor({item, context, hairpins: local}),
    ...[...local, ...processes].flatMap(endpoint => probesFromElsewhere(item, endpoint, {context, groups, environment: all.environment})),
  ];
  const signature = (hostPort: string): string => {
    const [, address = '', port = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(hostPort) ?? [];
    return `${distinctions.ofAddress(address)} ${distinctions.ofPort(Number(port))}`;
  };
  const refusals = new PolicyRefusals();
  // A pod that gets an address which no route is about yet arrives by a link of its own, as the others do.
  const links = linksOfPods(context.facts);
  const [link = null] = links;
  const isOfNoPod = ({source: {kind}, senders, packet}: Probe): boolean =>
    kind === 'pod' && senders?.most === 'info' && !links.has(all.environment.interfaceOf?.(packet.source) ?? '');
  const withLink = (probe: Probe): Probe => (link === null ? probe : {...probe, packet: {...probe.packet, inInterface: link}});
  const together: Side = {...all, environment: {...all.environment, alike}};
  const effectsOf = (probe: Probe, side: Side, within?: Intervals): readonly RuleEffect[] => {
    const usual = portsOf(probe);
    const ends = {pods: probe.direct === undefined ? pods : intervalsOf([...pods, ...except]), signature};
    const walk = ({packet}: Probe, note: NoteCondition) => {
      const isOfClient = holds(usual, BigInt(packet.sourcePort ?? 0)) && probe.source.kind !== 'own-address';
      const noted = noting(side, note);
      const outcomes: readonly ConnectionOutcome[] = isOfClient ? walkConnection(noted, packet, ends) : walkSide(noted, packet);
      return {alone: outcomeOn(noting(sides.does, note), packet), outcomes};
    };
    const ports = distinctions.usesSourcePorts && usual === clientPorts ? [clientPorts, otherPorts] : [usual];
    const most = Math.max(1, effort.left);
    const isOver = (): boolean => effort.questions < 0;
    const {classes, isTruncated} = classesOfProbe(probe, {groups, except, ports, most, isOver, within}, (own, note) =>
      walk(own, (field, alike) => {
        effort.questions--;
        note(field, alike);
      }),
    );
    effort.left -= classes.length;
    effort.isTruncated ||= isTruncated;
    return classes.flatMap(([one, ofClass, space]) => {
      const own = probe.by === undefined ? one : arrivingBy(probe.by, one);
      const {alone, outcomes: walked} = isOfNoPod(own) ? walk(withLink(own), () => {}) : ofClass;
      const outcomes = walked.map(outcome => inAnyCase(outcome));
      refusals.note(outcomes);
      const pathOutcome = collectPathOutcome(outcomes);
      const effectOf = (outcome: ConnectionOutcome): readonly RuleEffect[] => {
        const {environment} = all;
        const effect = ruleEffect(outcome, {probe: own, port: item.port, alone, pathOutcome, environment, pods, remotePods}, effects);
        if (effect === null) return [];
        const limited = atMost(effect, isTranslatedThere(own, effect) ? 'info' : own.senders?.most);
        if (!hitsOnlyItself(own, outcome, groups)) return [limited];
        return [{...atMost(limited, 'warning'), detail: `${effect.detail}; the only such pod that runs is this endpoint itself`}];
      };
      const found = withShares(
        outcomes.flatMap(outcome => effectOf(outcome).map(effect => ({effect, outcome}))),
        isOfPods(own) && alone.destinations.size > 0,
      );
      // Rules about other interfaces may do the same as those about this one, and each is named.
      const isOfInterface = side === together && found.some(effect => effect.namesInterface && effect.severity !== 'info');
      return isOfInterface ? effectsOf(probe, all, space) : found;
    });
  };
  const usual = probes.filter(({knownTo, source: {kind}}) => knownTo.size === 0 && kind !== 'allowed' && kind !== 'other-range');
  const ofUsual = usual.flatMap(probe => effectsOf(probe, together));
  const known = new Set(ofUsual.map(effectKey));
  const ofOthers = usual.flatMap(probe => byOtherUplinks(probe, context).flatMap(one => effectsOf(one, together)));
  const effectsOfAll = [...ofUsual, ...ofOthers.filter(effect => !known.has(effectKey(effect)))];
  return maySelect(api, item.port.object) ? effectsOfAll : refusals.judge(effectsOfAll, api);
}

/** Clients outside may come by another uplink than the one by which the node answers them: whether any do is not known. */
function byOtherUplinks(probe: Probe, {facts}: NodeContext): readonly Probe[] {
  const {source, entry, packet} = probe;
  if (source.kind !== 'outside' || entry.kind === 'clusterIP' || probe.direct !== undefined) return [];
  return otherArrivals(facts, packet.source, packet.destination).map(by => ({...probe, by, packet: {...packet, inInterface: by}}));
}

function arrivingBy(by: string, probe: Probe): Probe {
  const {source, senders} = probe;
  return {...probe, senders: {pods: [], ...senders, text: `${senders?.text ?? sourceName(source)} by ${by}`, most: 'info'}};
}

/** All connections of pods of the node to the Service: of all pods, or of some that are known. */
function isOfPods({source: {kind}, senders, endpoint, direct}: Probe): boolean {
  return (
    kind === 'pod' &&
    endpoint === undefined &&
    direct === undefined &&
    (senders === undefined || (senders.pods.length > 0 && senders.ofSomePorts === undefined))
  );
}

/** What each rule takes of the connections, over all endpoints, if their senders are pods of the node. */
function withShares(
  found: readonly {readonly effect: RuleEffect; readonly outcome: ConnectionOutcome}[],
  areOfPods: boolean,
): readonly RuleEffect[] {
  if (!areOfPods) return found.map(({effect}) => effect);
  const taken = new Map(
    [...Map.groupBy(found, ({effect}) => effectKey(effect))].map(([key, own]) => {
      const share = own.reduce((sum, {outcome}) => Math.min(1, sum + outcome.probability), 0);
      const [endpoint, ...others] = new Set(own.map(({outcome}) => outcome.destination));
      return [key, {share, endpoint: others.length === 0 && share < 0.999 ? endpoint : null}] as const;
    }),
  );
  return found.map(({effect}) => {
    const {share, endpoint} = taken.get(effectKey(effect)) ?? {share: 0, endpoint: null};
    if (!losingKinds.has(effect.kind)) return effect;
    return {...effect, share, ...(endpoint != null && effect.kind === 'forward-blocked' ? {endpoint} : {})};
  });
}

const losingKinds: ReadonlySet<SymptomKind> = new Set([
  'entry-taken-by-other-rule',
  'dropped-by-other-rule',
  'forward-blocked',
  'unexpected-reject',
]);

/**
 * The ports from which clients of a probe connect: for what another node sends on with its own address, masquerading drew one. Replies to other
 * ports meet rules that are about the Services on these ports.
 */
function portsOf({source: {kind}, direct}: Probe): Intervals {
  return kind === 'other-node' && direct !== undefined ? drawnPorts : clientPorts;
}

/** Other nodes send packets to an endpoint of this one as their rules left them: from their pods, or masqueraded. */
function probesFromElsewhere(
  {port}: ServedPort,
  endpoint: Endpoint,
  {context, groups, environment}: {readonly context: NodeContext; readonly groups: SenderGroups; readonly environment: Environment},
): readonly Probe[] {
  const kinds = ['remote-pod', 'other-node'] as const;
  return kinds.flatMap(kind => {
    const [[low, high] = []] = groups.spaces.get(kind) ?? [];
    if (low === undefined || high === undefined || !usesClusterEndpoints(port)) return [];
    // What pods send to nodes is masqueraded by most networks, and what other nodes send to these is in no tunnel.
    const isSent = isOwnAddress(endpoint.address, environment)
      ? kind === 'other-node'
      : kind === 'remote-pod' || isRoutedFlat(groups, environment, context.family);
    if (!isSent) return [];
    const source: Source = {kind, address: formatAddress(context.family, low + (high - low) / 2n), interface: null};
    return directProbe(port, endpoint, source) ?? [];
  });
}

function isOwnAddress(text: string, {isLocal}: Environment): boolean {
  const address = parseAddress(text);
  return address !== null && isLocal(address) === true;
}

/** Whether packets to pods of other nodes leave by the interface of the nodes: in a tunnel, they have another address than the node's. */
function isRoutedFlat({spaces}: SenderGroups, {interfaceOf}: Environment, family: Family): boolean {
  const [pod, node] = (['remote-pod', 'other-node'] as const).map(kind => {
    const value = spaces.get(kind)?.[0]?.[0];
    return value === undefined ? null : (interfaceOf?.({family, value, text: formatAddress(family, value)}) ?? null);
  });
  return pod !== null && pod === node;
}

/** What other nodes send to cluster IPs, these translate themselves: a rule here that refuses it as it was sent refuses nothing. */
function isTranslatedThere({source: {kind}, entry, senders, direct}: Probe, {kind: effect, isLater}: RuleEffect): boolean {
  const isToClusterIP = kind === 'outside' && entry.kind === 'clusterIP' && direct === undefined;
  return isToClusterIP && senders?.areNodes === true && isLater !== true && effect === 'dropped-by-other-rule';
}

/** Endpoints of this node whose connections to themselves, and from other nodes, are walked. */
const maxHairpins = 3;

/** Of the senders of a class, no pod runs but the endpoint that the packet is sent to: its packets may go to others as well. */
function hitsOnlyItself({source: {kind}, senders}: Probe, {destination}: ConnectionOutcome, {pods, spaces}: SenderGroups): boolean {
  const space = spaces.get(kind);
  if (destination === null || space === undefined || (kind !== 'pod' && kind !== 'remote-pod')) return false;
  const running = [...pods].filter(([value, name]) => senders?.pods.includes(name) ?? holds(space, value));
  const own = parseAddress(splitHostPort(destination).address)?.value;
  return running.length > 0 && running.every(([value]) => value === own);
}

/** Who is hit decides how bad it is. */
function atMost(effect: RuleEffect, most: Severity | undefined): RuleEffect {
  return most !== undefined && isWorse(effect.severity, most) ? {...effect, severity: most} : effect;
}
