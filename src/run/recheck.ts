import {largest} from '../model/lists.ts';
import {isPolicyChain} from '../analyze/third-party/iptables-rules.ts';
import {changedWhileLooking} from '../checks/unread.ts';
import {gracePeriod} from '../model/state-history.ts';
import type {OpenDiagnosis} from '../diagnosis/diagnose-node.ts';
import {toFinding} from '../diagnosis/to-finding.ts';
import {ciliumPod} from '../expect/cilium/cilium-node.ts';
import {type Finding, identityOf} from '../model/finding.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {namespacedName} from '../model/text.ts';
import type {Clock} from './clock.ts';
import {unlessAborted} from '../collect/unless-aborted.ts';
import type {ServiceHistory} from './service-history.ts';

interface RecheckInput {
  readonly diagnosis: OpenDiagnosis;
  /** Reads the API objects again, as far as they can have changed. */
  readonly readAgain: () => Promise<ApiObjects>;
  /** Adds the objects just read to the history. */
  readonly take: (objects: ApiObjects) => Promise<void>;
  /** Asks for the states of the Services from a time on that is before they were first read; the history has them then if it is told them. */
  readonly recall?: (since: number) => Promise<void>;
  /** The states of the Services while nodes are read. */
  readonly history: Pick<ServiceHistory, 'knownSince' | 'hasChanged' | 'partlyKnown'>;
  /** When the reading of each node began. */
  readonly nodeReadAt: ReadonlyMap<string, number>;
  /** Evaluates these nodes again with the states that are known now. Nodes whose dumps were not kept are read again. */
  readonly evaluateAgain: (names: readonly string[]) => Promise<void>;
  /** Reads these nodes again and evaluates them. */
  readonly readNodes: (names: readonly string[]) => Promise<void>;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** How long kube-proxy may take to apply a change, in milliseconds. */
  readonly gracePeriodMs?: number;
  /** The same for the kube-proxy of each node, where that is known. */
  readonly periods?: ReadonlyMap<string, number>;
  readonly say: (text: string) => void;
}

/**
 * Verifies findings that can be a matter of timing. Reads the API once more and evaluates the nodes again against all states that are known
 * now. A finding that remains stands, unless the node may have a state that is not known: one from before the first read, or between two
 * polls. In this case the node is read again until all states that it may have are known. Resolves to the nodes that stay undetermined.
 */
export async function recheck(input: RecheckInput): Promise<readonly Finding[]> {
  const {diagnosis, clock, nodeReadAt, gracePeriodMs = gracePeriod * 1000} = input;
  const reads = new Map<string, number>();
  /** What the reading before the last one showed of Cilium, by node. */
  const before = new Map<string, ReadonlySet<string>>();
  const state = (node: string) => ({input, gracePeriodMs, reads: reads.get(node) ?? 0, before: before.get(node)});
  for (let rounds = 0; ; rounds++) {
    const suspects = suspectsOf(input);
    if (suspects.length === 0) return [];
    const isUnknown = suspects.some(finding => doubtOf(finding, {input, gracePeriodMs, reads: 0, before: undefined})?.isUnknown);
    const start = -largest(suspects.map(({node}) => -(nodeReadAt.get(node) ?? Infinity))) - gracePeriodMs;
    const [objects] = await Promise.all([input.readAgain(), rounds === 0 && isUnknown ? input.recall?.(start) : null]);
    await input.take(objects);
    diagnosis.renew(objects);
    await input.evaluateAgain(namesOf(suspectsOf(input)));
    if (rounds === 0) await recallFurther(input, gracePeriodMs);
    const doubts = suspectsOf(input).flatMap(finding => {
      const doubt = doubtOf(finding, state(finding.node));
      return doubt === null ? [] : [{finding, ...doubt}];
    });
    if (doubts.length === 0) return [];
    const findings = doubts.map(({finding}) => finding);
    if (rounds === maxRounds) return doubts.flatMap(({finding, isUnknown}) => (isUnknown ? [finding] : []));
    const settledAt = largest(doubts.map(doubt => doubt.settledAt));
    const least = largest(doubts.map(doubt => doubt.notBefore ?? 0)) - clock.now();
    await wait(
      Math.max(
        least,
        Math.min(
          Math.max(settledAt - clock.now(), minPause),
          minPause * (doubts.some(({isMoving}) => isMoving) ? 2 : 4) ** rounds,
          gracePeriodMs,
        ),
      ),
      input,
    );
    for (const name of namesOf(findings)) {
      reads.set(name, (reads.get(name) ?? 0) + 1);
      before.set(name, new Set(suspectsOf(input).flatMap(finding => (finding.node === name ? differenceOf(finding) : []))));
    }
    await input.readNodes(namesOf(findings));
  }
}

