import {whyWithoutKubeProxy} from '../model/node/node-facts.ts';
import type {SymptomKind} from '../analyze/symptoms/symptom.ts';
import {nodeObject, podsOnNode} from '../expect/api-index.ts';
import {extraSyncPeriod} from '../expect/proxy-config.ts';
import {k3sRunsKubeProxy, kubeProxyPod, runsKubeProxy} from '../expect/kube-proxy-pod.ts';
import {othersAnswer} from '../model/node/kube-proxy-failures.ts';
import type {PodObject} from '../model/api-objects.ts';
import {isRulesAlone, fileText} from '../model/snapshot.ts';
import {commandLine, namespacedName} from '../model/text.ts';
import {parseHealthz, parseSyncMetrics} from '../parse/kube-proxy/kube-proxy-state.ts';
import type {NodeCheckContext} from './check.ts';
import {check} from './catalog.ts';
import {logAndRestart, run, showLog} from './commands/commands.ts';
import {kubeProxyTrouble} from './kube-proxy-trouble.ts';
import {gracePeriod, healthTimeout, type NodeLag} from '../model/state-history.ts';

const notFollowing: ReadonlySet<SymptomKind> = new Set([
  'service-not-programmed',
  'missing-endpoint',
  'stale-endpoint',
  'stale-service',
  'missing-entry',
  'missing-reject',
  'unexpected-reject',
  'no-service-rules',
]);

export const kubeProxyNotSyncing = check('ST505', {
  *node(context) {
    const {container, log, cause, when, remedy, isAtEnd} = kubeProxyTrouble(context);
    const {node} = context;
    // Who pastes a log beside rules takes it for the reason.
    if (isRulesAlone(context) && log !== null) {
      const gist = `the log of kube-proxy has a failure: ${cause}`;
      yield {message: `kube-proxy on ${node.name}: ${log}`, gist, ...(remedy === null ? {} : {remedy})};
      return;
    }
    // By themselves these are common while kube-proxy is replaced, or if it does not listen on its default ports.
    const misses = missesChanges(context);
    const [gone, silent] = misses ? [[...podReasons(context), ...refusalReasons(context)], [...silenceReasons(context)]] : [[], []];
    const signs = [...healthReasons(context), ...syncReasons(context), ...lagReasons(context), ...gone, ...silent];
    // Why it stopped may be long ago in the log: by itself a line says nothing about now, unless kube-proxy still wrote it then.
    if (container === null && signs.length === 0 && !(misses && (isStillSaid(when, context) || (isAtEnd && readAt(context) === null))))
      return;
    const reasons = [container, ...signs, log].filter(reason => reason !== null);
    const lag = lagOf(context);
    if (lag !== null && reasons.length === 1 && !misses) {
      const {seconds, service} = lag;
      const message = `kube-proxy on ${node.name} is ${Math.round(seconds)} s behind: its rules for ${service} are those of that long ago`;
      yield {message, remedy: whileSlow, ...showLog(context)};
      return;
    }
    const message = `kube-proxy on ${node.name} does not keep up: ${reasons.join('; ')}`;
    const lacks = lag === null ? '' : `; its rules lack the changes of the last ${Math.round(lag.seconds)} s`;
    const gist =
      container !== null
        ? `kube-proxy does not apply changes, ${container}`
        : silent.length === 0
          ? undefined
          : `kube-proxy does not answer${lacks}`;
    const usual = context.config.mode.value === 'nftables' ? {remedy: withoutIptables} : {};
    yield {message, gist, ...usual, ...(remedy === null ? logAndRestart(context) : {remedy, ...showLog(context)})};
  },
});

/** Whether a line of the log is from the minutes before the node was read: what fails is tried again at least each minute. */
function isStillSaid(when: string | null, context: NodeCheckContext): boolean {
  const now = readAt(context);
  const [, month, day, time] = /^(\d\d)(\d\d) (.*)$/.exec(when ?? '') ?? [];
  if (now === null || time === undefined) return false;
  const written = Date.parse(`${new Date(now).getUTCFullYear()}-${month}-${day}T${time}Z`);
  return Math.abs(now - written) < 5 * 60_000;
}

