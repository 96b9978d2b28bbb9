import {Buffer} from 'node:buffer';
import type {KubeApi} from '../kube/kube-api.ts';
import type {ReadLog} from '../node/transport.ts';
import {errorText} from '../../model/text/error-text.ts';
import {kubeProxyOn} from './host-agents.ts';

const maxBytes = 200_000;

/** The end of the log of kube-proxy's container, by the API server. If the container waits for its next start, that of its last run. */
export function kubeProxyLogOf(api: KubeApi): ReadLog {
  // Whoever may not read one log may read none.
  let refusal: unknown;
  return async (node, signal) => {
    if (refusal !== undefined) throw refusal;
    const target = kubeProxyOn(node);
    if (target === null) return null;
    const path = `/api/v1/namespaces/${target.namespace}/pods/${target.pod}/log`;
    const query = {container: target.container, tailLines: '200', limitBytes: String(maxBytes)};
    const parts: Buffer[] = [];
    try {
      for await (const part of await api.stream(path, query, {
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
        silenceMs: timeoutMs,
      }))
        parts.push(part);
    } catch (error) {
      if (/forbidden/i.test(errorText(error))) refusal = error;
      throw error;
    }
    return Buffer.concat(parts);
  };
}

const timeoutMs = 5000;
