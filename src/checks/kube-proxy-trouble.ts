import {nodeObject, podsOnNode} from '../expect/api-index.ts';
import {k3sRunsKubeProxy, kubeProxyPod, runsKubeProxy} from '../expect/kube-proxy-pod.ts';
import type {PodObject} from '../model/api-objects.ts';
import {failureIn, kubeProxyLog} from '../model/node/kube-proxy-failures.ts';
import {once} from '../model/once.ts';
import type {ApiObjects, NodeDump} from '../model/snapshot.ts';
import {shellWord} from '../model/text.ts';

/** Why kube-proxy of a node does not do its work, by its pod and its log. */
export interface KubeProxyTrouble {
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

/**
 * The program that may have replaced kube-proxy: its pod is on the node, no pod of kube-proxy is in the cluster, and kube-proxy says nothing
 * on the node. Null if there is none.
 */
export function replacementOf({api, node}: {readonly api: ApiObjects; readonly node: NodeDump}): string | null {
  if (api.pods === null || api.pods.some(({metadata}) => runsKubeProxy(metadata))) return null;
  if (['proxy-mode', 'healthz.json', 'metrics', 'configz.json'].some(file => node.files.includes(file))) return null;
  if (k3sRunsKubeProxy(nodeObject(api, node.name), api) === true) return null;
  const names = podsOnNode(api, node.name).map(({metadata}) => metadata.name);
  return replacements.find(({pod}) => names.some(name => pod.test(name)))?.program ?? null;
}

const replacements = [
  {pod: /^cilium-(?!operator|envoy)/, program: 'Cilium'},
  {pod: /^kube-router/, program: 'kube-router'},
  {pod: /^antrea-agent/, program: 'Antrea'},
  {pod: /^ovnkube-node/, program: 'OVN-Kubernetes'},
] as const;