const whileSlow =
  "Check again in a minute: a kube-proxy that is slow follows. If it stays behind, see what takes the node's processors and what the log says of long syncs; a restart writes all rules again, which takes longest.";

const withoutIptables =
  "Check whether this node's kube-proxy runs, check its log for failed syncs of nftables and for a watch that hangs, and restart it.";

/** The lag is longer than kube-proxy's grace period: the rules are from an outdated state of the API. */
function* lagReasons(context: NodeCheckContext): Iterable<string> {
  const lag = lagOf(context);
  if (lag !== null) yield `its rules for ${lag.service} are those of ${Math.round(lag.seconds)} s before the node was read`;
}

function lagOf({lag, node, api}: NodeCheckContext): (NodeLag & {readonly service: string}) | null {
  const {seconds = 0, service} = lag ?? {};
  return lag !== undefined && service !== undefined && seconds > gracePeriod + extraSyncPeriod(node, api) ? {...lag, service} : null;
}

/** Rules that are only old have no symptoms: they are those that the API asked for then. */
function missesChanges({symptoms}: NodeCheckContext): boolean {
  return symptoms.some(({kind}) => notFollowing.has(kind));
}

function* healthReasons({node}: NodeCheckContext): Iterable<string> {
  const healthz = parseHealthz(fileText(node, 'healthz.json'));
  if (healthz === null || healthz.healthy) return;
  const {lastUpdated, now} = healthz;
  const seconds = lastUpdated === null || now === null ? null : Math.round((now - lastUpdated) / 1000);
  const text = seconds === null ? '' : seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
  const age = text === '' ? '' : `, last updated ${text} before it was asked`;
  yield `it says that it is not healthy${age}`;
}

function* syncReasons({node, config}: NodeCheckContext): Iterable<string> {
  const {lastSync, lastQueued, restoreFailures} = parseSyncMetrics(fileText(node, 'metrics'));
  for (const [family, queued] of lastQueued) {
    const synced = lastSync.get(family) ?? 0;
    const now = (readAt({node}) ?? 0) / 1000;
    if (synced >= queued || now - queued < healthTimeout) continue;
    const failures =
      restoreFailures > 0 ? ` (${restoreFailures} failed ${config.mode.value === 'nftables' ? 'sync' : 'iptables-restore'})` : '';
    yield `a change ${family === '' ? '' : `of ${family} `}has been waiting for ${Math.round(now - queued)} s${failures}`;
  }
}

/** When the node was read, in milliseconds since 1970, by its own clock; null if unknown. */
export function readAt({node}: Pick<NodeCheckContext, 'node'>): number | null {
  return parseHealthz(fileText(node, 'healthz.json'))?.now ?? null;
}

export const noKubeProxy = check('ST903', {
  *node({api, node, status}) {
    if (status.kind === 'not-served')
      yield {message: `${node.name}: ${status.reason}`, ...(status.remedy === undefined ? {} : {remedy: status.remedy})};
    const object = nodeObject(api, node.name);
    const never = object === undefined || status.kind !== 'checked' ? null : whyWithoutKubeProxy(object);
    if (never !== null) {
      const message = `${node.name}: by its labels it is ${never}; but rules of it were read, and were checked`;
      yield {severity: 'warning', message, remedy: 'Correct the labels of the Node, or find out from which machine these rules are.'};
    }
  },
});

export const twoProxies = check('ST516', {
  *node({api, node: {name}}) {
    const running = podsOnNode(api, name).filter(isRunning);
    // While a DaemonSet is updated, the old pod and the new one may both run.
    const kubeProxies = new Map(running.filter(({metadata}) => runsKubeProxy(metadata)).map(pod => [controllerOf(pod), pod]));
    const others = running.filter(servesByKubeRouter);
    const object = nodeObject(api, name);
    // RKE2 starts it as a static pod, which is one of the pods above.
    const isK3s = object?.metadata.annotations?.['k3s.io/node-args'] !== undefined;
    const ofK3s = isK3s && k3sRunsKubeProxy(object, api) === true ? ['the kube-proxy in k3s'] : [];
    const proxies = [...ofK3s, ...[...kubeProxies.values(), ...others].map(({metadata}) => `pod ${namespacedName(metadata)}`)];
    if (proxies.length < 2) return;
    const message = `${proxies.join(' and ')} both write rules for Services: each rewrites or removes what the other has written, and which one a packet meets depends on the order of their rules`;
    yield {message, ...run(commandLine`kubectl get pods -A -o wide --field-selector ${`spec.nodeName=${name}`}`)};
  },
});

