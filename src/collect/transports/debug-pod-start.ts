import {setTimeout as sleep} from 'node:timers/promises';
import type {PodObject} from '../../model/api-objects.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {Unreachable} from '../node/transport.ts';
import {type DebugPodOptions, podPath} from './debug-pod.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

/** What the status of a pod shows about its start. */
interface StartingPod extends PodObject {
  readonly status?: PodObject['status'] & {
    readonly reason?: string;
    readonly message?: string;
    readonly containerStatuses?: readonly {readonly state?: {readonly waiting?: {readonly reason?: string; readonly message?: string}}}[];
  };
}

/** Why the pod could not be created, and what to do. */
export function cannotCreate({namespace, node}: DebugPodOptions, error: ApiError): Unreachable {
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
export async function untilRunning(
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
