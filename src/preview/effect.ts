import {near} from '../analyze/outcomes/path-outcome.ts';
import type {ServedPort} from '../expect/cluster/served-port.ts';
import type {PreviewEffect} from '../model/preview.ts';
import {joinHostPort} from '../model/virtual-server.ts';
import type {PreviewProbe} from './preview-probes.ts';
import type {SideOutcome, SideShare, WalkedSide} from './walk-side.ts';

/** The outcome of a probe on one side, as its sender sees it. */
export interface ProbeOutcome {
  readonly path: SideOutcome;
  /** Probability by endpoint. */
  readonly served: ReadonlyMap<string, SideShare>;
  /** The sender gets an error at once; also for a packet to the node itself, unless a process listens. */
  readonly refused: number;
  readonly unanswered: number;
  readonly undecided: number;
}

/** A probe that was walked on one side. `item` is the Service port there; null if that side does not have it. */
export function probeOutcome(
  side: WalkedSide,
  {packet, kind}: PreviewProbe,
  {path, item}: {readonly path: SideOutcome; readonly item: ServedPort | null},
): ProbeOutcome {
  const listened = kind === 'localhost' && path.passed > 0 && item !== null ? listenedEndpoints(side, item) : [];
  const served = new Map(path.destinations);
  for (const name of listened) served.set(name, {probability: path.passed / listened.length, masquerade: true});
  if (kind === 'health-check' && path.passed > 0)
    served.set(joinHostPort(packet.destination.text, packet.port), {probability: path.passed, masquerade: false});
  const passed = listened.length > 0 || kind === 'health-check' ? 0 : path.passed;
  const isLocal = side.local.addresses.includes(packet.destination.text) || kind === 'localhost';
  return {
    ...{path, served},
    refused: path.rejected + (isLocal ? passed : 0),
    unanswered: path.dropped + (isLocal ? 0 : passed),
    undecided: path.undecided,
  };
}

/** The endpoints that kube-proxy connects to from its own listener on the loopback address: none for UDP and SCTP. */
function listenedEndpoints({context}: WalkedSide, {port, endpoints}: ServedPort): readonly string[] {
  if (context.listensOnLocalhost !== true || port.protocol !== 'TCP') return [];
  return (port.externalPolicyLocal ? endpoints.local : endpoints.cluster).map(({hostPort}) => hostPort);
}

/** How the outcome of one packet changes; null if it does not. */
export function effectOf(before: ProbeOutcome, after: ProbeOutcome): PreviewEffect | null {
  if (!near(before.undecided, after.undecided)) return 'undetermined';
  const [was, is] = [total(before), total(after)];
  if (!near(was, is)) return is < was ? 'lost' : 'gained';
  if (was === 0) {
    if (near(before.refused, after.refused)) return null;
    return after.refused > before.refused ? 'refused' : 'unanswered';
  }
  if (!hasSameShares(before, after)) return 'shares';
  return [...before.served].some(([name, {masquerade}]) => after.served.get(name)?.masquerade !== masquerade) ? 'source-address' : null;
}

function total({served}: ProbeOutcome): number {
  return [...served.values()].reduce((sum, {probability}) => sum + probability, 0);
}

function hasSameShares(before: ProbeOutcome, after: ProbeOutcome): boolean {
  if (before.served.size !== after.served.size) return false;
  return [...before.served].every(([name, {probability}]) => near(after.served.get(name)?.probability ?? 0, probability));
}
