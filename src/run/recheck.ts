import {changedWhileLooking, gracePeriod} from '../checks/st904-changed-while-looking.ts';
import type {Diagnosis} from '../diagnosis/diagnosis.ts';
import {toFinding} from '../diagnosis/to-finding.ts';
import type {Finding} from '../model/finding.ts';
import {identityOf} from '../model/findings/finding-identity.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {namespacedName} from '../model/text/namespaced-name.ts';
import type {Clock} from './clock.ts';
import {unlessInterrupted} from './interruption.ts';
import type {ServiceHistory} from './service-history.ts';

interface RecheckInput {
  readonly diagnosis: Diagnosis;
  /** Reads the API objects again, as far as they can have changed. */
  readonly readAgain: () => Promise<ApiObjects>;
  /** Takes what was read again into the history. */
  readonly take: (objects: ApiObjects) => Promise<void>;
  /** The states of the Services while nodes are read. */
  readonly history: Pick<ServiceHistory, 'knownSince' | 'hasChanged' | 'partlyKnown'>;
  /** When the reading of each node began. */
  readonly nodeReadAt: ReadonlyMap<string, number>;
  /** Evaluates these nodes again, with the states that are known now: the dumps that were kept, others are read again. */
  readonly evaluateAgain: (names: readonly string[]) => Promise<void>;
  /** Reads these nodes again and evaluates them. */
  readonly readNodes: (names: readonly string[]) => Promise<void>;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** How long kube-proxy may take to follow a change, in milliseconds. */
  readonly gracePeriodMs?: number;
  readonly say: (text: string) => void;
}

/**
 * Makes sure of what was found. The API is read once more, and the nodes are evaluated again by all states that are known now. What
 * is found then stands, unless a state is not known that the node may have: of the time before the first reading, or between two
 * polls. Then the node is read again until all states are known that it may have. Resolves to what cannot be told in the end.
 */
export async function recheck(input: RecheckInput): Promise<readonly Finding[]> {
  const {diagnosis, clock, gracePeriodMs = gracePeriod * 1000} = input;
  const reads = new Map<string, number>();
  for (let rounds = 0; ; rounds++) {
    if (suspectsOf(input).length === 0) return [];
    const objects = await input.readAgain();
    await input.take(objects);
    diagnosis.renew(objects);
    await input.evaluateAgain(namesOf(suspectsOf(input)));
    const doubts = suspectsOf(input).flatMap(finding => {
      const doubt = doubtOf(finding, {input, gracePeriodMs, reads: reads.get(finding.node) ?? 0});
      return doubt === null ? [] : [{finding, ...doubt}];
    });
    if (doubts.length === 0) return [];
    const findings = doubts.map(({finding}) => finding);
    if (rounds === maxRounds) return doubts.flatMap(({finding, isUnknown}) => (isUnknown ? [finding] : []));
    const settledAt = Math.max(...doubts.map(doubt => doubt.settledAt));
    await wait(
      Math.min(
        Math.max(settledAt - clock.now(), minPause),
        minPause * (doubts.some(({isMoving}) => isMoving) ? 2 : 4) ** rounds,
        gracePeriodMs,
      ),
      input,
    );
    for (const name of namesOf(findings)) reads.set(name, (reads.get(name) ?? 0) + 1);
    await input.readNodes(namesOf(findings));
  }
}

/** kube-proxy writes its rules no more often by default. In milliseconds. */
const minPause = 1000;
const maxRounds = 6;

interface Doubt {
  /** When all states will be known that a node read then may have. */
  readonly settledAt: number;
  /** Not all of them are known now. */
  readonly isUnknown: boolean;
  /** It changes now: soon the node will have a state that is known. */
  readonly isMoving: boolean;
}

interface DoubtInput {
  readonly input: RecheckInput;
  readonly gracePeriodMs: number;
  /** How often the node was read again. */
  readonly reads: number;
}

/** Null where a finding stands. */
function doubtOf(finding: NodeFinding, {input: {history, nodeReadAt}, gracePeriodMs, reads}: DoubtInput): Doubt | null {
  const start = (nodeReadAt.get(finding.node) ?? 0) - gracePeriodMs;
  const services = finding.service === undefined ? history.partlyKnown : [keyOf(finding)];
  const knownSince = Math.max(0, ...services.map(service => history.knownSince(service)));
  const isMoving = services.some(service => history.hasChanged(service, start));
  if (knownSince > start) return {settledAt: knownSince + gracePeriodMs, isUnknown: true, isMoving};
  // A dump can show one table before kube-proxy's change and another one after it.
  return isMoving && reads === 0 ? {settledAt: 0, isUnknown: false, isMoving} : null;
}

type NodeFinding = Finding & Required<Pick<Finding, 'node'>>;

/** Of the nodes that were evaluated: errors and warnings that a late kube-proxy can cause. */
function suspectsOf({diagnosis, nodeReadAt}: RecheckInput): readonly NodeFinding[] {
  return [...nodeReadAt.keys()]
    .flatMap(node => diagnosis.findingsOn(node))
    .filter((finding): finding is NodeFinding => suspects.test(finding.code) && finding.severity !== 'info' && finding.node !== undefined);
}

const suspects = /^ST2|^ST305$|^ST50[4789]$/;

function keyOf({service}: Finding): string {
  return service === undefined ? '' : namespacedName(service);
}

function namesOf(findings: readonly Finding[]): readonly string[] {
  return [...new Set(findings.flatMap(({node}) => node ?? []))].sort();
}

async function wait(milliseconds: number, {say, signal, clock}: RecheckInput): Promise<void> {
  if (milliseconds <= 0) return;
  say('waiting for kube-proxy to follow the latest changes');
  await unlessInterrupted(clock.sleep(milliseconds, signal), signal);
}

/** What may be a matter of timing is not known to be wrong: ST904 takes the place of all that was found of the Service on the node. */
export function retract(doubtful: readonly Finding[], diagnosis: Diagnosis): void {
  const identities = new Set(doubtful.map(identityOf));
  for (const node of namesOf(doubtful)) {
    const own = doubtful.filter(finding => finding.node === node);
    const services = new Map(own.flatMap(({service}) => (service === undefined ? [] : [[namespacedName(service), service] as const])));
    const told = [...services].map(([key, service]) =>
      toFinding(changedWhileLooking, {
        ...{node, service},
        message: `${key} kept changing while ${node} was read, and not all of its states are known: what differs there may be only that`,
      }),
    );
    const isDoubtful = (finding: Finding): boolean =>
      identities.has(identityOf(finding)) ||
      (/^ST2|^ST508/.test(finding.code) && finding.service !== undefined && services.has(keyOf(finding)));
    diagnosis.revise(node, findings => [...findings.filter(finding => !isDoubtful(finding)), ...told]);
  }
}
