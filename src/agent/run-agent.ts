import process from 'node:process';
import {localTransport} from '../collect/transports/local.ts';
import {ClusterWatch} from '../collect/watch/cluster-watch.ts';
import {maxAge, maxClockSkew, type AgentResult} from '../model/node-result.ts';
import type {Report} from '../model/report.ts';
import {errorText} from '../model/text.ts';
import {metric, prometheus, sample} from '../render/ci/prometheus.ts';
import {nodeResultText} from '../render/json.ts';
import type {HttpAnswer, Pages, ListenAddress} from './agent-server.ts';
import type {EndpointCount, CountedEndpoints} from './endpoint-connections.ts';
import {type CheckResult, SelfCheck, type SelfCheckOptions} from './self-check.ts';
import {serveAgent, servingMetrics, type ServingMode, type ServingState} from './serve-agent.ts';
import {wrongUse} from '../run/wrong-use.ts';
import type {Clock} from '../run/clock.ts';

interface AgentRun extends Pick<SelfCheckOptions, 'api' | 'node' | 'intervalMs' | 'gracePeriodMs' | 'timeoutMs' | 'options' | 'clock'> {
  readonly listen: ListenAddress;
  readonly serving: ServingMode;
  readonly sudo: boolean;
  readonly countsConnections: boolean;
  readonly signal: AbortSignal;
  /** Called with the port once the agent listens, and with how it serves, in words. */
  readonly onListening: (port: number, how: string) => void;
  /** Called when the certificate or the reviews fail, and when they work again. */
  readonly onTrouble: (text: string) => void;
  readonly onCheck: (check: CheckResult, at: number) => void;
}

/**
 * Watches the API, checks the node and answers, until the signal is aborted. Throws a CLIError (exit 2) if it cannot listen or its
 * certificate cannot be used.
 */
