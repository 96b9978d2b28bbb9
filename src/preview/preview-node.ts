import {onceAsked} from '../model/once.ts';
import {senderGroups} from '../analyze/outcomes/senders.ts';
import type {NodeContext} from '../expect/node-context.ts';
import {families, type Family} from '../model/address.ts';
import type {Endpoint, ServedPort} from '../model/endpoint.ts';
import type {Intervals} from '../model/intervals.ts';
import type {PreviewChange} from '../model/preview-result.ts';
import type {ServicePort} from '../model/service-port.ts';
import {alikePorts, hasSameEndpoints, isReplaced, portKey, type PortGroup, type PortPair, type AlikePortsInput} from './alike-ports.ts';
import {causeOf, effectOnPacket, healedFault, type PlannedChange, probeOutcome, type ChangeCase, previewChange} from './effect.ts';
import {type PreviewProbe, previewProbes, unusedPortProbes} from './preview-probes.ts';
import {type ProbeWalk, type Proof, proofOf, withFurther} from './proof.ts';
import {
  actualSide,
  expectedSide,
  walksReplies,
  type SideOutcome,
  sideOutcome,
  type SideShare,
  type WalkedSide,
  withPaths,
} from './sides.ts';
import {uniqueBy} from '../model/lists.ts';

interface PreviewNodeInput extends Pick<AlikePortsInput, 'setup' | 'viewAfter' | 'configAfter'> {
  /** Both sides are computed, whatever was read of the node. */
  readonly expectedOnly: boolean;
  readonly selects: (port: ServicePort) => boolean;
  /** Of the nodes before: walks of this node are added. */
  readonly walked: KnownWalks;
  /** See `maxPreviewClasses`. */
  readonly effort: {left: number};
  /** Whether each outcome says by which rules. */
  readonly paths: boolean;
}

/** One packet whose outcome changes, with both outcomes. */
export interface FoundChange {
  readonly change: PreviewChange;
  /** The addresses of all senders whose packets are treated like this one, where a proof tells. */
  readonly space: Intervals | undefined;
  readonly isUnusedPort: boolean;
}

export interface PreviewedNode {
  readonly changes: readonly FoundChange[];
  /** The Service ports in scope, each with why it is not proved that packets are treated the same beside its changes; null if it is. */
  readonly ports: readonly {readonly item: ServedPort; readonly gap: string | null}[];
}

/** Every packet whose outcome on one node changes. */
export function previewNode(input: PreviewNodeInput): PreviewedNode {
  const found = families.map(family => previewFamily(input, family));
  return {changes: found.flatMap(({changes}) => changes), ports: found.flatMap(({ports}) => ports)};
}

