import {whyWithoutKubeProxy} from '../model/node/node-facts.ts';
import type {SymptomKind} from '../analyze/symptoms/symptom.ts';
import {nodeObject, podsOnNode} from '../expect/api-index.ts';
import {extraSyncPeriod} from '../expect/resolve-proxy-config.ts';
import {k3sRunsKubeProxy, kubeProxyPod, runsKubeProxy} from '../expect/kube-proxy-pod.ts';
import {othersAnswer, failureIn, kubeProxyLog} from '../model/node/kube-proxy-failures.ts';
import type {PodObject} from '../model/api-objects.ts';
import {isRulesAlone, fileText, type ApiObjects, type NodeDump} from '../model/snapshot.ts';
import {commandLine, namespacedName, shellWord} from '../model/text.ts';
import {parseHealthz, parseSyncMetrics} from '../parse/kube-proxy/kube-proxy-state.ts';
import type {NodeCheckContext} from './check-types.ts';
import {check} from './catalog.ts';
import {logAndRestart, run, showLog} from './commands/commands.ts';
import {gracePeriod, healthTimeout, type NodeLag} from '../model/state-history.ts';
import {once} from '../model/once.ts';

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
      yield {message: `kube-proxy on ${node.name}: ${log}`, gist, remedy: remedy ?? undefined};
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
      const behind = `is ${Math.round(seconds)} s behind`;
      const message = `kube-proxy on ${node.name} ${behind}: its rules for ${service} are those of that long ago`;
      yield {message, variant: 'behind', gist: `kube-proxy ${behind}`, remedy: whileSlow, ...showLog(context)};
      return;
    }
    const message = `kube-proxy on ${node.name} does not keep up: ${reasons.join('; ')}`;
    const lacks = lag === null ? '' : `; its rules lack the changes of the last ${Math.round(lag.seconds)} s`;
    const gist =
      container !== null
        ? `kube-proxy does not apply changes, ${container}`
        : silent.length === 0 && lag === null
          ? undefined
          : `kube-proxy does not ${silent.length > 0 ? 'answer' : 'keep up'}${lacks}`;
    const usual = context.config.mode.value === 'nftables' ? {remedy: withoutIptables} : {};
    const variant = lag === null ? undefined : 'behind';
    yield {message, variant, gist, ...usual, ...(remedy === null ? logAndRestart(context) : {remedy, ...showLog(context)})};
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
    if (status.kind === 'not-served') yield {message: `${node.name}: ${status.reason}`, remedy: status.remedy};
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

/** Why kube-proxy of a node does not do its work, by its pod and its log. */
interface KubeProxyTrouble {
  /** What its container does: `its container kube-proxy waits (CrashLoopBackOff) after 37 restarts`. Null if it runs. */
  readonly container: string | null;
  /** `its log says: LINE (CAUSE)`; null if it was not read or shows no known failure. */
  readonly log: string | null;
  /** The cause alone. */
  readonly cause: string | null;
  /** It is among the last lines of the log. */
  readonly isAtEnd: boolean;
  /** When the log said so (`1006 21:29:03`); null if unknown. */
  readonly when: string | null;
  /** Null if no cause is known. */
  readonly remedy: string | null;
}

interface Place {
  readonly api: ApiObjects;
  readonly node: Pick<NodeDump, 'name'> & Partial<Pick<NodeDump, 'read'>>;
}

export function kubeProxyTrouble({api, node}: Place): KubeProxyTrouble {
  const pod = kubeProxyPod(api, node.name);
  const found = failureIn(node.read?.(kubeProxyLog)?.toString('utf8') ?? '', namesOfNodes(api));
  const container = pod === undefined ? null : containerTrouble(pod);
  const log =
    found === null
      ? null
      : `its log says: ${found.line} (${found.failure.cause}${found.failure.mayBeCalico === true ? byCalico(node) : ''}${byItself(found.line, api)})`;
  const ofContainer = container === null ? null : (container.remedy ?? readLastLog(pod));
  return {
    container: container?.text ?? null,
    log,
    cause: found?.failure.cause ?? null,
    isAtEnd: found?.isAtEnd === true,
    when: found?.when ?? null,
    remedy: found?.failure.remedy ?? ofContainer,
  };
}

/** The line of the log that says that a node port is in use; null if there is none. kube-proxy before 1.22 then writes no rules for it. */
export function portInUse({node}: Place, servicePortName: string, nodePort: number): string | null {
  const log = node.read?.(kubeProxyLog)?.toString('utf8') ?? '';
  const names = ['"', ':"', ' '].map(end => `nodePort for ${servicePortName}${end}`);
  const isSaid = (line: string): boolean =>
    line.includes('address already in use') && line.includes(`:${nodePort}: bind`) && names.some(name => line.includes(name));
  return log.split('\n').findLast(isSaid)?.trim() ?? null;
}

