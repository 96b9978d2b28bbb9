import {ofPort} from '../model/finding.ts';
import {parseAddress} from '../model/address.ts';
import {podOf, type ServedPort} from '../model/endpoint.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {NodeContext} from '../expect/node-context.ts';
import type {EndpointTrace, EntryTrace, Mark, PortTrace, TraceStep} from '../model/service-trace.ts';
import {holds} from '../model/intervals.ts';
import {someOf} from '../model/text.ts';
import type {NodeRule, Packet} from '../trace/walked-packet.ts';
import {intercepts} from './leftover-modes.ts';
import {environmentOf, podsHere, hasSameEnds, isSameOutcome, type PathOutcome, type Share, verdictNames} from './outcomes/environment.ts';
import {kernelObstacle, ownObstacle} from './outcomes/kernel-obstacle.ts';
import {type Probe, probesFor} from './outcomes/probes.ts';
import {sourceNames} from './outcomes/sources.ts';
import {unservedAddresses} from './outcomes/unserved-addresses.ts';

/** How a proxy mode traces the path of a packet. */
interface TraceCase {
  readonly item: ServedPort;
  readonly context: NodeContext;
  /** The outcome of a packet in the expected and in the actual rules. */
  walk(packet: Packet): {readonly should: PathOutcome; readonly does: PathOutcome};
  /** The steps of a path from the entry to the choice of an endpoint. */
  stepsOf(path: readonly NodeRule[]): readonly TraceStep[];
  /** The rule of a path that picks the endpoint, and the rule that rewrites the packet. */
  pickOf(path: readonly NodeRule[]): NodeRule | null;
  rewriteOf(path: readonly NodeRule[]): NodeRule | null;
  /** What the other backend of iptables does to the packet, where both hold Service rules. */
  readonly beside?: ((packet: Packet) => {readonly backend: string; readonly outcome: PathOutcome}) | undefined;
  /** IPVS sends packets on itself: the kernel forwards only the replies. */
  readonly isSentByIpvs?: true;
}

/** The actual packet path for every entry of a Service port, compared with the expected one. */
export function traceServedPort(traceCase: TraceCase): PortTrace {
  const {item, context} = traceCase;
  const {port} = item;
  const probes = probesFor({item, context, hairpins: []});
  const entries = [...chooseProbes(probes).map(probe => traceEntry(traceCase, probe)), ...blockedEntries(traceCase, probes)];
  const unserved = unservedAddresses(port, context);
  return {node: context.facts.name, ...ofPort(port), entries, ...(unserved.length === 0 ? {} : {unserved})};
}

const outsideRanges = 'outside the source ranges';

/** One packet that `loadBalancerSourceRanges` keep out of each load-balancer IP. Ranges of all addresses keep out none. */
function blockedEntries(traceCase: TraceCase, probes: readonly Probe[]): readonly EntryTrace[] {
  if (traceCase.item.port.sourceRanges.length === 0) return [];
  return probes
    .filter(({entry, source, knownTo}) => entry.kind === 'loadBalancerIP' && source.kind === 'outside' && knownTo.size === 0)
    .filter(({packet}) => traceCase.walk(packet).should.destinations.size === 0)
    .map(probe => ({...traceEntry(traceCase, probe, 'loadBalancerSourceRanges do not allow this client'), from: outsideRanges}));
}

/** One packet for each entry: from a pod to the cluster IP, from outside to the others, from an allowed range where there are ranges. */
function chooseProbes(probes: readonly Probe[]): readonly Probe[] {
  const chosen = new Map<string, Probe>();
  for (const probe of probes) {
    if (probe.knownTo.size > 0) continue;
    const key = `${probe.entry.kind} ${probe.entry.address ?? ''}`;
    const before = chosen.get(key);
    if (before === undefined || preference(probe) < preference(before)) chosen.set(key, probe);
  }
  return [...chosen.values()];
}

function preference({entry, source}: Probe): number {
  const order = entry.kind === 'clusterIP' ? ['pod', 'outside', 'node'] : ['allowed', 'outside', 'remote-pod', 'pod', 'node'];
  const at = order.indexOf(source.kind);
  return at < 0 ? order.length : at;
}

function traceEntry(traceCase: TraceCase, probe: Probe, blockedBy = localPolicy(traceCase.item.port, probe)): EntryTrace {
  const {should, does} = traceCase.walk(probe.packet);
  const beside = traceCase.beside?.(probe.packet);
  if (beside !== undefined && intercepts(beside.outcome.outcomes) && !hasSameEnds(beside.outcome, does))
    return contestedEntry(traceCase, probe, {should, does, beside});
  const names = new Set([...should.destinations.keys(), ...does.destinations.keys()]);
  const losses = new Map([...does.destinations.keys()].flatMap(hostPort => lossTo(hostPort, traceCase, probe)));
  const undecided = does.outcomes.filter(({verdict}) => verdict === 'undecided');
  const endpoints = [...names].sort().map(hostPort => {
    const endpoint = traceEndpoint(traceCase, hostPort, should.destinations.get(hostPort), does.destinations.get(hostPort));
    // That it gets none is not known.
    if (endpoint.mark === 'missing' && undecided.some(({destination}) => destination === null || destination === hostPort))
      return {...endpoint, mark: 'shown' as const, share: null};
    return losses.has(hostPort) ? {...endpoint, mark: 'wrong' as const, share: 0} : endpoint;
  });
  const [reason] = losses.values();
  const isOpen = endpoints.some(one => one.mark === 'shown') && endpoints.every(one => one.mark === 'shown' || one.mark === 'ok');
  const mark = losses.size > 0 ? 'wrong' : isOpen ? 'shown' : entryMark(should, does);
  return {
    entry: probe.entry,
    from: sourceNames[probe.source.kind],
    mark,
    steps: traceCase.stepsOf(does.outcomes[0]?.path ?? []),
    endpoints,
    end: endOf(does, mark === 'ok' ? blockedBy : undefined) ?? (reason === undefined ? null : {verdict: 'dropped', rule: null, reason}),
  };
}