function previewFamily(input: PreviewNodeInput, family: Family): PreviewedNode {
  const {setup, viewAfter, configAfter, expectedOnly, selects, paths} = input;
  const today = expectedOnly
    ? expectedSide({setup, view: setup.view, config: setup.config, family, besideOthers: false})
    : actualSide(setup, setup.view, family);
  const senders = onceAsked(() => senderGroups({api: setup.api, context: today.context}));
  const replies = walksReplies({setup, configAfter, expectedOnly}, family) ? {pods: senders().spaces.get('pod') ?? []} : {};
  const before: WalkedSide = {...today, ...replies};
  const after: WalkedSide = {
    ...expectedSide({setup, view: viewAfter, config: configAfter, family, besideOthers: !expectedOnly}),
    ...replies,
  };
  // As of a family that the cluster does not have.
  if (before.ports.length + after.ports.length === 0) return {changes: [], ports: []};
  const contexts = [before.context, after.context] as const;
  const {node, groups, isFaulty, deviates, isSplit} = alikePorts({setup, before, after, configAfter, viewAfter, expectedOnly});
  const restarted = onceAsked(() => ({
    ...expectedSide({setup, view: setup.view, config: setup.config, family, besideOthers: true}),
    ...replies,
  }));
  const sides: Sides = {setup, before, after, configAfter, paths, restarted: pair => (isFaulty(pair) ? restarted() : null)};
  // What cannot be compared with other nodes is known to this one alone.
  const walked: WalksByShape = (node === null ? undefined : input.walked.get(node)) ?? {both: new Map(), proofs: new Map()};
  if (node !== null) input.walked.set(node, walked);
  const changes: FoundChange[] = [];
  const ports: {readonly item: ServedPort; readonly gap: string | null}[] = [];
  const prove = (pair: PortPair, shape: string | null): Proof => {
    if (deviates(pair)) return {...unproved, gap: 'its current rules are not those that kube-proxy writes: see kubectl svc-trace check'};
    const known = shape === null ? undefined : walked.proofs.get(shape);
    if (known !== undefined) return known;
    const isChanged = (probe: PreviewProbe, walk: ProbeWalk): boolean => changeOf(sides, pair, {probe, walk}) !== null;
    const given = {item: pair.known, before, after, groups: senders(), effort: input.effort, isChanged};
    const proof = proofOf(probesOfPair(pair, contexts), given);
    if (shape !== null && !proof.isOfNode) walked.proofs.set(shape, proof);
    return proof;
  };
  for (const {shape: known, pairs} of groups.flatMap(group => provable(group, isSplit))) {
    const [lead] = pairs;
    const wanted = pairs.filter(pair => selects(pair.known.port));
    if (lead === undefined || wanted.length === 0) continue;
    const proof = prove(lead, known);
    const shape = proof.isOfNode ? null : known;
    for (const pair of wanted) ports.push({item: pair.known, gap: proof.gap});
    const probesOf = (pair: PortPair): readonly PreviewProbe[] => withFurther(pair.known, probesOfPair(pair, contexts), proof);
    const walks = walkOnce(walked, shape, () => walkPort(sides, lead, probesOf(lead), proof.walks));
    if (walks === null) continue;
    for (const pair of wanted)
      for (const found of changesLike(sides, pair, walks, probesOf(pair))) changes.push(foundChange(sides, found, false));
  }
  const alike = new Set(groups.flatMap(({shape, pairs}) => (shape === null ? [] : pairs.map(({known}) => known))));
  return {ports, changes: [...changes, ...unusedPorts(sides, {walked, isAlike: item => alike.has(item), selects})]};
}

/**
 * A Service that the manifests replace may have other entries and source ranges, and another version may serve endpoints that end: the
 * packets of both sides are tried.
 */
function probesOfPair(pair: PortPair, contexts: readonly [NodeContext, NodeContext]): readonly PreviewProbe[] {
  const {known, before, after} = pair;
  if (before === null || after === null || (!isReplaced(pair) && hasSameEndpoints(before, after))) return previewProbes(known, contexts);
  const probes = [before, after].flatMap(item => previewProbes(item, contexts));
  return uniqueBy(probes, ({kind, entry, source, packet}) =>
    [kind, entry.kind, source.kind, source.address, packet.destination.text, packet.port].join(' '),
  );
}

/** Where classes of senders are those of one Service port or node, others do not share its walks. */
function provable({shape, pairs}: PortGroup, isSplit: (item: ServedPort) => boolean): readonly PortGroup[] {
  const isRanged = pairs.some(({known}) => known.port.sourceRanges.length > 0);
  if (!isRanged) return [pairs.some(({known}) => isSplit(known)) ? {pairs, shape: null} : {pairs, shape}];
  return pairs.map(pair => ({pairs: [pair], shape: shape === null || isSplit(pair.known) ? null : `${portKey(pair.known)} ${shape}`}));
}

const unproved: Proof = {further: [], usual: [], walks: [], gap: null, isOfNode: false};

interface Sides extends Pick<AlikePortsInput, 'setup' | 'before' | 'after' | 'configAfter'>, Pick<PreviewNodeInput, 'paths'> {
  /** The node as a restart of kube-proxy without the change would leave it; null where that changes nothing for a Service port. */
  readonly restarted: (pair: PortPair) => WalkedSide | null;
}

/** The walks of all probes of one Service port. */
interface PortWalks {
  readonly pair: PortPair;
  /** In the order of its probes; null where nothing changes. */
  readonly walks: readonly (ProbeWalk | null)[];
}