/** Rules may be older than the grace period where kube-proxy is slow. What happened then costs watches of its own. */
async function recallFurther(input: RecheckInput, gracePeriodMs: number): Promise<void> {
  const {history, nodeReadAt, periods, recall, evaluateAgain} = input;
  const late = suspectsOf(input).flatMap(finding => {
    const period = finding.program === undefined ? (periods?.get(finding.node) ?? 0) : 0;
    const start = (nodeReadAt.get(finding.node) ?? 0) - period;
    return period > gracePeriodMs && knownSince(finding, history) > start ? [{finding, start}] : [];
  });
  if (recall === undefined || late.length === 0) return;
  await recall(-largest(late.map(({start}) => -start)));
  await evaluateAgain(namesOf(late.map(({finding}) => finding)));
}

/** From when on all states are known that a finding is about. */
function knownSince(finding: NodeFinding, history: RecheckInput['history']): number {
  return Math.max(0, largest(servicesOf(finding, history).map(service => history.knownSince(service))));
}

function servicesOf(finding: NodeFinding, {partlyKnown}: RecheckInput['history']): readonly string[] {
  return finding.service === undefined ? partlyKnown : [serviceOf(finding)];
}

/** kube-proxy's default minimum interval between two syncs. In milliseconds. */
const minPause = 1000;
const maxRounds = 6;

interface DoubtInput {
  readonly input: RecheckInput;
  readonly gracePeriodMs: number;
  /** How often the node was read again. */
  readonly reads: number;
  /** Differences of Cilium that the reading before this one showed; undefined after the first. */
  readonly before: ReadonlySet<string> | undefined;
}

/**
 * Null if a finding stands. `settledAt`: when all states of a node read at this time will be known. `isUnknown`: some of these states are
 * not known yet. `isMoving`: the Service is changing: the next state of the node will be a known one. `notBefore`: the earliest time of the
 * next reading.
 */
function doubtOf(finding: NodeFinding, {input: {diagnosis, history, nodeReadAt}, gracePeriodMs, reads, before}: DoubtInput) {
  const readAt = nodeReadAt.get(finding.node) ?? 0;
  if (finding.program !== undefined) {
    // Its tables are read one after another, and follow the API by steps: a difference has to be there twice.
    const notBefore = readAt + betweenReadings;
    if (before?.has(differenceOf(finding)) !== true) return {settledAt: notBefore, isUnknown: true, isMoving: true, notBefore};
    const settledAt = (readySince(diagnosis.api, finding.node) ?? 0) + agentSettling;
    if (settledAt > readAt) return {settledAt, isUnknown: true, isMoving: false, notBefore};
    if (finding.code.startsWith('ST8')) return null;
  }
  // The program that carries out NetworkPolicies is late by itself, and nothing tells when it has followed.
  if (isOfPolicies(finding))
    return reads > 0 ? null : {settledAt: readAt, isUnknown: false, isMoving: false, notBefore: readAt + betweenReadings};
  const start = readAt - gracePeriodMs;
  const isMoving = servicesOf(finding, history).some(service => history.hasChanged(service, start));
  const known = knownSince(finding, history);
  if (known > start) return {settledAt: known + gracePeriodMs, isUnknown: true, isMoving};
  // A dump can show one table before kube-proxy's change and another one after it.
  const torn = diagnosis.resultOf(finding.node)?.perhapsTorn ?? [];
  const isPerhapsTorn = isMoving && (finding.service === undefined || torn.includes(serviceOf(finding)));
  return isPerhapsTorn && reads < tornReadings ? {settledAt: 0, isUnknown: false, isMoving} : null;
}

