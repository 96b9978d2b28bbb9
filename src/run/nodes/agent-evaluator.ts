import {largest} from '../../model/lists.ts';
import pLimit from 'p-limit';
import type {AgentTokens, AgentPlace} from '../../collect/agents/agent-tokens.ts';
import {type AgentReply, askAgent} from '../../collect/agents/ask-agent.ts';
import type {KubeApi} from '../../collect/kube/kube-api.ts';
import type {OpenDiagnosis} from '../../diagnosis/diagnose-node.ts';
import type {NodeObject, ServiceObject, PodObject} from '../../model/api-objects.ts';
import {sliceService} from '../../model/endpoint.ts';
import {type AgentResult, maxAge, maxClockSkew, type SeenVersions} from '../../model/node-result.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName, someOf} from '../../model/text.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {EvaluatedNodes, type NodeEvaluator} from './evaluated-nodes.ts';
import {readAgents} from '../../collect/cluster/read-agent-pods.ts';
import {ClusterReader} from '../../collect/cluster/cluster-reader.ts';
import {agentPlace, type ParsedAgentsFlags} from '../open-cluster.ts';
import {chooseNodes, type NodeChoice} from '../scope/choose-nodes.ts';
import {nodeTimeout, type NodeSource, type ParsedTransportFlags} from './node-source.ts';

interface AgentCollection extends Pick<ClusterRun, 'signal' | 'progress' | 'clock'> {
  readonly api: KubeApi;
  readonly tokens: AgentTokens;
  readonly diagnosis: OpenDiagnosis;
  /** Lists the agents again. `objects` are the Nodes; null if they could not be read. */
  readonly find: (objects: readonly NodeObject[] | null) => Promise<AgentSource>;
  /** Wait for agents that checked their nodes before a requested Service changed. */
  readonly isPatient: boolean;
  /** See `FollowedStates`. */
  readonly notBefore?: number | undefined;
}

/**
 * Evaluates nodes by their agents' results. A result counts only if it is recent and covers the current Services; any other node is not
 * checked.
 */
export class AgentEvaluator implements NodeEvaluator {
  readonly pods = null;
  #source: AgentSource;
  readonly #collection: AgentCollection;
  readonly evaluated: EvaluatedNodes;

  constructor(source: AgentSource, collection: AgentCollection) {
    this.#source = source;
    this.#collection = collection;
    this.evaluated = new EvaluatedNodes(collection.diagnosis);
  }

