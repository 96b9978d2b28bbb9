import {dump} from 'js-yaml';
import {isUrl, type Permission} from '../../model/access.ts';
import {groupBy} from '../../model/lists.ts';

/** The ClusterRole and Roles that grant exactly these permissions, as YAML for `kubectl apply -f -`. */
export function roleManifest(permissions: readonly Permission[]): string {
  return roles(permissions)
    .map(role => dump(role, {lineWidth: -1, noRefs: true, flowLevel: 3}).trimEnd())
    .join('\n---\n');
}

/** The commands that bind these Roles to a user. */
export function bindCommands(permissions: readonly Permission[]): readonly string[] {
  return roles(permissions).map(({kind, metadata: {namespace}}) =>
    kind === 'ClusterRole'
      ? `kubectl create clusterrolebinding ${roleName} --clusterrole=${roleName} --user=NAME`
      : `kubectl create rolebinding ${roleName} --namespace=${namespace} --role=${roleName} --user=NAME`,
  );
}

const roleName = 'svc-trace';

interface Role {
  readonly apiVersion: string;
  readonly kind: 'ClusterRole' | 'Role';
  readonly metadata: {readonly name: string; readonly namespace?: string};
  readonly rules: readonly PolicyRule[];
}

type PolicyRule =
  | {
      readonly apiGroups: readonly string[];
      readonly resources: readonly string[];
      readonly resourceNames?: readonly string[];
      readonly verbs: readonly string[];
    }
  | {readonly nonResourceURLs: readonly string[]; readonly verbs: readonly string[]};

/** The ClusterRole first. A permission that it grants is not granted again in a namespace. */
function roles(permissions: readonly Permission[]): readonly Role[] {
  const everywhere = permissions.filter(({namespace}) => namespace === null);
  const namespaces = [...new Set(permissions.flatMap(({namespace}) => namespace ?? []))].sort();
  const inNamespaces = namespaces.map(namespace => ({
    namespace,
    own: permissions.filter(permission => permission.namespace === namespace && !everywhere.some(other => covers(other, permission))),
  }));
  const kinds = {apiVersion: 'rbac.authorization.k8s.io/v1'};
  return [
    ...(everywhere.length === 0 ? [] : [{...kinds, kind: 'ClusterRole' as const, metadata: {name: roleName}, rules: rulesOf(everywhere)}]),
    ...inNamespaces
      .filter(({own}) => own.length > 0)
      .map(({namespace, own}) => ({...kinds, kind: 'Role' as const, metadata: {name: roleName, namespace}, rules: rulesOf(own)})),
  ];
}

function covers(one: Permission, other: Permission): boolean {
  return one.verb === other.verb && one.group === other.group && target(one) === target(other) && one.name === undefined;
}

/** As a Role spells it. */
function target({resource, subresource}: Permission): string {
  return subresource === undefined ? resource : `${resource}/${subresource}`;
}

/** One rule for all with the same verbs. */
function rulesOf(permissions: readonly Permission[]): readonly PolicyRule[] {
  const objects = groupBy(permissions, permission => [permission.group, target(permission), permission.name].join(' '));
  return groupBy(objects, alikeIn).map(alike => {
    const all = alike.flat();
    const verbs = distinct(all.map(({verb}) => verb));
    if (all.some(({resource}) => isUrl(resource))) return {nonResourceURLs: distinct(all.map(target)), verbs};
    const names = distinct(all.flatMap(({name}) => name ?? []));
    return {
      apiGroups: distinct(all.map(({group}) => group)),
      resources: distinct(all.map(target)),
      ...(names.length === 0 ? {} : {resourceNames: names}),
      verbs,
    };
  });
}

/** Names belong to one resource: in a rule with several resources they would restrict all of them. */
function alikeIn(permissions: readonly Permission[]): string {
  const [first] = permissions;
  const named = first?.name === undefined ? '' : target(first);
  const kind = isUrl(first?.resource ?? '') ? 'url' : first?.group;
  return [kind, distinct(permissions.map(({verb}) => verb)), named].join(' ');
}

function distinct(words: readonly string[]): readonly string[] {
  return [...new Set(words)].sort();
}
