import {randomBytes} from 'node:crypto';
import {ApiError, type ExecTarget, type KubeApi} from '../kube/kube-api.ts';
import {CommandFailed, type NodeInfo, type NodeShell, type Transport, Unreachable} from '../node/transport.ts';
import {type DebugPodOptions, debugContainer, debugPod, podPath, podsPath} from './debug-pod.ts';
import {cannotCreate, untilRunning} from './debug-pod-start.ts';
import {podShell} from './exec.ts';
import {refuseInvalidNodeName} from './node-name.ts';
import {errorText} from '../../model/text/error-text.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';

export interface DebugOptions {
  /** An image with `sleep` and `nsenter`, or with its own iptables. */
  readonly image?: string;
  readonly namespace?: string;
  readonly imagePullSecret?: string;
  /** Timeout for the start of a pod, in milliseconds. */
  readonly startTimeoutMs?: number;
  /** The lifetime of a pod that is not deleted, in milliseconds. */
  readonly lifetimeMs?: number;
  /** Identifies the pods of one run. */
  readonly runId?: string;
}

export const defaultDebugImage = 'docker.io/library/busybox:1.37';
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
      const remove = () => api.delete(podPath(pod), {gracePeriodSeconds: '0'});
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
  const inside = podShell(api, target);
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
  return {
    ...inside,
    description: `on the host, by the debug pod ${namespacedName(pod)}`,
    run: (argv, signal, take) => inside.run(['nsenter', '-t', '1', '-m', '-n', '--', ...argv], signal, take),
  };
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
  return {description: shell.description, run: shell.run, [Symbol.asyncDispose]: remove};
}
