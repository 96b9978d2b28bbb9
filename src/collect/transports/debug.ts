import {randomBytes} from 'node:crypto';
import {hostname, userInfo} from 'node:os';
import process from 'node:process';
import {setTimeout as sleep} from 'node:timers/promises';
import type {PodObject} from '../../model/api-objects.ts';
import {errorText, namespacedName} from '../../model/text.ts';
import {ApiError, type ExecTarget, type KubeApi} from '../kube/kube-api.ts';
import {CommandFailed, type NodeInfo, type NodeShell, type Transport, Unreachable} from '../node/transport.ts';
import {podShell, podShellSessions} from './exec.ts';
import {refuseInvalidNodeName, toolFolders} from './root-command.ts';

export interface DebugOptions {
  /** An image with `sleep` and `nsenter`, or with its own iptables. */
  readonly image?: string | undefined;
  readonly namespace?: string | undefined;
  readonly imagePullSecret?: string | undefined;
  /** Timeout for the start of a pod, in milliseconds. */
  readonly startTimeoutMs?: number;
  /** The lifetime of a pod that is not deleted, in milliseconds. */
  readonly lifetimeMs?: number;
  /** Identifies the pods of one run. */
  readonly runId?: string;
}

export const defaultDebugImage = 'docker.io/library/busybox:1.37@sha256:9db7b59979c38555a39def84a31fb98b5296952f9e3afd4f6f11f05b07adfab0';
export const defaultDebugNamespace = 'kube-system';

/**
 * Creates a privileged pod on the node and runs the commands in the network and mount namespaces of the host, by `nsenter`; in the
 * container itself if the host has no iptables. The pod is deleted when the shell is disposed of and when it cannot be opened.
 */
export function debugTransport(api: KubeApi, options: DebugOptions = {}): Transport {
  const runId = options.runId ?? randomBytes(4).toString('hex');
  return {
    name: 'debug',
    async open(node, signal) {
      refuseInvalidNodeName(node);
      const pod = podOptions(node, options, runId);
      const remove = () => removePod(api, pod);
      try {
        await create(api, pod, signal);
        await untilRunning(api, pod, {signal, timeoutMs: options.startTimeoutMs ?? 60_000});
        return debugShell(await enteredShell(api, pod, signal), remove);
      } catch (error) {
        // Even if it is unknown whether the pod was created.
        await remove().catch(() => {});
        throw error;
      }
    },
  };
}

/** An API server that does not answer holds no report: the pod ends by itself. */
function removePod(api: KubeApi, pod: {readonly namespace: string; readonly name: string}): Promise<void> {
  return api.delete(podPath(pod), {gracePeriodSeconds: '0'}, AbortSignal.timeout(removeMs));
}

const removeMs = 10_000;

function podOptions(node: NodeInfo, options: DebugOptions, runId: string): DebugPodOptions {
  return {
    name: `svc-trace-${runId}-${randomBytes(4).toString('hex')}`,
    namespace: options.namespace ?? defaultDebugNamespace,
    node: node.name,
    runId,
    image: options.image ?? defaultDebugImage,
    imagePullSecret: options.imagePullSecret,
    lifetimeSeconds: Math.ceil((options.lifetimeMs ?? 600_000) / 1000),
  };
}

async function create(api: KubeApi, pod: DebugPodOptions, signal: AbortSignal): Promise<void> {
  if (signal.aborted) throw new Unreachable(`no pod was created on ${pod.node}: stopped before`, {cause: signal.reason});
  try {
    await api.create(podsPath(pod.namespace), debugPod(pod));
  } catch (error) {
    throw error instanceof ApiError ? cannotCreate(pod, error) : error;
  }
}

/**
 * A shell in the host's namespaces. Where the host has no iptables, as on Talos, or nsenter may not enter them, one in the pod's
 * container: it is in the host's network too.
 */
async function enteredShell(api: KubeApi, pod: DebugPodOptions, signal: AbortSignal): Promise<NodeShell> {
  const target: ExecTarget = {namespace: pod.namespace, pod: pod.name, container: debugContainer};
  const inside = (await podShellSessions(api, target, {stop: signal, lifetimeMs: pod.lifetimeSeconds * 1000})) ?? podShell(api, target);
  const onHost = entering(inside, pod);
  const whyNotHost = await whyNoTools(onHost, pod, signal);
  if (whyNotHost === null) return onHost;
  const whyNotImage = await whyNoTools(inside, pod, signal);
  if (whyNotImage === null)
    return {...inside, description: `with the tools of the image ${pod.image}, in the debug pod ${namespacedName(pod)} (${whyNotHost})`};
  throw new Unreachable(
    `neither ${pod.node} itself nor the image ${pod.image} has iptables-save that can be run: choose another --debug-image (${whyNotHost}; in the image: ${whyNotImage})`,
  );
}

function entering(inside: NodeShell, pod: DebugPodOptions): NodeShell {
  const description = `on the host, by the debug pod ${namespacedName(pod)}`;
  return {...inside, description, run: (argv, signal, take) => inside.run(['nsenter', '-t', '1', '-m', '-n', '--', ...argv], signal, take)};
}

