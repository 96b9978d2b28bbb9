import {packetOf, type Senders} from '../analyze/outcomes/probes.ts';
import {classesOfProbe, type SenderGroups} from '../analyze/outcomes/senders.ts';
import {once} from '../model/once.ts';
import type {ServedPort} from '../model/endpoint.ts';
import {isLoopback} from '../expect/node-context.ts';
import {type Family, parseAddress} from '../model/address.ts';
import {holds, type Intervals, intervalsOf, subtract} from '../model/intervals.ts';
import {allPorts, type NoteCondition} from '../trace/sender-space.ts';
import {noting} from '../trace/side.ts';
import type {SourceKind} from '../analyze/outcomes/sources.ts';
import {hasRemotePods, type PreviewProbe} from './preview-probes.ts';
import {type SideOutcome, sideOutcome, type WalkedSide} from './sides.ts';

/** Whether the usual senders of the probes stand for all. */
export interface Proof {
  /** For each probe the senders of further classes whose outcome changes. */
  readonly further: readonly (readonly FurtherClass[])[];
  /** For each probe whose outcome changes whom its sender stands for. */
  readonly usual: readonly (UsualClass | undefined)[];
  /** For each probe where it ends, if its sender stands for all of its kind; otherwise it has to be walked. */
  readonly walks: readonly (ProbeWalk | undefined)[];
  /** Why it is not proved that all others are treated the same; null if it is. */
  readonly gap: string | null;
  /** A sender of a change is this node, or is named without it: other nodes have others. */
  readonly isOfNode: boolean;
}

/** Where a packet ends on both sides. */
export interface ProbeWalk {
  readonly was: SideOutcome;
  readonly is: SideOutcome;
}

/** `text` is left out where the sender stands for all of its kind. */
interface UsualClass {
  readonly text: string | undefined;
  readonly space: Intervals;
}

interface FurtherClass {
  readonly address: string;
  readonly space: Intervals;
  readonly port: number | undefined;
  readonly senders: Senders;
}

interface ProofCase {
  readonly item: ServedPort;
  readonly before: WalkedSide;
  readonly after: WalkedSide;
  readonly groups: SenderGroups;
  readonly isChanged: (probe: PreviewProbe, walk: ProbeWalk) => boolean;
  /** Counts down the classes that are walked. */
  readonly effort: {left: number};
}

/** Above this number of classes in one preview, the usual senders alone are compared. */
export const maxPreviewClasses = 20_000;

const notWalked = `more than ${maxPreviewClasses} classes of senders would have to be compared`;

/**
 * Compares both sides for all senders of the probes: each walk tells for which senders all of its conditions have the same answer. An
 * endpoint that connects to its own Service is no such sender, and has probes of its own.
 */