/** Walks on nodes of one shape, by the shape of Service ports (`PortGroup`). */
interface WalksByShape {
  /** Null where nothing changes. */
  readonly both: Map<string, PortWalks | null>;
  readonly proofs: Map<string, Proof>;
}

/** Walks on earlier nodes, by the shape of the node (`nodeShape`). */
export type KnownWalks = Map<string, WalksByShape>;

function walkOnce({both}: WalksByShape, shape: string | null, walk: () => PortWalks | null): PortWalks | null {
  const found = shape === null ? undefined : both.get(shape);
  if (found !== undefined) return found;
  const walks = walk();
  if (shape !== null) both.set(shape, walks);
  return walks;
}

/** Null where nothing changes. `proved` are the walks that a proof has made. */
function walkPort(sides: Sides, pair: PortPair, probes: readonly PreviewProbe[], proved: Proof['walks']): PortWalks | null {
  const walks = probes.map((probe, index) => {
    const {packet} = probe;
    const walk = proved[index] ?? {was: sideOutcome(sides.before, packet), is: sideOutcome(sides.after, packet)};
    return changeOf(sides, pair, {probe, walk}) === null ? null : walk;
  });
  return walks.every(walk => walk === null) ? null : {pair, walks};
}

/** The packets to a Service port whose outcome changes, by the walks of one that no rule distinguishes from it. */
function changesLike(sides: Sides, pair: PortPair, {pair: lead, walks}: PortWalks, probes: readonly PreviewProbe[]): readonly ChangeCase[] {
  const isAlike = probes.length === walks.length;
  return probes.flatMap((probe, index) => {
    const known = walks[index];
    if (isAlike && known === null) return [];
    const walk =
      pair === lead && known
        ? known
        : isAlike && known && probe.kind !== 'hairpin' && probe.isFurther !== true
          ? walkLike(sides, probe, {walk: known, lead, pair})
          : {was: sideOutcome(sides.before, probe.packet), is: sideOutcome(sides.after, probe.packet)};
    return compareProbe(sides, pair, {probe, walk}) ?? [];
  });
}

/** Where a packet ends, by the walk of the lead; a side on which that does not tell is walked. */
function walkLike(
  {before, after}: Sides,
  {packet}: PreviewProbe,
  {walk, lead, pair}: {readonly walk: ProbeWalk; readonly lead: PortPair; readonly pair: PortPair},
): ProbeWalk {
  return {
    was: outcomeLike(walk.was, lead.written, pair.written) ?? sideOutcome(before, packet),
    is: outcomeLike(walk.is, lead.after, pair.after) ?? sideOutcome(after, packet),
  };
}

interface WalkedProbe {
  readonly probe: PreviewProbe;
  readonly walk: ProbeWalk;
}

/** Null if nothing changes for the packet. */
function changeOf({before, after}: Sides, pair: PortPair, {probe, walk}: WalkedProbe): Pick<ChangeCase, 'was' | 'is' | 'effect'> | null {
  const was = probeOutcome(before, probe, {path: walk.was, item: pair.before});
  const is = probeOutcome(after, probe, {path: walk.is, item: pair.after});
  const effect = affinityChanges(pair) && probe.kind === 'entry' ? (effectOnPacket(was, is) ?? 'affinity') : effectOnPacket(was, is);
  return effect === null ? null : {was, is, effect};
}

/** The change of a packet with its cause; null if nothing changes. */
function compareProbe(sides: Sides, pair: PortPair, walkedProbe: WalkedProbe): ChangeCase | null {
  const {setup, before, after, configAfter} = sides;
  const found = changeOf(sides, pair, walkedProbe);
  if (found === null) return null;
  const {probe} = walkedProbe;
  const restarted = sides.restarted(pair);
  const healed =
    restarted === null ? found.was : probeOutcome(restarted, probe, {path: sideOutcome(restarted, probe.packet), item: pair.before});
  const change = {node: setup.node.name, item: pair.known, probe, ...found};
  if (restarted !== null && effectOnPacket(healed, found.is) === null && found.effect !== 'affinity')
    return {...change, cause: healedFault};
  return {
    ...change,
    cause: causeOf({
      ...change,
      // A fault of today is no reason of what the change does beside it.
      was: healed,
      planned: plannedChange(pair),
      config: setup.config,
      configAfter,
      before: before.context,
      after: after.context,
    }),
  };
}