/** Null where iptables-save can be run. An old one does not know --version: it fails, and is there. */
async function whyNoTools(shell: NodeShell, pod: DebugPodOptions, signal: AbortSignal): Promise<string | null> {
  try {
    await shell.run(['iptables-save', '--version'], signal);
    return null;
  } catch (error) {
    if (error instanceof CommandFailed && (error.notFound || error.exitCode !== null)) return whyNotRun(error);
    const reason = errorText(error);
    throw new Unreachable(`cannot exec into the debug pod ${namespacedName(pod)} on ${pod.node}: ${reason}`, {cause: error});
  }
}

function whyNotRun({notFound, exitCode, stderr}: CommandFailed): string | null {
  const [said = ''] = stderr.trim().split('\n', 1);
  // nsenter ends with what the command ended with, and with a line of its own where it did not come to that.
  if (/^nsenter: /.test(said) && !/can't execute|failed to execute/i.test(said)) return said;
  if (!notFound && !(exitCode === 127)) return null;
  return said === '' ? 'iptables-save not found' : said;
}

function debugShell(shell: NodeShell, remove: () => Promise<void>): NodeShell {
  return {
    description: shell.description,
    run: shell.run,
    async [Symbol.asyncDispose]() {
      await shell[Symbol.asyncDispose]();
      await remove();
    },
  };
}

/**
 * Deletes debug pods that a killed run left, and resolves to their names: pods that have ended, pods older than ten minutes and than their
 * intended lifetime, and pods of this user and machine whose process no longer exists. Pods of running processes stay. Rejects with an
 * ApiError. `now` is in milliseconds.
 */
export async function removeLeftovers(api: KubeApi, namespace: string, now = Date.now()): Promise<readonly string[]> {
  const {items} = await api.list<DebugPodObject>(podsPath(namespace), {labelSelector: `${managedBy.key}=${managedBy.value}`});
  const left = items
    .filter(pod => isOurs(pod) && (hasEnded(pod) || isTooOld(pod, now) || isOfDeadProcess(pod)))
    .map(({metadata}) => metadata.name);
  for (const name of left) await removePod(api, {namespace, name});
  return left;
}

interface DebugPodObject extends PodObject {
  readonly spec?: PodObject['spec'] & {readonly activeDeadlineSeconds?: number};
}

/** Another tool of this name could use the same label. */
function isOurs({metadata}: DebugPodObject): boolean {
  return metadata.labels?.[managedBy.key] === managedBy.value && metadata.annotations?.[ownerAnnotation] !== undefined;
}

function hasEnded({status}: DebugPodObject): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

function isTooOld({metadata, spec}: DebugPodObject, now: number): boolean {
  const age = now - Date.parse(metadata.creationTimestamp ?? '');
  return age > Math.max(600, spec?.activeDeadlineSeconds ?? 0) * 1000;
}

function isOfDeadProcess({metadata}: DebugPodObject): boolean {
  if (metadata.annotations?.[ownerAnnotation] !== thisOwner()) return false;
  const id = Number(metadata.annotations?.[processAnnotation]);
  return Number.isInteger(id) && id > 0 && !isAlive(id);
}

function isAlive(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}

interface DebugPodOptions {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  readonly runId: string;
  readonly image: string;
  readonly imagePullSecret: string | undefined;
  readonly lifetimeSeconds: number;
}

/** The label of every pod that is created here. */
const managedBy = {key: 'app.kubernetes.io/managed-by', value: 'svc-trace'} as const;
const runLabel = 'svc-trace/run';
/** Annotations: the user and machine that created a pod, and the process. */
const ownerAnnotation = 'svc-trace/owner';
const processAnnotation = 'svc-trace/process';

const debugContainer = 'debug';

/**
 * The user of this process, and the machine.
 * @internal
 */
export function thisOwner(): string {
  return `${userName()}@${hostname()}`;
}

/** A user with only a number, as in many containers, has no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? '');
  }
}

function podsPath(namespace: string): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
}

function podPath({namespace, name}: {readonly namespace: string; readonly name: string}): string {
  return `${podsPath(namespace)}/${encodeURIComponent(name)}`;
}

/**
 * A privileged pod that does nothing, in the host's network and process namespaces. It ends by itself if it is not deleted.
 * @internal
 */
export function debugPod(pod: DebugPodOptions): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: pod.name,
      namespace: pod.namespace,
      labels: {[managedBy.key]: managedBy.value, [runLabel]: pod.runId, ...nodeLabel(pod.node)},
      annotations: {[ownerAnnotation]: thisOwner(), [processAnnotation]: String(process.pid)},
    },
    spec: {
      nodeName: pod.node,
      hostNetwork: true,
      hostPID: true,
      dnsPolicy: 'Default',
      restartPolicy: 'Never',
      activeDeadlineSeconds: pod.lifetimeSeconds,
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      tolerations: [{operator: 'Exists'}],
      imagePullSecrets: pod.imagePullSecret === undefined ? undefined : [{name: pod.imagePullSecret}],
      containers: [
        {
          name: debugContainer,
          image: pod.image,
          imagePullPolicy: 'IfNotPresent',
          command: ['sleep', String(pod.lifetimeSeconds)],
          env: [{name: 'PATH', value: `/usr/local/bin:/usr/bin:/bin:${toolFolders}`}],
          securityContext: {privileged: true, runAsUser: 0},
          resources: {requests: {cpu: '10m', memory: '16Mi'}},
        },
      ],
    },
  };
}

