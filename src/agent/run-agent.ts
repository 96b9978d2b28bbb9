import {Errors} from '@oclif/core';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import {localTransport} from '../collect/transports/local.ts';
import {ClusterWatch} from '../collect/watch/cluster-watch.ts';
import type {Clock} from '../run/clock.ts';
import type {DiagnoseOptions} from '../diagnose.ts';
import {nodeResultText} from '../render/node-result.ts';
import {Agent} from './agent.ts';
import {agentMetrics} from './agent-metrics.ts';
import {type Pages, servePages} from './agent-server.ts';
import type {ListenAddress} from './listen-address.ts';
import {type CheckResult, SelfCheck} from './self-check.ts';
import {whyOutdated} from './outdated.ts';
import {errorText} from '../model/text/error-text.ts';

interface AgentRun {
  readonly api: KubeApi;
  readonly node: string;
  readonly listen: ListenAddress;
  readonly intervalMs: number;
  readonly gracePeriodMs: number;
  readonly timeoutMs: number;
  readonly sudo: boolean;
  readonly options: Pick<DiagnoseOptions, 'toolVersion' | 'overrides'>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called with the port once the agent listens. */
  readonly onListening: (port: number) => void;
  readonly onCheck: (look: CheckResult, at: number) => void;
}

/** Watches the API, checks the node and answers, until the signal is aborted. Throws a CLIError (exit 2) if it cannot listen. */
export async function runAgent(run: AgentRun): Promise<void> {
  const {api, node, intervalMs, gracePeriodMs, timeoutMs, options, clock, signal} = run;
  const watch = new ClusterWatch(api, {onChange: () => agent.noteChange()});
  const transport = localTransport({sudo: run.sudo, onlyNode: true});
  const evaluate = new SelfCheck({api, watch, node, transport, timeoutMs, intervalMs, gracePeriodMs, options, clock});
  const startDelayMs = Math.min(intervalMs / 4, maxStartDelay);
  const agent: Agent = new Agent({evaluate, clock, intervalMs, gracePeriodMs, startDelayMs, onCheck: run.onCheck});
  const server = await servePages(pagesOf({agent, watch, run}), run.listen).catch((error: unknown) => {
    throw new Errors.CLIError(`cannot listen: ${errorText(error)}`, {exit: 2});
  });
  const address = server.address();
  run.onListening(typeof address === 'object' && address !== null ? address.port : 0);
  try {
    await Promise.race([agent.run(signal), watch.run(signal)]);
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
}

function pagesOf({agent, watch, run: {node, intervalMs, timeoutMs, options, clock}}: Served): Pages {
  const said = (why: string | null) => ({
    status: why === null ? 200 : 503,
    type: 'text/plain; charset=utf-8' as const,
    text: `${why ?? 'ok'}\n`,
  });
  return {
    '/metrics': () => ({
      status: 200,
      type: 'text/plain; version=0.0.4; charset=utf-8',
      text: agentMetrics({state: agent.state, watch, node, intervalMs, toolVersion: options.toolVersion, now: clock.now()}),
    }),
    '/result': () => {
      const {result, trouble} = agent.state;
      if (result === null) return said(whyOutdated(agent.state, clock.now()));
      return {status: 200, type: 'application/json', text: nodeResultText(result, {now: clock.now(), trouble})};
    },
    '/healthz': () => said(whyStuck(agent, {now: clock.now(), intervalMs, timeoutMs})),
    '/readyz': () => said(whyOutdated(agent.state, clock.now())),
  };
}

/** Whether the agent has been stuck for so long that only a restart helps. An unresponsive API server does not count. */
function whyStuck({state: {checkedAt}}: Agent, {now, intervalMs, timeoutMs}: Times): string | null {
  const seconds = Math.round((now - checkedAt) / 1000);
  return seconds * 1000 < maxCheckTime + 6 * timeoutMs + 2 * intervalMs ? null : `the latest look ended ${seconds} s ago`;
}

/** In milliseconds: the longest pause, in addition to a few reads of the node, which have timeouts of their own. */
const maxCheckTime = 600_000;

interface Times {
  readonly now: number;
  readonly intervalMs: number;
  readonly timeoutMs: number;
}
