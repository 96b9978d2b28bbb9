import {loadAll} from 'js-yaml';
import type {ResourceRequest, UrlRequest} from '../../stand-in/resources.ts';

interface Role {
  readonly kind: 'ClusterRole' | 'Role';
  readonly metadata: {readonly namespace?: string};
  readonly rules: readonly {
    readonly apiGroups?: readonly string[];
    readonly resources?: readonly string[];
    readonly resourceNames?: readonly string[];
    readonly nonResourceURLs?: readonly string[];
    readonly verbs: readonly string[];
  }[];
}

/** What a manifest of Roles allows, decided as the API server's RBAC authorizer decides: a Role in its namespace, a ClusterRole everywhere. */
export function allowedBy(manifest: string): (request: ResourceRequest) => boolean {
  const roles = loadAll(manifest) as readonly Role[];
  return request => {
    // The upgrade to a WebSocket is a GET, and Kubernetes asks for "create" as well since 1.35.
    const verbs = request.subresource === 'exec' ? ['get', 'create'] : [request.verb];
    return verbs.every(verb => roles.some(role => grants(role, {...request, verb: verb as ResourceRequest['verb']})));
  };
}

/** What a manifest of Roles allows of paths that are of no resource: a ClusterRole can, a Role cannot. */
export function urlsAllowedBy(manifest: string): (request: UrlRequest) => boolean {
  const roles = loadAll(manifest) as readonly Role[];
  return ({verb, path}) =>
    roles.some(
      ({kind, rules}) => kind === 'ClusterRole' && rules.some(rule => rule.nonResourceURLs?.includes(path) && rule.verbs.includes(verb)),
    );
}

function grants({kind, metadata, rules}: Role, {verb, group, resource, subresource, namespace, name}: ResourceRequest): boolean {
  if (kind === 'Role' && metadata.namespace !== namespace) return false;
  const target = subresource === '' ? resource : `${resource}/${subresource}`;
  return rules.some(
    rule =>
      rule.apiGroups?.includes(group) &&
      rule.resources?.includes(target) &&
      rule.verbs.includes(verb) &&
      (rule.resourceNames?.includes(name) ?? true),
  );
}