/** Left out if the name is too long for a label; the pod's spec has it anyway. */
function nodeLabel(node: string): Readonly<Record<string, string>> {
  return node.length > 63 ? {} : {'svc-trace/node': node};
}

/** What the status of a pod shows about its start. */
interface StartingPod extends PodObject {
  readonly status?: PodObject['status'] & {
    readonly reason?: string;
    readonly message?: string;
    readonly containerStatuses?: readonly {readonly state?: {readonly waiting?: {readonly reason?: string; readonly message?: string}}}[];
  };
}

/** Why the pod could not be created, and what to do. */
function cannotCreate({namespace, node}: DebugPodOptions, error: ApiError): Unreachable {
  return new Unreachable(`cannot create a debug pod in ${namespace} for ${node}: ${error.message}${createRemedy(error)}`, {cause: error});
}

function createRemedy({status, message}: ApiError): string {
  if (/violates PodSecurity/i.test(message)) {
    return ' (the namespace does not allow privileged pods; choose one that does with --debug-namespace, or use --transport ssh)';
  }
  if (status === 403) return ' (debug pods need the verbs create, get and delete on pods)';
  return status === 404 ? ' (choose a namespace that is there with --debug-namespace)' : '';
}

/** Resolves when the pod runs. Rejects with an Unreachable as soon as it is certain that it will not, or when the timeout expires. */
async function untilRunning(
  api: KubeApi,
  pod: DebugPodOptions,
  limit: {readonly signal: AbortSignal; readonly timeoutMs: number},
): Promise<void> {
  const end = performance.now() + limit.timeoutMs;
  for (let pause = 200; ; pause = Math.min(pause * 1.5, 1000)) {
    const status = await readStatus(api, pod);
    if (status?.phase === 'Running') return;
    const reason = whyItFails(status, pod);
    if (reason !== null) throw new Unreachable(`the debug pod ${namespacedName(pod)} on ${pod.node} did not start: ${reason}`);
    if (limit.signal.aborted || performance.now() > end) throw new Unreachable(stillWaiting(status, pod), {cause: limit.signal.reason});
    await sleep(pause, undefined, {signal: limit.signal}).catch(() => {});
  }
}

async function readStatus(api: KubeApi, pod: DebugPodOptions): Promise<StartingPod['status']> {
  try {
    return (await api.get<StartingPod>(podPath(pod))).status;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const gone = error.status === 404 ? 'it was deleted' : error.message;
    throw new Unreachable(`the debug pod ${namespacedName(pod)} on ${pod.node} did not start: ${gone}`, {cause: error});
  }
}

/** Null while it may still start. The first ErrImagePull is not final: the kubelet tries again. */
function whyItFails(status: StartingPod['status'], pod: DebugPodOptions): string | null {
  if (status?.phase === 'Failed' || status?.phase === 'Succeeded') {
    return `it ended at once${status.reason === undefined ? '' : ` (${status.reason}${status.message === undefined ? '' : `: ${status.message}`})`}`;
  }
  const waiting = waitingOf(status);
  const said = waiting?.message === undefined ? '' : `: ${waiting.message}`;
  if (/^(?:ImagePullBackOff|InvalidImageName|ErrImageNeverPull)$/.test(waiting?.reason ?? '')) {
    return `the node cannot pull the image ${pod.image} (${waiting?.reason}${said}); choose another with --debug-image, and --image-pull-secret where it needs one`;
  }
  if (/^(?:CreateContainer\w*Error|RunContainerError|StartError|CrashLoopBackOff)$/.test(waiting?.reason ?? '')) {
    return `${waiting?.reason}${said}; the image ${pod.image} needs "sleep"`;
  }
  return null;
}

function stillWaiting(status: StartingPod['status'], pod: DebugPodOptions): string {
  const waiting = waitingOf(status);
  const state = [status?.phase ?? 'unknown', waiting?.reason, waiting?.message].filter(part => part !== undefined).join(', ');
  const remedy = waiting === undefined ? 'the kubelet has not taken it: is the node ready?' : 'a bigger --node-timeout may help';
  return `the debug pod ${namespacedName(pod)} on ${pod.node} has not started in time (${state}): ${remedy}`;
}

function waitingOf(status: StartingPod['status']): {readonly reason?: string; readonly message?: string} | undefined {
  return status?.containerStatuses?.find(({state}) => state?.waiting !== undefined)?.state?.waiting;
}
