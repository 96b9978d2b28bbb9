import {ApiError, type KubeApi} from '../kube/kube-api.ts';

/** The version of the API server, such as `v1.36.2`. Null if it is not told: nothing is evaluated with it. Requested once. */
export async function readServerVersion(api: KubeApi, signal: AbortSignal): Promise<string | null> {
  try {
    const {gitVersion} = await api.get<{readonly gitVersion?: unknown}>('/version', {}, {signal, once: true});
    return typeof gitVersion === 'string' ? gitVersion : null;
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) return null;
    throw error;
  }
}