/** As many dumps in a row may be torn where kube-proxy writes all the time on a busy node. */
const tornReadings = 2;

/** Between two readings of Cilium's tables or of the rules of NetworkPolicies, and from the start of an agent until it has written what it knows. In milliseconds. */
const betweenReadings = 2000;
const agentSettling = 60_000;

/** The same in two readings, if it is the same difference. One of the node as a whole lists what differs. */
function differenceOf(finding: Finding): string {
  return finding.service === undefined ? `${identityOf(finding)} ${finding.message}` : identityOf(finding);
}

/** When the Cilium agent of a node became ready, in milliseconds since 1970; null if that is not known. */
function readySince(api: ApiObjects, node: string): number | null {
  const ready = ciliumPod(api, node)?.status?.conditions?.find(({type, status}) => type === 'Ready' && status === 'True');
  const time = Date.parse(ready?.lastTransitionTime ?? '');
  return Number.isNaN(time) ? null : time;
}

type NodeFinding = Finding & Required<Pick<Finding, 'node'>>;

/** Of the evaluated nodes: errors and warnings that a lagging kube-proxy can cause, or another program that follows the API. */
function suspectsOf({diagnosis, nodeReadAt}: RecheckInput): readonly NodeFinding[] {
  return [...nodeReadAt.keys()]
    .flatMap(node => diagnosis.findingsOn(node))
    .filter((finding): finding is NodeFinding => finding.severity !== 'info' && finding.node !== undefined)
    .filter(finding => suspects.test(finding.code) || isOfPolicies(finding));
}

/** What rules of NetworkPolicies do to Services that no policy selects: they may be those of a policy that was deleted a moment ago. */
function isOfPolicies({code, actual}: Finding): boolean {
  return /^ST(?:303|40[12])$/.test(code) && actual?.some(({chain}) => isPolicyChain(chain)) === true;
}

const suspects = /^ST2|^ST30[45]$|^ST50[4789]$|^ST80[1-5]$/;

function serviceOf({service}: Finding): string {
  return service === undefined ? '' : namespacedName(service);
}

function namesOf(findings: readonly Finding[]): readonly string[] {
  return [...new Set(findings.flatMap(({node}) => node ?? []))].sort();
}

async function wait(milliseconds: number, {say, signal, clock}: RecheckInput): Promise<void> {
  if (milliseconds <= 0) return;
  say('waiting for the nodes to follow the latest changes');
  await unlessAborted(clock.sleep(milliseconds, signal), signal);
}

/** A finding that may be a matter of timing is not certain: ST904 replaces all findings of the Service on the node. */
export function retract(doubtful: readonly Finding[], diagnosis: OpenDiagnosis): void {
  const identities = new Set(doubtful.map(identityOf));
  for (const node of namesOf(doubtful)) {
    const own = doubtful.filter(finding => finding.node === node);
    const services = new Map(own.flatMap(({service}) => (service === undefined ? [] : [[namespacedName(service), service] as const])));
    const told = [...services].map(([key, service]) =>
      toFinding(changedWhileLooking, {
        node,
        service,
        message: `${key} kept changing while ${node} was read, and not all of its states are known: what differs there may be only that`,
      }),
    );
    if (own.some(({service}) => service === undefined)) {
      const what = own.some(({program}) => program !== undefined) ? `the tables of Cilium on ${node}` : `the Services and ${node}`;
      const message = `${what} kept changing while they were read: what differed in them may be only that`;
      told.push(toFinding(changedWhileLooking, {node, message}));
    }
    const isDoubtful = (finding: Finding): boolean =>
      identities.has(identityOf(finding)) ||
      (/^ST2|^ST508|^ST80[1-5]/.test(finding.code) && finding.service !== undefined && services.has(serviceOf(finding)));
    diagnosis.revise(node, findings => [...findings.filter(finding => !isDoubtful(finding)), ...told]);
  }
}