export async function runAgent(run: AgentRun): Promise<void> {
  const {api, node, intervalMs, gracePeriodMs, clock, signal} = run;
  const watch = new ClusterWatch(api, {onChange: () => agent.noteChange()});
  const transport = localTransport({sudo: run.sudo, onlyNode: true});
  const evaluate = new SelfCheck({...run, watch, transport});
  const startDelayMs = Math.min(intervalMs / 4, maxStartDelay);
  const agent: Agent = new Agent({evaluate, clock, intervalMs, gracePeriodMs, startDelayMs, onCheck: run.onCheck});
  const pagesWith = (state: () => ServingState) => pagesOf(agent, watch, run, state);
  const {listen, serving: mode, onTrouble} = run;
  const served = await serveAgent({api, node, listen, mode, clock, pagesWith, onTrouble}).catch((error: unknown) => {
    throw wrongUse(`cannot serve: ${errorText(error)}`);
  });
  const {server, description} = served;
  const address = server.address();
  run.onListening(typeof address === 'object' && address !== null ? address.port : 0, description);
  try {
    await Promise.race([agent.run(signal), watch.run(signal), served.run(signal)]);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** In milliseconds. */
const maxStartDelay = 15_000;

function pagesOf(agent: Agent, watch: ClusterWatch, run: AgentRun, state: () => ServingState): Pages {
  const {node, intervalMs, timeoutMs, options, clock, serving} = run;
  const said = (why: string | null) => ({
    status: why === null ? 200 : 503,
    type: 'text/plain; charset=utf-8' as const,
    text: `${why ?? 'ok'}\n`,
  });
  const metrics = (): HttpAnswer => ({
    status: 200,
    type: 'text/plain; version=0.0.4; charset=utf-8',
    text: agentMetrics({state: agent.state, watch, serving: state(), node, intervalMs, toolVersion: options.toolVersion, now: clock.now()}),
  });
  const result = (): HttpAnswer => {
    const {result: latest, trouble} = agent.state;
    if (latest === null) return said(whyOutdated(agent.state, clock.now()));
    return {status: 200, type: 'application/json', text: nodeResultText(latest, clock.now(), trouble)};
  };
  // These pages need no token, so they give no reason: it can name objects of the API.
  const openly = (why: string | null) => said(why === null || serving.kind === 'http' ? why : 'not ok');
  return {
    '/metrics': {isOpen: false, page: metrics},
    '/result': {isOpen: false, page: result},
    '/healthz': {isOpen: true, page: () => openly(whyStuck(agent, {now: clock.now(), intervalMs, timeoutMs}))},
    '/readyz': {isOpen: true, page: () => openly(whyOutdated(agent.state, clock.now()))},
  };
}

/** Whether the agent has been stuck for so long that only a restart helps. An unresponsive API server does not count. */
function whyStuck(
  {state: {checkedAt}}: Agent,
  {now, intervalMs, timeoutMs}: {readonly now: number; readonly intervalMs: number; readonly timeoutMs: number},
): string | null {
  const seconds = Math.round((now - checkedAt) / 1000);
  return seconds * 1000 < maxCheckTime + 6 * timeoutMs + 2 * intervalMs ? null : `the latest check ended ${seconds} s ago`;
}

/** In milliseconds: the longest pause, in addition to a few reads of the node, which have timeouts of their own. */
const maxCheckTime = 600_000;

interface MetricsInput {
  readonly state: AgentState;
  readonly watch: ClusterWatch;
  readonly serving: ServingState;
  readonly node: string;
  readonly intervalMs: number;
  readonly toolVersion: string;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/**
 * The findings of the node, named as in `check -o prometheus`, and the state of the agent itself.
 * @internal
 */
export function agentMetrics(input: MetricsInput): string {
  return `${[...nodeMetrics(input), ...checkMetrics(input), ...connectionMetrics(input), ...watchMetrics(input), ...servingMetrics(input.serving), ...processMetrics()].filter(text => text !== '').join('\n')}\n`;
}

function nodeMetrics({state, node, toolVersion, now}: MetricsInput): readonly string[] {
  const {report} = state;
  if (report === null)
    return [
      metric('svc_trace_node_checked', 'Whether the rules of a node were checked (1) or not (0).', [sample({node}, 0)]),
      metric('svc_trace_build_info', 'The version of svc-trace.', [sample({version: toolVersion}, 1)]),
    ];
  return [prometheus(whyOutdated(state, now) === null ? report : asUnread(report), plain)];
}

/** The findings are outdated. */
function asUnread(report: Report): Report {
  const nodes = report.nodes.map(node => ({...node, status: node.status === 'checked' ? ('unread' as const) : node.status}));
  return {...report, nodes, findings: [], summary: {...report.summary, verdict: 'incomplete', nodesChecked: 0, nodesUnread: nodes.length}};
}

const plain = {color: false, width: Infinity, quiet: false, verbose: false, failOn: 'error'} as const;

function checkMetrics({state: {result, checks, failedChecks}, intervalMs}: MetricsInput): readonly string[] {
  const ofResult = (value: number | undefined) => (value === undefined ? [] : [sample({}, value)]);
  const judgedAt = result === null ? undefined : result.judgedAt / 1000;
  return [
    metric(
      'svc_trace_agent_last_judged_timestamp_seconds',
      'When the reading of the node began that the findings are of.',
      ofResult(judgedAt),
    ),
    metric(
      'svc_trace_agent_judging_duration_seconds',
      'How long the latest check took, including repeated reads.',
      ofResult(result?.seconds),
    ),
    metric('svc_trace_agent_interval_seconds', 'How often the node is checked if nothing changes.', ofResult(intervalMs / 1000)),
    metric('svc_trace_agent_looks_total', 'Checks of the node.', ofResult(checks)),
    metric('svc_trace_agent_failed_looks_total', 'Checks that failed or could not read the node.', ofResult(failedChecks)),
  ];
}

/** Counters that kube-proxy resets, as a restart does: Prometheus knows this of counters. */
function connectionMetrics({state: {connections}, node}: MetricsInput): readonly string[] {
  if (connections === undefined) return [];
  const {counts, problem} = connections;
  const labelsOf = ({service, port, protocol, endpoint}: EndpointCount) => ({
    node,
    namespace: service.namespace,
    service: service.name,
    port,
    protocol,
    endpoint,
  });
  return [
    metric('svc_trace_agent_connections_counted', 'Whether the connections of endpoints could be counted (1) or not (0).', [
      sample(problem === null ? {} : {reason: problem}, problem === null ? 1 : 0),
    ]),
    metric(
      'svc_trace_endpoint_connections_total',
      'New connections that the node gave to an endpoint since kube-proxy last wrote its rules.',
      counts.map(count => sample(labelsOf(count), count.connections)),
    ),
  ];
}

function watchMetrics({watch}: MetricsInput): readonly string[] {
  const each = (value: (one: ClusterWatch['watches'][number]) => number) => watch.watches.map(one => sample({kind: one.kind}, value(one)));
  const restarts = watch.watches.flatMap(({kind, restarts: by}) =>
    Object.entries(by).map(([reason, count]) => sample({kind, reason}, count)),
  );
  return [
    metric(
      'svc_trace_agent_objects',
      'API objects that are held.',
      each(({objects}) => objects.size),
    ),
    metric(
      'svc_trace_agent_lists_total',
      'How often all objects of a kind were read.',
      each(({lists}) => lists),
    ),
    metric('svc_trace_agent_watch_restarts_total', 'Restarts of watches, by reason.', restarts),
    metric(
      'svc_trace_agent_api_current_timestamp_seconds',
      'When the API server last gave a sign of life on a watch.',
      each(({currentAt}) => currentAt / 1000),
    ),
  ];
}

function processMetrics(): readonly string[] {
  const {user, system} = process.cpuUsage();
  return [
    metric('process_cpu_seconds_total', 'CPU time, user and system.', [sample({}, (user + system) / 1e6)]),
    metric('process_resident_memory_bytes', 'Memory in use.', [sample({}, process.memoryUsage.rss())]),
  ];
}

/**
 * Why an agent's result is outdated; null if it is not. `now` is in milliseconds since 1970. `check --agents` applies the same rule.
 * @internal
 */
export function whyOutdated({result, trouble}: Pick<AgentState, 'result' | 'trouble'>, now: number): string | null {
  if (result === null) return `the node has not been checked yet${trouble === null ? '' : `: ${trouble}`}`;
  const age = (now - result.judgedAt) / 1000;
  if (age < -maxClockSkew) return `the clock of the node was set back by ${Math.round(-age)} s or more since it was checked`;
  if (age <= maxAge(result)) return null;
  return `the node was last checked ${Math.round(age)} s ago${trouble === null ? '' : `: ${trouble}`}`;
}

/** @internal */
export interface AgentOptions {
  readonly evaluate: Pick<SelfCheck, 'check'>;
  readonly clock: Clock;
  /** The node is checked again after this time even if nothing has changed, in milliseconds, plus or minus a tenth. */
  readonly intervalMs: number;
  /** How long after a change the node is checked, in milliseconds. */
  readonly gracePeriodMs: number;
  /** Maximum delay of the first check, so that agents that start together do not send requests together. In milliseconds. */
  readonly startDelayMs: number;
  /** A random number from 0 to 1. */
  readonly random?: () => number;
  readonly onCheck?: (result: CheckResult, at: number) => void;
}

/**
 * The state of an agent. Times are milliseconds since 1970.
 * @internal
 */
export interface AgentState {
  readonly result: AgentResult | null;
  readonly report: Report | null;
  /** Left out where they are not counted. */
  readonly connections?: CountedEndpoints | undefined;
  /** Why the latest check failed; null if it succeeded. */
  readonly trouble: string | null;
  /** When the latest check ended, whether it succeeded or not; before the first one, when the agent started. */
  readonly checkedAt: number;
  readonly checks: number;
  /** Checks that failed or could not read the node. */
  readonly failedChecks: number;
}

/**
 * Checks its node repeatedly: after changes, and at an interval. Checks never overlap, and there is always a pause between them.
 * @internal
 */
export class Agent {
  readonly #options: AgentOptions;
  readonly #random: () => number;
  #state: AgentState;
  #changedAt: number | null = null;
  #wakeUp: () => void = () => {};

  constructor(options: AgentOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#state = {result: null, report: null, trouble: 'not checked yet', checkedAt: options.clock.now(), checks: 0, failedChecks: 0};
  }

  get state(): AgentState {
    return this.#state;
  }

  /** Call it when something has changed. */
  noteChange(): void {
    if (this.#changedAt !== null) return;
    this.#changedAt = this.#options.clock.now();
    this.#wakeUp();
  }

  /** Rejects with the signal's reason when it is aborted, and does not resolve. */
  async run(signal: AbortSignal): Promise<never> {
    const {clock, evaluate, startDelayMs, onCheck} = this.#options;
    await clock.sleep(startDelayMs * this.#random(), signal);
    for (;;) {
      signal.throwIfAborted();
      this.#changedAt = null;
      const begun = clock.now();
      const result = await evaluate.check(signal);
      this.#keep(result);
      onCheck?.(result, clock.now());
      await this.#rest(result, {begun, signal});
    }
  }

  #keep(result: CheckResult): void {
    const {checks, failedChecks} = this.#state;
    const checkedAt = this.#options.clock.now();
    const hasFailed = result.kind === 'trouble' || result.result.report.status === 'unread';
    const counts = {checkedAt, checks: checks + 1, failedChecks: failedChecks + (hasFailed ? 1 : 0)};
    this.#state =
      result.kind === 'trouble'
        ? {...this.#state, ...counts, trouble: result.message}
        : {...counts, trouble: null, result: result.result, report: result.report, connections: result.connections};
  }

  /**
   * A pause of nine times the duration of the last check, but no longer than the interval: the agent uses at most a tenth of a processor.
   */
  async #rest(result: CheckResult, {begun, signal}: {readonly begun: number; readonly signal: AbortSignal}): Promise<void> {
    const {clock, intervalMs, gracePeriodMs} = this.#options;
    const ended = clock.now();
    const rest = 9 * (ended - begun);
    const interval = result.kind === 'trouble' ? Math.min(intervalMs, Math.max(rest, soon)) : intervalMs * (0.9 + 0.2 * this.#random());
    const earliest = ended + Math.min(interval, rest);
    for (;;) {
      const due =
        this.#changedAt === null ? ended + interval : Math.min(ended + interval, Math.max(earliest, this.#changedAt + gracePeriodMs));
      // A clock that was set back would make the pause longer.
      const left = Math.min(due - clock.now(), interval);
      if (left <= 0 || !(await this.#sleepOrChange(left, signal))) return;
    }
  }

  /** Resolves to whether something changed before the time was over. */
  async #sleepOrChange(milliseconds: number, signal: AbortSignal): Promise<boolean> {
    const woken = new AbortController();
    this.#wakeUp = () => woken.abort();
    try {
      await this.#options.clock.sleep(milliseconds, AbortSignal.any([signal, woken.signal]));
    } catch (error) {
      signal.throwIfAborted();
      if (!woken.signal.aborted) throw error;
    }
    this.#wakeUp = () => {};
    return woken.signal.aborted;
  }
}

/** How soon a failed check is repeated, in milliseconds. */
const soon = 2000;