/** Both backends translate the packet, each in its own way: which one does it first is not known, so that no share is. */
function contestedEntry(
  traceCase: TraceCase,
  probe: Probe,
  {should, does, beside}: ReturnType<TraceCase['walk']> & {readonly beside: ReturnType<NonNullable<TraceCase['beside']>>},
): EntryTrace {
  const {backend, outcome} = beside;
  const ends = [...outcome.destinations.keys()];
  const all = new Map([...outcome.destinations, ...does.destinations]);
  const endpoints = [...new Set([...should.destinations.keys(), ...all.keys()])].sort().map((hostPort): EndpointTrace => {
    const endpoint = traceEndpoint(traceCase, hostPort, should.destinations.get(hostPort), all.get(hostPort));
    return {...endpoint, mark: endpoint.mark === 'ok' ? 'wrong' : endpoint.mark, share: all.has(hostPort) ? null : 0};
  });
  const what = ends.length === 0 ? 'refuses or drops it' : `sends it to ${someOf(ends, {max: 3})}`;
  const reason = `iptables-${backend} ${what}, and the backend whose hook runs first decides`;
  const end = {verdict: 'undecided', rule: null, reason} as const;
  const steps = traceCase.stepsOf(does.outcomes[0]?.path ?? []);
  return {entry: probe.entry, from: sourceNames[probe.source.kind], mark: 'wrong', steps, endpoints, end};
}

/** Why the kernel loses packets that the rules send to an endpoint; empty if it does not, or if that is not known. */
function lossTo(hostPort: string, {item, context, isSentByIpvs}: TraceCase, {packet}: Probe): readonly [string, string][] {
  const endpoint = item.all.find(other => other.hostPort === hostPort);
  const destination = endpoint === undefined ? null : parseAddress(endpoint.address);
  if (endpoint === undefined || destination === null) return [];
  const {facts} = context;
  const environment = environmentOf(facts);
  // Interfaces may not have been read. No pod has an address of the pod network that is the node's own.
  const isPods = endpoint.nodeName !== facts.name || holds(podsHere(facts, destination.family), destination.value);
  if (environment.isLocal(destination) !== false || !(facts.allAddresses || isPods)) return [];
  const {port} = packet;
  const inInterface = packet.inInterface ?? environment.arrivesBy?.(packet, environment) ?? null;
  const obstacle = kernelObstacle(facts);
  const sent = {...packet, inInterface, destination, port: endpoint.port};
  const replies = {...sent, virtual: {destination: packet.destination, port}};
  const isForwarded = packet.origin !== 'node' && (isSentByIpvs === true || endpoint.nodeName === facts.name);
  const isOwn = packet.origin === 'node' && environment.isLocal(packet.destination) === false;
  const refused = isOwn ? ownObstacle(facts)(packet) : null;
  const reason = refused ?? (isSentByIpvs ? null : obstacle(sent, environment)) ?? (isForwarded ? obstacle(replies, environment) : null);
  return reason === null ? [] : [[hostPort, reason]];
}

function entryMark(should: PathOutcome, does: PathOutcome): Mark {
  if (isSameOutcome(should, does)) return 'ok';
  return should.destinations.size > 0 && does.destinations.size === 0 ? 'missing' : 'wrong';
}

function traceEndpoint(
  {item, pickOf, rewriteOf}: TraceCase,
  hostPort: string,
  should: Share | undefined,
  does: Share | undefined,
): EndpointTrace {
  const known = item.all.find(endpoint => endpoint.hostPort === hostPort);
  const mark: Mark =
    does === undefined
      ? 'missing'
      : should === undefined
        ? 'stale'
        : Math.abs(should.probability - does.probability) > 1e-4 || should.masquerade !== does.masquerade
          ? 'wrong'
          : 'ok';
  return {
    hostPort,
    mark,
    share: does?.probability ?? 0,
    expectedShare: should?.probability ?? null,
    masquerade: does?.masquerade ?? false,
    pod: known === undefined ? null : podOf(known),
    nodeName: known?.nodeName ?? null,
    state: known === undefined ? null : known.ready ? 'ready' : known.terminating ? 'terminating' : 'not ready',
    pick: does === undefined ? null : pickOf(does.path),
    rewrite: does === undefined ? null : rewriteOf(does.path),
  };
}

/** Why kube-proxy itself drops packets to an entry of a Service with endpoints. */
function localPolicy({internalPolicyLocal, externalPolicyLocal}: ServicePort, {entry}: Probe): string | undefined {
  const [policy, isLocal] =
    entry.kind === 'clusterIP' ? ['internalTrafficPolicy', internalPolicyLocal] : ['externalTrafficPolicy', externalPolicyLocal];
  return isLocal ? `${policy} is Local, and no endpoint is on this node` : undefined;
}

function endOf(does: PathOutcome, droppedBy: string | undefined): EntryTrace['end'] {
  const end = does.outcomes.find(({verdict, destination}) => verdict !== 'accept' || destination === null);
  if (end === undefined) return null;
  if (end.policy !== undefined) return {verdict: 'dropped', rule: null, reason: `by the policy of ${end.policy}`};
  const reason = end.reason ?? (end.verdict === 'drop' ? droppedBy : undefined);
  return {verdict: verdictNames[end.verdict], rule: end.verdict === 'accept' ? null : (end.path.at(-1) ?? null), reason};
}