  async findAgain(objects: readonly NodeObject[] | null): Promise<readonly string[]> {
    this.#source = await this.#collection.find(objects);
    return this.evaluated.follow(this.#source.names, objects);
  }

  async evaluate(names: readonly string[]): Promise<void> {
    const {signal, clock, progress, isPatient} = this.#collection;
    const begun = clock.now();
    let left = await this.#ask(names.filter(name => this.#source.names.includes(name)));
    while (isPatient && left.length > 0) {
      const patience = begun + largest(left.map(({patienceMs}) => patienceMs)) - clock.now();
      if (patience <= 0) return;
      progress.say(
        `waiting for the ${left.length === 1 ? 'agent' : 'agents'} of ${someOf(left.map(({name}) => name))} to check against the current Services`,
      );
      await unlessAborted(clock.sleep(Math.min(pace, patience), signal), signal);
      left = await this.#ask(left.map(({name}) => name));
    }
  }

  /** An agent evaluates its node against all states that it knows before it answers. */
  async evaluateAgain(): Promise<void> {}

  giveUp(reason: string): void {
    this.evaluated.giveUp(this.#source.names, reason);
  }

  /** Resolves to the nodes whose results do not cover the current Services. */
  async #ask(names: readonly string[]): Promise<readonly Behind[]> {
    const {diagnosis, progress, signal} = this.#collection;
    const needed = neededVersions(diagnosis.services, diagnosis.api);
    const limit = pLimit(this.#source.concurrency);
    let done = 0;
    const asked = names.map(name =>
      limit(async () => {
        signal.throwIfAborted();
        const behind = await this.#askOne(name, needed);
        progress.say(`agents: ${++done} of ${names.length} asked`);
        return behind;
      }),
    );
    const all = await unlessAborted(Promise.all(asked), signal);
    return all.flatMap(behind => behind ?? []);
  }

  async #askOne(name: string, needed: NeededVersions): Promise<Behind | null> {
    const {api, diagnosis, clock, notBefore = 0} = this.#collection;
    if (this.evaluated.isNamedOnly(name)) return null;
    const answered = await this.#answerOf(name);
    this.evaluated.note(name);
    this.evaluated.problemsOf.delete(name);
    if (answered.kind === 'none') return this.#unread(name, answered);
    const {result, now} = answered.answer;
    const unusable = whyUnusable(name, answered.answer) ?? whyOfAnotherTime(answered.answer, clock.now() - api.clockAheadMs);
    if (unusable !== null) return this.#unread(name, unusable);
    const behind = unseen(needed, result.seen);
    if (behind !== null) {
      const reason = `its agent checked it ${ageOf(answered.answer)} s ago, before ${behind} changed`;
      this.#unread(name, {reason, remedy: later});
      return {name, patienceMs: patienceFor(result)};
    }
    const readAt = clock.now() - (now - result.judgedAt);
    const {seconds, service} = result.report.lag ?? {seconds: 0};
    if (service !== undefined && readAt - seconds * 1000 < notBefore)
      return this.#unread(name, {reason: `by its agent, its rules for ${service} are ${seconds} s behind the API`, remedy: later});
    this.evaluated.readAt.set(name, readAt);
    this.evaluated.problemsOf.set(name, result.problems);
    diagnosis.addResult({report: result.report, findings: result.findings, proxy: result.proxy, traces: []});
    return null;
  }

  async #answerOf(name: string): Promise<AgentReply> {
    const {api, tokens, signal} = this.#collection;
    const {agents, place, timeoutMs, problems} = this.#source;
    if (agents === null)
      return {kind: 'none', reason: `the agents could not be listed: ${problems[0]?.message ?? ''}`, remedy: problems[0]?.remedy ?? ''};
    const pod = agents.get(name);
    if (pod === undefined) {
      const remedy =
        'Have the DaemonSet of the agents run on this node too, say where they are (--agents-namespace, --agents-selector), or leave out --agents.';
      return {kind: 'none', reason: `there is no agent on it (no pod with ${place.selector} in namespace ${place.namespace})`, remedy};
    }
    const timer = new AbortController();
    const timeout = setTimeout(() => timer.abort(new Error(`no answer within ${timeoutMs / 1000} s`)), timeoutMs);
    try {
      return await askAgent(pod, {api, tokens, signal: AbortSignal.any([signal, timer.signal])});
    } finally {
      clearTimeout(timeout);
    }
  }

  #unread(name: string, {reason, remedy}: {readonly reason: string; readonly remedy: string}): null {
    this.evaluated.readAt.delete(name);
    this.#collection.diagnosis.addUnread({name, reason, remedy});
    return null;
  }
}

/** A node whose agent has not seen a change yet. */
interface Behind {
  readonly name: string;
  /** How long the next check may take to finish, in milliseconds. */
  readonly patienceMs: number;
}

type ReceivedAnswer = Extract<AgentReply, {readonly kind: 'answer'}>['answer'];

const later =
  'Try again after the next check of the agent, wait for it with --wait, or check whether its watch of the API works (kubectl logs).';

/** Why an answer cannot be used, by the agent's own clock, because clocks differ a little. */
function whyUnusable(name: string, answer: ReceivedAnswer): {readonly reason: string; readonly remedy: string} | null {
  const {report, intervalSeconds, judgedAt, apiCurrentAt} = answer.result;
  const why = answer.trouble === null ? '' : `: ${answer.trouble}`;
  const remedy = 'See what keeps the agent (kubectl logs), or delete its pod so that a new one takes its place.';
  if (report.name !== name)
    return {
      reason: `its agent says that it is ${report.name}`,
      remedy: 'Start each agent with the name of its own Node (--node, NODE_NAME).',
    };
  const age = ageOf(answer);
  if (age > maxAge(answer.result) || age < -maxClockSkew)
    return {reason: `its agent checked it ${age} s ago, and should do so every ${intervalSeconds} s${why}`, remedy};
  const silence = Math.round((judgedAt - apiCurrentAt) / 1000);
  if (silence > maxSilence) return {reason: `its agent checked it against API objects that were ${silence} s old`, remedy};
  return null;
}

/** An answer that was kept for long has times that fit each other, and not the API server's clock (`now`). */
function whyOfAnotherTime(answer: ReceivedAnswer, now: number): {readonly reason: string; readonly remedy: string} | null {
  const seconds = Math.round((now - answer.now) / 1000);
  if (Math.abs(seconds) <= maxDifference) return null;
  const reason = `its agent answers with a time that is ${Math.abs(seconds)} s ${seconds > 0 ? 'before' : 'after'} that of the API server`;
  return {reason, remedy: 'Set the clock of the node. If it is right, the answer is an old one: see who serves it in place of the agent.'};
}

