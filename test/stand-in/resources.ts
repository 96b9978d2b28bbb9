/** A kind of object that the stand-in keeps. */
export interface Resource {
  readonly plural: string;
  readonly group: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

export const resources: readonly Resource[] = [
  {plural: 'services', group: '', kind: 'Service', namespaced: true},
  {plural: 'endpoints', group: '', kind: 'Endpoints', namespaced: true},
  {plural: 'pods', group: '', kind: 'Pod', namespaced: true},
  {plural: 'configmaps', group: '', kind: 'ConfigMap', namespaced: true},
  {plural: 'nodes', group: '', kind: 'Node', namespaced: false},
  {plural: 'namespaces', group: '', kind: 'Namespace', namespaced: false},
  {plural: 'serviceaccounts', group: '', kind: 'ServiceAccount', namespaced: true},
  {plural: 'endpointslices', group: 'discovery.k8s.io', kind: 'EndpointSlice', namespaced: true},
  {plural: 'servicecidrs', group: 'networking.k8s.io', kind: 'ServiceCIDR', namespaced: false},
  {plural: 'networkpolicies', group: 'networking.k8s.io', kind: 'NetworkPolicy', namespaced: true},
];

/** A request like the API server's RequestInfo: the input of an authorizer. */
export interface ResourceRequest {
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'delete' | 'deletecollection';
  readonly group: string;
  readonly resource: string;
  /** Empty for the object itself. */
  readonly subresource: string;
  /** Empty for all namespaces, or where there are none. */
  readonly namespace: string;
  readonly name: string;
}

/** A request for a path that is of no resource, such as `/metrics`. */
export interface UrlRequest {
  readonly verb: string;
  readonly path: string;
}

/** Null when the path is of no resource, such as `/version`. */
export function resourceRequest(method: string, path: string, query = new URLSearchParams()): ResourceRequest | null {
  const found =
    /^\/(?:api\/v1|apis\/([^/]+)\/v1)\/(?:namespaces\/([^/]+)\/)?([^/]+)(?:\/([^/]+))?(?:\/([^/]+)(?:(?<=\/proxy)\/.*)?)?$/.exec(path);
  if (found === null) return null;
  const [group = '', namespace = '', resource = '', name = '', subresource = ''] = found
    .slice(1)
    .map(part => (part === undefined ? undefined : decodeURIComponent(part)));
  // The upgrade to a WebSocket is a GET, and exec is something made all the same.
  const verb =
    subresource === 'exec' || method === 'POST'
      ? 'create'
      : method === 'DELETE'
        ? name === ''
          ? 'deletecollection'
          : 'delete'
        : name !== ''
          ? 'get'
          : ['1', 'true'].includes(query.get('watch') ?? '')
            ? 'watch'
            : 'list';
  return {verb, group, resource, subresource, namespace, name};
}
