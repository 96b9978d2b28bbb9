import {pushTo} from '../model/lists.ts';
import type {PathOutcome} from '../analyze/outcomes/path-outcome.ts';
import {shapeOf} from '../analyze/outcomes/port-shape.ts';
import {allOf} from '../analyze/iptables/read-dumps.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {ServedPort} from '../expect/cluster/served-port.ts';
import {families, type Family} from '../model/family.ts';
import type {PreviewChange} from '../model/preview.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {RuleText} from '../model/ruleset.ts';
import type {ServicePort} from '../model/service-port.ts';
import {type ChangeCase, previewChange} from './preview-change.ts';
import {causeOf, type PlannedChange} from './causes.ts';
import {effectOf, probeOutcome} from './effect.ts';
import {deviationsOf} from './deviating-ports.ts';
import type {NodeSetup} from './node-setup.ts';
import {constantsIn, signatureOf, thirdPartyTexts} from './port-groups.ts';
import {endpointHere, type PreviewProbe, previewProbes, unusedPortProbes} from './preview-probes.ts';
import {senderShape} from './sender-shape.ts';
import {actualSide, expectedSide} from './sides.ts';
import {otherTables} from './third-party-rules.ts';
import {outcomeLike} from './outcome-like.ts';
import {type WalkedSide, walkSide} from './walk-side.ts';

interface PreviewNodeInput {
  readonly setup: NodeSetup;
  /** The API objects after the change. */
  readonly viewAfter: ClusterView;
  readonly configAfter: ProxyConfig;
  /** Both sides are computed, whatever was read of the node. */
  readonly expectedOnly: boolean;
  readonly selects: (port: ServicePort) => boolean;
}

/** One packet whose outcome changes, with both outcomes. */
interface FoundChange {
  readonly change: PreviewChange;
  readonly isUnusedPort: boolean;
}

/** Every packet whose outcome on one node changes. */
export function previewNode(input: PreviewNodeInput): readonly FoundChange[] {
  return families.flatMap(family => previewFamily(input, family));
}

function previewFamily(input: PreviewNodeInput, family: Family): readonly FoundChange[] {
  const {setup, viewAfter, configAfter, expectedOnly, selects} = input;
  const before = expectedOnly
    ? expectedSide({setup, view: setup.view, config: setup.config, family, besideOthers: false})
    : actualSide(setup, setup.view, family);
  const after = expectedSide({setup, view: viewAfter, config: configAfter, family, besideOthers: !expectedOnly});
  const sides: Sides = {setup, before, after, configAfter};
  const changes: FoundChange[] = [];
  for (const [lead, ...others] of groupsOf(input, sides)) {
    if (lead === undefined) continue;
    const wanted = [lead, ...others].filter(pair => selects(pair.known.port));
    if (wanted.length === 0) continue;
    const probes = previewProbes(lead.known, [before.context, after.context]);
    const walks = probes.map(probe => walkProbe(sides, probe));
    const changed = probes.map((probe, index) => compareProbe(sides, lead, {probe, walk: walks[index]}));
    if (changed.every(found => found === null)) continue;
    for (const pair of wanted) {
      const own = pair === lead ? probes : previewProbes(pair.known, [before.context, after.context]);
      const isAlike = own.length === probes.length;
      for (const [index, probe] of own.entries()) {
        if (isAlike && changed[index] === null) continue;
        const like = isAlike && probe.kind !== 'hairpin' ? walks[index] : undefined;
        const walk = pair === lead ? walks[index] : like === undefined ? undefined : walkLike(sides, probe, {walk: like, lead, pair});
        const found = compareProbe(sides, pair, {probe, walk});
        if (found !== null) changes.push({change: previewChange(found), isUnusedPort: false});
      }
    }
  }
  return [...changes, ...unusedPorts(sides, selects)];
}

interface Sides {
  readonly setup: NodeSetup;
  readonly before: WalkedSide;
  readonly after: WalkedSide;
  readonly configAfter: ProxyConfig;
}

/** A Service port on both sides; null where one does not have it. */
interface PortPair {
  /** On one of the sides. */
  readonly known: ServedPort;
  readonly before: ServedPort | null;
  readonly after: ServedPort | null;
}

/** Service ports that no rule distinguishes: only one of them is walked. */
function groupsOf({expectedOnly}: PreviewNodeInput, {setup, before, after}: Sides): readonly (readonly PortPair[])[] {
  const family = before.context.family;
  const iptables = expectedOnly ? [] : allOf(setup.dumps, family);
  const tables = expectedOnly ? [] : otherTables(setup.nft(), iptables);
  const deviations = expectedOnly ? {ports: new Set<ServedPort>(), texts: []} : deviationsOf(before, setup);
  const ranges = [before, after].flatMap(({context}) => context.serviceRanges ?? []);
  const constants = constantsIn([...thirdPartyTexts(iptables, tables), ...(deviations?.texts ?? []), ...ranges]);
  const clusterIPs = new Set([...before.ports, ...after.ports].map(({port}) => port.clusterIP));
  const hosts = before.local.addresses;
  const groups = new Map<string, PortPair[]>();
  for (const [index, pair] of pairsOf(before.ports, after.ports).entries()) {
    const isAlone =
      deviations === null || constants.usesSets || pair.before === null || pair.after === null || deviations.ports.has(pair.before);
    const here = endpointHere(pair.known, before.context)?.address;
    const sideShape = (item: ServedPort | null): string => (item === null ? '' : portShape(item, {hosts, clusterIPs}));
    const signature = (item: ServedPort | null): string => (item === null ? '' : signatureOf(item, here, constants));
    const later = hasSameEndpoints(pair) ? '' : signature(pair.after);
    const senders = senderShape(pair.known, [before.context, after.context]);
    const shape = [sideShape(pair.before), sideShape(pair.after), senders, signature(pair.before), later];
    pushTo(groups, isAlone ? `alone ${index}` : shape.join(' '), pair);
  }
  return [...groups.values()];
}

