import {parseHealthz, parseSyncMetrics} from '../parse/kube-proxy/kube-proxy-state.ts';
import type {Check, NodeCheckContext} from './check.ts';
import {logAndRestart, showLog} from './commands/node-commands.ts';
import {kubeProxyHealthReasons} from './kube-proxy-health.ts';
import {kubeProxyTrouble} from './kube-proxy-trouble.ts';
import {gracePeriod} from './st904-changed-while-looking.ts';

export const kubeProxyNotSyncing: Check<'ST505'> = {
  code: 'ST505',
  name: 'kube-proxy-not-syncing',
  severity: 'warning',
  summary: 'kube-proxy reports that it is unhealthy, does not run, or its last sync is older than changes that it should have applied',
  remedy:
    "Check whether this node's kube-proxy runs, check its log for iptables-restore errors and for a watch that hangs, and restart it.",
  *node(context) {
    const {container, log, remedy} = kubeProxyTrouble(context);
    const signs = [...healthReasons(context), ...syncReasons(context), ...lagReasons(context), ...kubeProxyHealthReasons(context)];
    const {node} = context;
    if (container === null && signs.length === 0) return;
    // Why it stopped may be long ago in the log: by itself a line says nothing about now.
    const reasons = [container, ...signs, log].filter(reason => reason !== null);
    const message = `kube-proxy on ${node.name} does not keep up: ${reasons.join('; ')}`;
    yield {node: node.name, message, ...(remedy === null ? logAndRestart(context) : {remedy, ...showLog(context)})};
  },
};

/** The lag is longer than kube-proxy's grace period: the rules are from an outdated state of the API. */
function* lagReasons({lag}: NodeCheckContext): Iterable<string> {
  if (lag?.service === undefined || lag.seconds <= gracePeriod) return;
  yield `its rules for ${lag.service} are those of ${Math.round(lag.seconds)} s before the node was read`;
}

function* healthReasons({node}: NodeCheckContext): Iterable<string> {
  const healthz = parseHealthz(node.read('healthz.json')?.toString('utf8') ?? '');
  if (healthz === null || healthz.healthy) return;
  const {lastUpdated, now} = healthz;
  const age = lastUpdated === null || now === null ? '' : `, last updated ${Math.round((now - lastUpdated) / 1000)} s before it was asked`;
  yield `it says that it is not healthy${age}`;
}

/** A change that waits for longer than this was not carried out; kube-proxy itself takes twice its sync period for the limit. */
const patience = 60;

function* syncReasons({node}: NodeCheckContext): Iterable<string> {
  const {lastSync, lastQueued, restoreFailures} = parseSyncMetrics(node.read('metrics')?.toString('utf8') ?? '');
  for (const [family, queued] of lastQueued) {
    const synced = lastSync.get(family) ?? 0;
    const now = (nowOf(node) ?? 0) / 1000;
    if (synced >= queued || now - queued < patience) continue;
    const failures = restoreFailures > 0 ? ` (${restoreFailures} failed iptables-restore)` : '';
    yield `a change ${family === '' ? '' : `of ${family} `}has been waiting for ${Math.round(now - queued)} s${failures}`;
  }
}

function nowOf(node: NodeCheckContext['node']): number | null {
  return parseHealthz(node.read('healthz.json')?.toString('utf8') ?? '')?.now ?? null;
}
