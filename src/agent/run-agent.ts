import {Errors} from '@oclif/core';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import {localTransport} from '../collect/transports/local.ts';
import {ClusterWatch} from '../collect/watch/cluster-watch.ts';
import type {Clock} from '../run/clock.ts';
import type {DiagnoseOptions} from '../diagnose.ts';
import {nodeResultText} from '../render/node-result.ts';
import {Agent} from './agent.ts';
import {agentMetrics} from './agent-metrics.ts';
import type {HttpAnswer, Pages} from './agent-server.ts';
import type {ListenAddress} from './listen-address.ts';
import {type CheckResult, SelfCheck} from './self-check.ts';
import {serveAgent, type ServingMode} from './serve-agent.ts';
import type {ServingState} from './serving-metrics.ts';
import {whyOutdated} from './outdated.ts';
import {errorText} from '../model/text/error-text.ts';

interface AgentRun {
  readonly api: KubeApi;
  readonly node: string;
  readonly listen: ListenAddress;
  readonly serving: ServingMode;
  readonly intervalMs: number;
  readonly gracePeriodMs: number;
  readonly timeoutMs: number;
  readonly sudo: boolean;
  readonly countsConnections: boolean;
  readonly options: Pick<DiagnoseOptions, 'toolVersion' | 'overrides'>;
  readonly clock: Clock;
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
  const {api, node, intervalMs, gracePeriodMs, timeoutMs, options, clock, signal} = run;
  const watch = new ClusterWatch(api, {onChange: () => agent.noteChange()});
  const transport = localTransport({sudo: run.sudo, onlyNode: true});
  const evaluate = new SelfCheck({
    api,
    watch,
    node,
    transport,
    timeoutMs,
    intervalMs,
    gracePeriodMs,
    options,
    clock,
    countsConnections: run.countsConnections,
  });
  const startDelayMs = Math.min(intervalMs / 4, maxStartDelay);
  const agent: Agent = new Agent({evaluate, clock, intervalMs, gracePeriodMs, startDelayMs, onCheck: run.onCheck});
  const pagesWith = (state: () => ServingState) => pagesOf({agent, watch, run, state});
  const {listen, serving: mode, onTrouble} = run;
  const served = await serveAgent({api, node, listen, mode, clock, pagesWith, onTrouble}).catch((error: unknown) => {
    throw new Errors.CLIError(`cannot serve: ${errorText(error)}`, {exit: 2});
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

interface Served {
  readonly agent: Agent;
  readonly watch: ClusterWatch;
  readonly run: AgentRun;
  readonly state: () => ServingState;
}

function pagesOf({agent, watch, run, state}: Served): Pages {
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
    return {status: 200, type: 'application/json', text: nodeResultText(latest, {now: clock.now(), trouble})};
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
function whyStuck({state: {checkedAt}}: Agent, {now, intervalMs, timeoutMs}: Times): string | null {
  const seconds = Math.round((now - checkedAt) / 1000);
  return seconds * 1000 < maxCheckTime + 6 * timeoutMs + 2 * intervalMs ? null : `the latest check ended ${seconds} s ago`;
}

/** In milliseconds: the longest pause, in addition to a few reads of the node, which have timeouts of their own. */
const maxCheckTime = 600_000;

interface Times {
  readonly now: number;
  readonly intervalMs: number;
  readonly timeoutMs: number;
}