const namesOfNodes = once(({nodes}: ApiObjects): ReadonlySet<string> => new Set((nodes ?? []).map(({metadata}) => metadata.name ?? '')));

/** An interface of Calico that only its eBPF mode makes shows who deletes chains of kube-proxy. */
function byCalico(node: Place['node']): string {
  return /\bbpf(?:in|out)\.cali\b/.test(node.read?.('links.json')?.toString('utf8') ?? '')
    ? ': the node has bpfin.cali, which Calico makes in eBPF mode'
    : '';
}

/** The cluster IP of the API server is no way for the program that makes cluster IPs work. */
function byItself(line: string, {services}: ApiObjects): string {
  const kubernetes = services?.find(({metadata}) => metadata.namespace === 'default' && metadata.name === 'kubernetes');
  const address = kubernetes?.spec?.clusterIP ?? '';
  const isAsked = address !== '' && (line.includes(`dial tcp ${address}:`) || line.includes(`dial tcp [${address}]:`));
  return isAsked
    ? `: ${address} is the cluster IP of the API server, which answers only when kube-proxy has written its rules: its kubeconfig needs the address of a control plane`
    : '';
}

/** As text; null if there is none. */
export function troubleText({container, log}: KubeProxyTrouble): string | null {
  const parts = [container, log].filter(part => part !== null);
  return parts.length === 0 ? null : parts.join(', and ');
}

type ContainerStatus = NonNullable<NonNullable<NonNullable<PodObject['status']>['containerStatuses']>[number]>;

function containerTrouble({status}: PodObject): {readonly text: string; readonly remedy?: string} | null {
  const statuses: readonly ContainerStatus[] = status?.containerStatuses ?? [];
  const own = statuses.find(({name}) => name?.includes('kube-proxy')) ?? statuses[0];
  const waiting = own?.state?.waiting;
  const ended = own?.state?.terminated ?? own?.lastState?.terminated;
  if (own === undefined || (waiting === undefined && own.state?.terminated === undefined)) return null;
  const reason = waiting?.reason ?? ended?.reason ?? 'ended';
  if (reason === 'ContainerCreating' || reason === 'PodInitializing' || reason === 'Completed') return null;
  const restarts = own.restartCount ?? 0;
  const how =
    ended === undefined
      ? ''
      : `, the last time with exit code ${ended.exitCode ?? '?'}${ended.reason === 'OOMKilled' ? ' (OOMKilled)' : ''}`;
  const text = `its container ${own.name ?? ''} does not run (${reason}${restarts === 0 ? '' : `, ${restarts} restarts`}${how})`;
  if (ended?.reason === 'OOMKilled')
    return {text, remedy: 'Raise the memory limit of kube-proxy: its container was killed for lack of memory.'};
  if (/ImagePull|ErrImage|InvalidImage/.test(reason))
    return {text, remedy: 'Make the image of kube-proxy available to this node: its name, the registry, and the pull secret.'};
  return /^Create|^RunContainer/.test(reason) ? {text, remedy: `Correct the pod of kube-proxy: ${waiting?.message ?? reason}.`} : {text};
}

function readLastLog(pod: PodObject | undefined): string {
  const {namespace = 'kube-system', name = ''} = pod?.metadata ?? {};
  return `Read why kube-proxy ends (kubectl -n ${shellWord(namespace)} logs ${shellWord(name)} --previous) and remove the cause: another restart does not help. It rewrites all rules when it runs again.`;
}

/** No pod of kube-proxy is in the cluster, and kube-proxy says nothing on the node. */
export function lacksKubeProxy({api, node}: Pick<NodeCheckContext, 'api' | 'node'>): boolean {
  if (api.pods === null || api.podsOf !== undefined || api.pods.some(({metadata}) => runsKubeProxy(metadata))) return false;
  if (['proxy-mode', 'healthz.json', 'metrics', 'configz.json', kubeProxyLog].some(file => node.files.includes(file))) return false;
  return k3sRunsKubeProxy(nodeObject(api, node.name), api) !== true;
}

/** The program that may have replaced kube-proxy: its pod is on the node. Null if there is none. */
export function replacementOf({api, node}: Pick<NodeCheckContext, 'api' | 'node'>): string | null {
  if (!lacksKubeProxy({api, node})) return null;
  const names = podsOnNode(api, node.name).map(({metadata}) => metadata.name);
  return replacements.find(({pod}) => names.some(name => pod.test(name)))?.program ?? null;
}

const replacements = [
  {pod: /^cilium-(?!operator|envoy)/, program: 'Cilium'},
  {pod: /^kube-router/, program: 'kube-router'},
  {pod: /^antrea-agent/, program: 'Antrea'},
  {pod: /^ovnkube-node/, program: 'OVN-Kubernetes'},
] as const;