function isRunning({metadata, status}: PodObject): boolean {
  return metadata.deletionTimestamp === undefined && status?.phase === 'Running';
}

/** Pods without a controller, such as static ones, are each their own. */
function controllerOf({metadata: {ownerReferences, namespace, name}}: PodObject): string {
  const owner = (ownerReferences ?? []).find(({controller, kind}) => controller === true && kind !== 'Node');
  return owner === undefined ? `${namespace}/${name}` : `${owner.kind} ${namespace}/${owner.name}`;
}

/** It serves Services unless it is told not to. */
function servesByKubeRouter({metadata, spec}: PodObject): boolean {
  const container = spec?.containers?.find(({name}) => name === 'kube-router');
  if (container === undefined || !metadata.name.startsWith('kube-router')) return false;
  const words = [...(container.command ?? []), ...(container.args ?? [])];
  return words.length > 0 && !words.some(word => /^--run-service-proxy=(?:false|0|f)$/i.test(word));
}

function* podReasons({api, node}: NodeCheckContext): Iterable<string> {
  const pod = kubeProxyPod(api, node.name);
  if (pod === undefined) {
    const others = (api.pods ?? []).filter(({metadata, spec}) => runsKubeProxy(metadata) && spec?.nodeName !== undefined);
    if (others.length > 0 && !podsOnNode(api, node.name).some(({metadata}) => runsKubeProxy(metadata)))
      yield `no pod of kube-proxy is on this node, while there are ${others.length} on others`;
    return;
  }
  const {namespace, name} = pod.metadata;
  if (isDown(pod) && kubeProxyTrouble({api, node}).container === null)
    yield `its pod ${namespace}/${name} is not ready (${pod.status?.phase ?? 'phase unknown'})`;
}

function isDown({status}: PodObject): boolean {
  const ready = (status?.conditions ?? []).find(({type}) => type === 'Ready');
  return ready?.status === 'False' || (status?.phase !== undefined && status.phase !== 'Running');
}

/** Messages of curl, wget and the API server where nothing listens. */
function* refusalReasons({node}: NodeCheckContext): Iterable<string> {
  const health = reasonFor(node, 'healthz.json');
  if (isByApiServer(health)) {
    if (/refused/i.test(health)) yield 'nothing listens at its health port 10256';
  } else if ([health, reasonFor(node, 'metrics')].every(reason => /refused|Failed to connect|can't connect/i.test(reason)))
    yield 'nothing listens at its ports 10256 and 10249';
}

/** The same for a connection without an answer. A process that hangs still accepts connections. */
function* silenceReasons(context: NodeCheckContext): Iterable<string> {
  const {node} = context;
  const health = reasonFor(node, 'healthz.json');
  // The API server usually cannot reach its metrics, and a firewall before all nodes may cause a timeout: by itself that shows nothing.
  if (isByApiServer(health)) {
    if (/refused/i.test(health)) return;
    if (health.includes(othersAnswer)) yield 'it does not answer at its health port 10256, and those of other nodes do';
    else if (lagOf(context) !== null && health.startsWith('no answer at port')) yield 'it does not answer at its health port 10256';
    return;
  }
  const metrics = [reasonFor(node, 'metrics'), reasonFor(node, 'proxy-mode')];
  const silent = [...(isSilence(health) ? ['10256'] : []), ...(metrics.some(isSilence) ? ['10249'] : [])];
  if (silent.length > 0) yield `it does not answer at its port${silent.length === 1 ? '' : 's'} ${silent.join(' and ')}`;
}

/** Why a page of kube-proxy was not read. */
function reasonFor({missing}: NodeCheckContext['node'], file: string): string {
  return missing?.find(one => one.file === file)?.reason ?? '';
}

function isByApiServer(reason: string): boolean {
  return reason.includes('through the API server');
}

function isSilence(reason: string): boolean {
  return /timed? ?out/i.test(reason);
}
