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
  /** An image with `sleep` and `nsenter`, or with iptables of its own. */
  readonly image?: string;
  readonly namespace?: string;
  readonly imagePullSecret?: string;
  /** How long a pod may take to start, in milliseconds. */
  readonly startTimeoutMs?: number;
  /** How long a pod lives when nobody deletes it, in milliseconds. */
  readonly lifetimeMs?: number;
  /** Marks the pods of one run. */
  readonly runId?: string;
}

export const defaultDebugImage = 'docker.io/library/busybox:1.37';
export const defaultDebugNamespace = 'kube-system';

/**
 * Makes a privileged pod on the node and runs the commands in the network and mount namespaces of the host, by `nsenter`; in the
 * container itself where the host has no iptables. The pod is deleted when the shell is disposed of and when it cannot be opened.
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
        // Also when it is not known whether the pod was created.
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

/** A shell in the host's namespaces, or in the pod's container where the host has no iptables, as on Talos. */
async function enteredShell(api: KubeApi, pod: DebugPodOptions, signal: AbortSignal): Promise<NodeShell> {
  const target: ExecTarget = {namespace: pod.namespace, pod: pod.name, container: debugContainer};
  const inside = podShell(api, target);
  for (const shell of [entering(inside, pod), {...inside, description: `in the debug pod ${namespacedName(pod)}`}]) {
    if (await hasTools(shell, pod, signal)) return shell;
  }
  throw new Unreachable(
    `neither ${pod.node} itself nor the image ${pod.image} has iptables-save, or the image has no nsenter: choose another --debug-image`,
  );
}

function entering(inside: NodeShell, pod: DebugPodOptions): NodeShell {
  return {
    ...inside,
    description: `on the host, by the debug pod ${namespacedName(pod)}`,
    run: (argv, signal, take) => inside.run(['nsenter', '-t', '1', '-m', '-n', '--', ...argv], signal, take),
  };
}

async function hasTools(shell: NodeShell, pod: DebugPodOptions, signal: AbortSignal): Promise<boolean> {
  try {
    await shell.run(['iptables-save', '--version'], signal);
    return true;
  } catch (error) {
    if (error instanceof CommandFailed && (error.notFound || error.exitCode !== null)) return !error.notFound;
    const reason = errorText(error);
    throw new Unreachable(`cannot exec into the debug pod ${namespacedName(pod)} on ${pod.node}: ${reason}`, {cause: error});
  }
}

function debugShell(shell: NodeShell, remove: () => Promise<void>): NodeShell {
  return {description: shell.description, run: shell.run, [Symbol.asyncDispose]: remove};
}
