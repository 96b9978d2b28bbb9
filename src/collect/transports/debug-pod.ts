import {hostname, userInfo} from 'node:os';
import process from 'node:process';
import {toolFolders} from './root-command.ts';

export interface DebugPodOptions {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  readonly runId: string;
  readonly image: string;
  readonly imagePullSecret: string | undefined;
  readonly lifetimeSeconds: number;
}

/** The label of every pod that is created here. */
export const managedBy = {key: 'app.kubernetes.io/managed-by', value: 'svc-trace'} as const;
const runLabel = 'svc-trace/run';
/** Annotations: the user and machine that created a pod, and the process. */
export const ownerAnnotation = 'svc-trace/owner';
export const processAnnotation = 'svc-trace/process';

export const debugContainer = 'debug';

/** The user of this process, and the machine. */
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

export function podsPath(namespace: string): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
}

export function podPath({namespace, name}: {readonly namespace: string; readonly name: string}): string {
  return `${podsPath(namespace)}/${encodeURIComponent(name)}`;
}

/** A privileged pod that does nothing, in the host's network and process namespaces. It ends by itself if it is not deleted. */
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
      ...(pod.imagePullSecret === undefined ? {} : {imagePullSecrets: [{name: pod.imagePullSecret}]}),
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
