import {changedWhileLooking, gracePeriod} from '../checks/st904-changed-while-looking.ts';
import type {Diagnosis} from '../diagnosis/diagnosis.ts';
import {toFinding} from '../diagnosis/to-finding.ts';
import type {Finding} from '../model/finding.ts';
import {identityOf} from '../model/findings/finding-identity.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import type {Clock} from './clock.ts';
import {unlessInterrupted} from './interruption.ts';
import {ServiceHistory} from './service-history.ts';

export interface RecheckInput {
  readonly diagnosis: Diagnosis;
  /** Reads the API objects again, as far as they can have changed. */
  readonly readAgain: () => Promise<ApiObjects>;
  /** When the API was read, in milliseconds since 1970. */
  readonly readAt: number;
  /** When a Service was last seen to change, where somebody keeps watching; 0 where it was not. */
  readonly seenToChange?: (service: string) => number;
  /** When the reading of each node began. */
  readonly nodeReadAt: ReadonlyMap<string, number>;
  /** Reads these nodes again and judges them. */
  readonly readNodes: (names: readonly string[]) => Promise<void>;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** How long kube-proxy may take to follow a change, in milliseconds. */
  readonly gracePeriodMs?: number;
  readonly say: (text: string) => void;
}

/**
 * Looks again at what may be a matter of timing before it is called a finding: the API is read once more, and where a Service changed
 * meanwhile, or too shortly before a node was read for its kube-proxy to have followed, the node is read and judged again. What is
 * then found is a finding. Findings by a part of the Services only are judged again by all of them. Resolves to the findings that
 * came and went in every look; what is not in it stands.
 */
export async function recheck(look: RecheckInput): Promise<readonly Finding[]> {
  const {diagnosis, clock, gracePeriodMs = gracePeriod * 1000, seenToChange = () => 0} = look;
  const history = new ServiceHistory(diagnosis.api, look.readAt);
  const stableSince = (finding: Finding) => Math.max(history.stableSince(keyOf(finding)), seenToChange(keyOf(finding)));
  let firstFound: ReadonlyMap<string, number> = new Map();
  for (let looks = 1; ; looks++) {
    const found = findingsOfServices(look);
    if (found.length === 0) return [];
    const known = firstFound;
    firstFound = new Map(found.map(finding => [identityOf(finding), known.get(identityOf(finding)) ?? readTime(look, finding)] as const));
    const objects = await look.readAgain();
    history.update(objects, clock.now());
    const widened = diagnosis.api.namespaces !== undefined && objects.namespaces === undefined;
    const isYoung = (finding: Finding): boolean => {
      const since = Math.min(stableSince(finding), firstFound.get(identityOf(finding)) ?? Infinity);
      return readTime(look, finding) - since < gracePeriodMs;
    };
    const doubtful = found.filter(isYoung);
    if (doubtful.length === 0 && !widened) return [];
    if (looks === maxChecks) return doubtful;
    const pause = Math.max(0, ...doubtful.map(finding => stableSince(finding) + gracePeriodMs - clock.now()));
    await wait(Math.min(pause, gracePeriodMs), look);
    diagnosis.renew(pause > 0 ? await look.readAgain() : objects);
    await look.readNodes(namesOf(widened ? found : doubtful));
  }
}

const maxChecks = 4;

/** Of the nodes that were judged: errors and warnings about what is programmed for a Service. */
function findingsOfServices({diagnosis, nodeReadAt}: RecheckInput): readonly NodeFinding[] {
  return [...nodeReadAt.keys()]
    .flatMap(node => diagnosis.findingsOn(node))
    .filter(
      (finding): finding is NodeFinding => /^ST2|^ST508/.test(finding.code) && finding.severity !== 'info' && finding.service !== undefined,
    );
}

type NodeFinding = Finding & Required<Pick<Finding, 'node' | 'service'>>;

function keyOf({service}: Finding): string {
  return `${service?.namespace}/${service?.name}`;
}

function readTime({nodeReadAt}: RecheckInput, {node}: Finding): number {
  return nodeReadAt.get(node ?? '') ?? 0;
}

function namesOf(findings: readonly Finding[]): readonly string[] {
  return [...new Set(findings.flatMap(({node}) => node ?? []))].sort();
}

async function wait(milliseconds: number, {say, signal, clock}: RecheckInput): Promise<void> {
  if (milliseconds <= 0) return;
  say('waiting for kube-proxy to follow the latest changes');
  await unlessInterrupted(clock.sleep(milliseconds, signal), signal);
}

/** What came and went in every look is not known to be wrong: ST904 takes its place. */
export function retract(doubtful: readonly Finding[], diagnosis: Diagnosis): void {
  const identities = new Set(doubtful.map(identityOf));
  for (const node of namesOf(doubtful)) {
    const services = new Map(doubtful.filter(finding => finding.node === node).map(finding => [keyOf(finding), finding]));
    const said = [...services].map(([key, {service}]) =>
      toFinding(changedWhileLooking, {
        node,
        ...(service === undefined ? {} : {service}),
        message: `${key} kept changing while ${node} was looked at, ${maxChecks} times: what differs there may be only that`,
      }),
    );
    diagnosis.revise(node, findings => [...findings.filter(finding => !identities.has(identityOf(finding))), ...said]);
  }
}