export function proofOf(probes: readonly PreviewProbe[], {item, before, after, groups, isChanged, effort}: ProofCase): Proof {
  const except = intervalsOfAddresses(item.all.map(({address}) => address));
  const nodes = intervalsOf([...groups.nodes.keys()].map(value => [value, value] as const));
  const services = [before, after].map(({ports}) => subtract(serviceAddresses(ports), nodes));
  const spaceOf = (...kinds: readonly SourceKind[]): Intervals =>
    services.reduce(subtract, intervalsOf(kinds.flatMap(kind => groups.spaces.get(kind) ?? [])));
  const own = before.context.facts.addresses.filter(address => !isLoopback(address));
  const spaces = new Map([
    ...groups.spaces,
    ...([
      ['outside', spaceOf('outside')],
      ['node', intervalsOfAddresses(own, before.context.family)],
    ] as const),
  ]);
  // Without a cluster CIDR no probe stands for the pods of other nodes: they arrive as others do, but for cluster IPs.
  const hasRemote = hasRemotePods([before.context, after.context]);
  const withRemote = hasRemote ? spaces : new Map([...spaces, ['outside', spaceOf('outside', 'remote-pod')] as const]);
  let gap: string | null = null;
  const usual: (UsualClass | undefined)[] = probes.map(() => undefined);
  const walks: (ProbeWalk | undefined)[] = probes.map(() => undefined);
  const further = probes.map((probe, index): readonly FurtherClass[] => {
    if (!spaces.has(probe.source.kind) || (probe.kind !== 'entry' && probe.kind !== 'health-check')) return [];
    if (effort.left <= 0) {
      gap ??= notWalked;
      return [];
    }
    const walk = ({packet}: Pick<PreviewProbe, 'packet'>, note: NoteCondition): ProbeWalk => ({
      was: sideOutcome(noting(before, note), packet),
      is: sideOutcome(noting(after, note), packet),
    });
    const input = {
      groups: {...groups, spaces: probe.entry.kind === 'clusterIP' ? spaces : withRemote},
      except,
      ports: [allPorts],
      most: Math.max(1, effort.left),
    };
    const {classes, isTruncated} = classesOfProbe({...probe, knownTo: new Set<string>()}, input, walk);
    effort.left -= classes.length;
    if (isTruncated) gap ??= notWalked;
    return classes.flatMap(([own, walked, space]) => {
      const isUsual = holds(space, probe.packet.source.value);
      if (own.senders === undefined && isUsual) walks[index] = walked;
      const senders = own.senders ?? {text: own.source.address, pods: []};
      if (walked.was.undecided + walked.is.undecided > 0)
        gap ??= `a rule cannot be interpreted for packets from ${senders.text}: kubectl svc-trace packet names it`;
      if (isOfNobody(own.source.kind, senders) || !isChanged({...probe, packet: own.packet}, walked)) return [];
      if (isUsual) {
        usual[index] = {text: own.senders?.text, space};
        return [];
      }
      return [{address: own.source.address, space, port: own.packet.sourcePort, senders}];
    });
  });
  const isRanged = item.port.sourceRanges.length > 0;
  const isOfNode = probes.some(
    ({source}, index) =>
      (isRanged && usual[index]?.text !== undefined) || ((isRanged || source.kind === 'node') && further[index]?.length !== 0),
  );
  return {further, usual, walks, gap, isOfNode};
}

/** No client but a node has the address of a Service, which a node in IPVS mode tells from others. */
const serviceAddresses = once(
  (ports: readonly ServedPort[]): Intervals =>
    intervalsOfAddresses(ports.flatMap(({port}) => [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs])),
);

/** Of one family, if one is given. */
function intervalsOfAddresses(addresses: readonly string[], family?: Family): Intervals {
  const parsed = addresses.flatMap(text => parseAddress(text) ?? []).filter(address => family === undefined || address.family === family);
  return intervalsOf(parsed.map(({value}) => [value, value] as const));
}

/** Addresses of pods that no pod has. */
function isOfNobody(kind: string, {most}: Senders): boolean {
  return (kind === 'pod' || kind === 'remote-pod') && most === 'info';
}

/** The probes with those of the senders that a proof found, for this Service port or one that no rule distinguishes from it. */
export function withFurther(item: ServedPort, probes: readonly PreviewProbe[], {further, usual}: Proof): readonly PreviewProbe[] {
  const known = probes.map((probe, index) => {
    const found = usual[index];
    if (found === undefined) return probe;
    return {...probe, space: found.space, who: found.text ?? probe.who};
  });
  return known.concat(
    probes.flatMap((probe, index) =>
      (further[index] ?? []).flatMap(({address, space, port, senders}): readonly PreviewProbe[] => {
        const from = {...probe.source, address};
        const packet = packetOf(
          {protocol: probe.packet.protocol, family: item.port.family},
          {source: address, destination: probe.packet.destination.text, port: probe.packet.port, from},
        );
        if (packet === null) return [];
        const sent = port === undefined ? packet : {...packet, sourcePort: port};
        return [{...probe, source: from, who: senders.text, space, isFurther: true, packet: sent}];
      }),
    ),
  );
}