/** With other objects, or in another zone, a side may have other endpoints. */
function hasSameEndpoints({before, after}: PortPair): boolean {
  return (['cluster', 'local'] as const).every(name => {
    const [was, is] = [before?.endpoints[name] ?? [], after?.endpoints[name] ?? []];
    return was.length === is.length && was.every((endpoint, index) => endpoint === is[index]);
  });
}

/** Addresses that kube-proxy's rules treat specially if an endpoint has them. */
interface SpecialAddresses {
  /** Those of the node. */
  readonly hosts: readonly string[];
  readonly clusterIPs: ReadonlySet<string>;
}

/** All fields by which kube-proxy's own rules distinguish Service ports. */
function portShape(item: ServedPort, {hosts, clusterIPs}: SpecialAddresses): string {
  const {port, endpoints, all} = item;
  return [
    shapeOf(item, hosts),
    ...[port.externalIPs.length, port.loadBalancerVIPs.length, port.sourceRanges.length, port.affinitySeconds, port.nodePort !== 0],
    ...[endpoints.cluster.length, endpoints.local.length, endpoints.reachable.length, all.length],
    [...port.externalIPs, ...port.loadBalancerVIPs].some(address => hosts.includes(address)),
    port.externalIPs.some(address => port.loadBalancerVIPs.includes(address)),
    port.sourceRanges.some(range => range.endsWith('/0')),
    all.some(({address}) => clusterIPs.has(address)),
  ].join();
}

function pairsOf(before: readonly ServedPort[], after: readonly ServedPort[]): readonly PortPair[] {
  const later = new Map(after.map(item => [keyOf(item), item]));
  const known = new Set(before.map(keyOf));
  return [
    ...before.map(item => ({known: item, before: item, after: later.get(keyOf(item)) ?? null})),
    ...after.filter(item => !known.has(keyOf(item))).map(item => ({known: item, before: null, after: item})),
  ];
}

function keyOf({port: {namespace, service, portName, protocol, port}}: ServedPort): string {
  return `${namespace}/${service}:${portName}:${protocol}:${port}`;
}

/** Where a packet ends on both sides. */
interface ProbeWalk {
  readonly was: PathOutcome<RuleText>;
  readonly is: PathOutcome<RuleText>;
}

function walkProbe({before, after}: Sides, {packet}: PreviewProbe): ProbeWalk {
  return {was: walkSide(before, packet), is: walkSide(after, packet)};
}

/** Where a packet to a member of a group ends, by the walk of the lead; a side on which that does not tell is walked. */
function walkLike(
  {before, after}: Sides,
  {packet}: PreviewProbe,
  {walk, lead, pair}: {readonly walk: ProbeWalk; readonly lead: PortPair; readonly pair: PortPair},
): ProbeWalk {
  return {
    was: outcomeLike(walk.was, lead.before, pair.before) ?? walkSide(before, packet),
    is: outcomeLike(walk.is, lead.after, pair.after) ?? walkSide(after, packet),
  };
}

/** Null if nothing changes for the packet. */
function compareProbe(
  sides: Sides,
  pair: PortPair,
  {probe, walk = walkProbe(sides, probe)}: {readonly probe: PreviewProbe; readonly walk?: ProbeWalk | undefined},
): ChangeCase | null {
  const {setup, before, after, configAfter} = sides;
  const was = probeOutcome(before, probe, {path: walk.was, item: pair.before});
  const is = probeOutcome(after, probe, {path: walk.is, item: pair.after});
  const effect = affinityChanges(pair) && probe.kind === 'entry' ? (effectOf(was, is) ?? 'affinity') : effectOf(was, is);
  if (effect === null) return null;
  const change = {node: setup.node.name, item: pair.known, probe, was, is, effect};
  return {
    ...change,
    cause: causeOf({
      ...change,
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
  return before.port.object === after.port.object && hasSameEndpoints(pair) ? 'same' : 'changed';
}

function affinityChanges({before, after}: PortPair): boolean {
  return before !== null && after !== null && before.port.affinitySeconds !== after.port.affinitySeconds;
}

/** The outcome at ports that a cluster IP does not have is the same for all Services: only one is reported. */
function unusedPorts(sides: Sides, selects: (port: ServicePort) => boolean): readonly FoundChange[] {
  const later = new Set(sides.after.ports.map(keyOf));
  const item = sides.before.ports.find(one => selects(one.port) && later.has(keyOf(one)));
  if (item === undefined) return [];
  const used = new Set(sides.before.ports.filter(({port}) => port.clusterIP === item.port.clusterIP).map(({port}) => port.port));
  let unused = 9;
  while (used.has(unused)) unused++;
  const pair = {known: item, before: item, after: item};
  return unusedPortProbes(item, sides.before.context, unused).flatMap(probe => {
    const found = compareProbe(sides, pair, {probe});
    return found === null ? [] : [{change: previewChange(found), isUnusedPort: true}];
  });
}
