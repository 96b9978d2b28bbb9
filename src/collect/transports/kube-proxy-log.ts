import {Buffer} from 'node:buffer';
import type {ExecTarget, KubeApi} from '../kube/kube-api.ts';
import type {NodeInfo, ReadLog} from '../node/transport.ts';
import {errorText} from '../../model/text/error-text.ts';
import {kubeProxyOn} from './host-agents.ts';

const maxBytes = 200_000;

/**
 * The end of the log of kube-proxy's container, by the API server. If the container waits for its next start, that of its last run; if it has
 * just been started again, both: a container in a crash loop runs for some seconds each time, and says nothing before it fails.
 */
export function kubeProxyLogOf(api: KubeApi): ReadLog {
  // Whoever may not read one log may read none.
  let refusal: unknown;
  return async (node, signal) => {
    if (refusal !== undefined) throw refusal;
    const target = kubeProxyOn(node);
    if (target === null) return null;
    const path = `/api/v1/namespaces/${target.namespace}/pods/${target.pod}/log`;
    const query = {container: target.container, tailLines: '200', limitBytes: String(maxBytes)};
    const readParts = async (more: Readonly<Record<string, string>>): Promise<readonly Buffer[]> => {
      const limits = {signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]), silenceMs: timeoutMs};
      const parts: Buffer[] = [];
      for await (const part of await api.stream(path, {...query, ...more}, limits)) parts.push(part);
      return parts;
    };
    try {
      // The node may have removed it.
      const before = hasJustRestarted(node, target) ? await readParts({previous: 'true'}).catch(() => []) : [];
      return Buffer.concat([...before, ...(await readParts({}))]);
    } catch (error) {
      if (/forbidden/i.test(errorText(error))) refusal = error;
      throw error;
    }
  };
}

/** Whether the container failed, and runs again since some minutes at most. */
function hasJustRestarted({pods}: NodeInfo, {namespace, pod, container}: ExecTarget): boolean {
  const found = pods.find(({metadata}) => metadata.name === pod && metadata.namespace === namespace);
  const status = found?.status?.containerStatuses?.find(({name}) => name === container);
  const ended = status?.lastState?.terminated;
  const started = Date.parse(status?.state?.running?.startedAt ?? '');
  return ended !== undefined && ended.exitCode !== 0 && Date.now() - started < justRestartedMs;
}

/** As long as kubelet waits at most between two starts, and then resets the wait. */
const justRestartedMs = 600_000;
const timeoutMs = 5000;
