/** One request to the API server. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** From the root of the API, such as `/api/v1/nodes/node-a`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly body?: object | undefined;
  /** See GetOptions. */
  readonly once?: boolean;
  readonly maxBytes?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** See CreateOptions. */
  readonly isReview?: boolean;
  readonly realm?: string | undefined;
}

/** A description for messages: `list services in namespace shop`, `get nodes/node-a`, `exec into kube-system/kube-proxy-x7k2p`. */
export function describeRequest({method, path, query = {}}: ApiRequest): string {
  const resource = /^\/(?:api|apis\/[^/]+)\/[^/]+\/(?:namespaces\/([^/]+)\/)?([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(path);
  if (resource === null) return `${method} ${path}`;
  const [, namespace, plural = '', name, subresource] = resource.map(part => (part === undefined ? undefined : decodeURIComponent(part)));
  if (subresource === 'exec') return `exec into ${namespace}/${name}`;
  if (method === 'POST' && subresource !== undefined) return `create ${plural}/${subresource} of ${name} in namespace ${namespace}`;
  const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
  if (method === 'POST') return `create ${plural}${where}`;
  if (method === 'DELETE') return `delete ${plural}/${name}${where}`;
  if (name !== undefined) return `get ${plural}/${name}${where}`;
  const selector = query['labelSelector'] ?? query['fieldSelector'];
  return `list ${plural}${where}${selector === undefined ? '' : ` with ${selector}`}`;
}

/** Whether a node or pod answers, and the API server passes the answer on with the node's `Date`: by its proxy, or a refused exec. */
export function isAnsweredByNode({path}: Pick<ApiRequest, 'path'>): boolean {
  return /^\/api\/v1\/(?:nodes\/[^/]+|namespaces\/[^/]+\/(?:pods|services)\/[^/]+)\/(?:proxy|exec)(?:\/|$)/.test(path);
}

/** The URL of a request: the server's path is a prefix of all paths. */
export function requestUrl(server: URL, path: string, query: Iterable<readonly [string, string]>): URL {
  const url = new URL(server);
  url.pathname = `${server.pathname.replace(/\/$/, '')}${path}`;
  for (const [name, value] of query) url.searchParams.append(name, value);
  return url;
}