/** In seconds: more than clocks differ, and an answer takes. */
const maxDifference = 300;

/** In seconds. */
function ageOf({now, result: {judgedAt}}: ReceivedAnswer): number {
  return Math.round((now - judgedAt) / 1000);
}

/** Until the interval is over, including one repeated check. */
function patienceFor({intervalSeconds, seconds}: AgentResult): number {
  return Math.min(intervalSeconds * 1.1 + 2 * seconds + 20, maxPatience) * 1000;
}

/** In seconds. */
const [maxSilence, maxPatience] = [240, 300];

/** Between two requests to an agent, in milliseconds. */
const pace = 1000;

/** A Service or slice, and its resourceVersion. */
interface Newest {
  readonly service: string;
  readonly resourceVersion: string;
}

/** The one that changed last among the requested Services and their slices; null if there are none. */
interface NeededVersions {
  readonly services: Newest | null;
  readonly endpointSlices: Newest | null;
}

function neededVersions(services: readonly ServiceObject[], {endpointSlices}: Pick<ApiObjects, 'endpointSlices'>): NeededVersions {
  const asked = new Set(services.map(({metadata}) => namespacedName(metadata)));
  const slices = (endpointSlices ?? []).flatMap(slice => {
    const service = sliceService(slice);
    return service !== null && asked.has(service) ? [{service, resourceVersion: slice.metadata.resourceVersion ?? ''}] : [];
  });
  return {
    services: newest(services.map(({metadata}) => ({service: namespacedName(metadata), resourceVersion: metadata.resourceVersion ?? ''}))),
    endpointSlices: newest(slices),
  };
}

/**
 * The Service that changed after the last version seen; null if all changes were seen. A client that has seen a version has seen all
 * earlier ones.
 */
function unseen(needed: NeededVersions, seen: SeenVersions): string | null {
  const {services, endpointSlices} = needed;
  if (services !== null && !reaches(seen.services, services.resourceVersion)) return services.service;
  if (endpointSlices !== null && !reaches(seen.endpointSlices, endpointSlices.resourceVersion)) return endpointSlices.service;
  return null;
}

function newest(all: readonly Newest[]): Newest | null {
  let latest: Newest | null = null;
  for (const one of all) if (latest === null || !reaches(latest.resourceVersion, one.resourceVersion)) latest = one;
  return latest;
}

/**
 * resourceVersions are increasing decimal numbers, comparable within one kind (KEP-5504). Any other text can only be compared for equality.
 */
function reaches(version: string, other: string): boolean {
  if (version === other) return true;
  return /^\d+$/.test(version) && /^\d+$/.test(other) && BigInt(version) >= BigInt(other);
}

/** The nodes whose agents are asked. */
interface AgentSource extends Pick<NodeSource, 'concurrency' | 'timeoutMs' | 'sample' | 'problems'> {
  /** In order. */
  readonly names: readonly string[];
  readonly place: AgentPlace;
  /** By node name; null if the agents' pods could not be listed. */
  readonly agents: ReadonlyMap<string, PodObject> | null;
  /** No pod is needed to find kube-proxy's settings: the agent knows them. */
  readonly pods: null;
}

/** The chosen nodes and their agents. Without permission to list Nodes, the nodes are those that agents run on, or `--node`. */
export async function agentSource(
  flags: ParsedAgentsFlags & NodeChoice & Pick<ParsedTransportFlags, 'concurrency' | 'node-timeout'>,
  {api, objects, anyFailure}: {readonly api: KubeApi; readonly objects: readonly NodeObject[] | null; readonly anyFailure?: boolean},
): Promise<AgentSource> {
  const timeoutMs = nodeTimeout(flags['node-timeout']);
  const place = agentPlace(flags);
  const reader = new ClusterReader(api, {anyFailure});
  const agents = await readAgents(reader, place);
  const known = objects ?? [...new Set(flags.node ?? agents?.keys() ?? [])].map(name => ({metadata: {name}}));
  const {names, ...sample} = chooseNodes(flags, known);
  return {names, place, agents, concurrency: flags.concurrency, timeoutMs, ...sample, problems: reader.problems, pods: null};
}
