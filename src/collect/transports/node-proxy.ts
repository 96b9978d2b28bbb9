import type {ApiAnswer, KubeApi} from '../kube/kube-api.ts';
import {ApiError} from '../kube/kube-api.ts';
import type {KubeProxyPage} from '../node/kube-proxy-pages.ts';
import {errorText} from '../../model/text/error-text.ts';

/** Reads a page of a node's kube-proxy. Rejects with an Error with the reason if there is none. */
type ReadPage = (page: KubeProxyPage, signal: AbortSignal) => Promise<Buffer>;

/**
 * kube-proxy's pages through the API server's proxy to the node: an image of kube-proxy has no HTTP client. The API server connects to the
 * node's address, where kube-proxy serves its health, and its metrics only if it is configured to. The function is for one read of a node.
 */
export function nodeProxyPages(api: KubeApi): (node: string) => ReadPage {
  const silent = new Map<number, number>();
  const read = async (node: string, {port, path}: KubeProxyPage, signal: AbortSignal): Promise<Buffer> => {
    // A firewall between the API server and the nodes affects all of them: each would take the full timeout.
    if ((silent.get(port) ?? 0) >= maxSilent)
      throw new UnreachablePort(`not asked: the API server got no answer at port ${port} of other nodes`);
    const timer = AbortSignal.timeout(timeoutMs);
    const proxy = `/api/v1/nodes/${encodeURIComponent(node)}:${port}/proxy${path}`;
    let answer: ApiAnswer;
    try {
      answer = await api.proxied(proxy, {signal: AbortSignal.any([signal, timer]), maxBytes});
    } catch (error) {
      const isSilent = timer.aborted || isTimeout(error);
      if (isSilent && !signal.aborted) silent.set(port, (silent.get(port) ?? 0) + 1);
      throw isSilent || isRefused(error) || isForbidden(error)
        ? new UnreachablePort(whyNot(port, error, isSilent), {cause: error})
        : new Error(whyNot(port, error, isSilent), {cause: error});
    }
    silent.set(port, 0);
    if (answer.status === 404) throw new Error(`kube-proxy has no page ${path} at port ${port}`);
    return answer.body;
  };
  return node => {
    /** By port: why its first page could not be read; null if it was. */
    const tried = new Map<number, Promise<unknown>>();
    return async (page, signal) => {
      const first = tried.get(page.port);
      const failure = first === undefined ? null : await first;
      if (failure instanceof UnreachablePort) throw failure;
      const body = read(node, page, signal);
      if (first === undefined)
        tried.set(
          page.port,
          body.then(
            () => null,
            (error: unknown) => error,
          ),
        );
      return body;
    };
  };
}

/** No page of this port can be read, whatever its path. */
class UnreachablePort extends Error {
  override readonly name = 'UnreachablePort';
}

/** Shorter than the timeout of a connection whose packets are dropped. */
const timeoutMs = 5000;
const maxSilent = 2;
/** The metrics of a kube-proxy are some hundred kilobytes. */
const maxBytes = 16 * 1024 * 1024;

/** Contains no node name, so that the same reason on many nodes is the same text. */
function whyNot(port: number, error: unknown, isSilent: boolean): string {
  if (isSilent) return `no answer at port ${port} of the node within ${timeoutMs / 1000} s (asked through the API server)`;
  if (!(error instanceof ApiError)) return errorText(error);
  if (isForbidden(error)) return 'you may not get nodes/proxy ("kubectl svc-trace access" has the Role)';
  if (!isRefused(error)) return `${error.message} (asked through the API server)`;
  const why =
    port === metricsPort
      ? ': by default kube-proxy listens there on the loopback address only; --transport debug, ssh and local read it on the node'
      : '';
  return `connection refused at port ${port} of the node (asked through the API server)${why}`;
}

const metricsPort = 10249;

function isForbidden(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403;
}

function isRefused(error: unknown): boolean {
  return error instanceof ApiError && /connection refused/i.test(error.message);
}

/** The API server timed out, or a device between it and the node did. */
function isTimeout(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 504 || /i\/o timeout|timed out|deadline exceeded/i.test(error.message));
}