function plannedChange(pair: PortPair): PlannedChange {
  const {before, after} = pair;
  if (before === null || after === null) return before === null ? 'new' : 'removed';
  return !isReplaced(pair) && hasSameEndpoints(before, after) ? 'same' : 'changed';
}

function affinityChanges({before, after}: PortPair): boolean {
  return before !== null && after !== null && before.port.affinitySeconds !== after.port.affinitySeconds;
}

interface UnusedPortsCase {
  readonly walked: WalksByShape;
  /** Whether other nodes of this shape have the same rules of the Service port, among which are those about all ports of its cluster IP. */
  readonly isAlike: (item: ServedPort) => boolean;
  readonly selects: (port: ServicePort) => boolean;
}

/** The outcome at ports that a cluster IP does not have is the same for all Services: only one is reported. */
function unusedPorts(sides: Sides, {walked, isAlike, selects}: UnusedPortsCase): readonly FoundChange[] {
  const {before, after} = sides;
  const item = before.ports.find(one => selects(one.port) && after.ports.some(other => portKey(other) === portKey(one)));
  if (item === undefined) return [];
  const used = new Set(before.ports.filter(({port}) => port.clusterIP === item.port.clusterIP).map(({port}) => port.port));
  let unused = 9;
  while (used.has(unused)) unused++;
  const pair = {known: item, before: item, after: item, written: item};
  const probes = unusedPortProbes(item, before.context, unused);
  const walks = walkOnce(walked, isAlike(item) ? `unused port of ${portKey(item)}` : null, () => walkPort(sides, pair, probes, []));
  if (walks === null) return [];
  return changesLike(sides, pair, walks, probes).map(found => foundChange(sides, found, true));
}

function foundChange({paths, before, after}: Sides, found: ChangeCase, isUnusedPort: boolean): FoundChange {
  const {packet, space} = found.probe;
  const change = previewChange(found);
  // Of an unused port only what happens is told, for all Services.
  if (!paths || isUnusedPort) return {change, space, isUnusedPort};
  const withRules = {before: withPaths(before, packet, change.before), after: withPaths(after, packet, change.after)};
  return {change: {...change, ...withRules}, space, isUnusedPort};
}

/**
 * The outcome of a packet to a Service port, by that of the same packet to another one that no rule distinguishes from it: with its own
 * endpoints, in the place of the other's. Null if the endpoints are not treated alike, so that their places matter: the packet must be
 * walked.
 */
function outcomeLike(sideOutcome: SideOutcome, lead: ServedPort | null, item: ServedPort | null): SideOutcome | null {
  const {destinations, passed, rejected, dropped, undecided} = sideOutcome;
  if (destinations.size === 0) return undecided === 0 ? sideOutcome : null;
  if (lead === null || item === null || passed + rejected + dropped + undecided > 0) return null;
  const shares = [...destinations];
  if (new Set(shares.map(([, {masquerade}]) => masquerade)).size > 1) return null;
  const served = listOf(shares, lead, item);
  if (served === null) return null;
  const own = shares.map(([, share], index): [string, SideShare] => [served[index]?.hostPort ?? '', share]);
  return new Map(own).size === shares.length ? {...sideOutcome, destinations: new Map(own)} : null;
}

/** The list of endpoints that the packet was balanced over, as the other Service port has it; null if it is not one, or in another order. */
function listOf(shares: readonly (readonly [string, unknown])[], lead: ServedPort, item: ServedPort): readonly Endpoint[] | null {
  const isList = (list: readonly Endpoint[]): boolean =>
    list.length === shares.length && list.every(({hostPort}, index) => shares[index]?.[0] === hostPort);
  const lists = (['cluster', 'local'] as const).filter(name => isList(lead.endpoints[name])).map(name => item.endpoints[name]);
  const [first, second = first] = lists;
  if (first === undefined || first.length !== shares.length) return null;
  // Where both are the same list of the one, they must be of the other.
  return second !== undefined && first.every((endpoint, index) => second[index] === endpoint) ? first : null;
}
