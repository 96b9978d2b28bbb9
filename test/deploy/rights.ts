import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {dump} from 'js-yaml';
import {allowedBy} from '../collect/access/roles.ts';
import {capturePath} from '../fixtures.ts';
import type {ApiServer, ApiServerOptions, LoggedRequest} from '../stand-in/api-server.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import type {AppliedObject} from './apply-server.ts';

interface Binding extends AppliedObject {
  readonly roleRef: {readonly kind: string; readonly name: string};
  readonly subjects: readonly {readonly name: string}[];
}

interface Role extends AppliedObject {
  readonly rules: readonly {
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }[];
}

export interface RestrictedCluster extends AsyncDisposable {
  readonly server: ApiServer;
  /** A kubeconfig of a ServiceAccount. */
  readonly kubeconfigOf: (account: string) => string;
}

/** A cluster in which the ServiceAccounts of these objects may do what their Roles grant, and nothing else. */
export async function clusterOf(
  objects: readonly AppliedObject[],
  capture: string,
  options: Pick<ApiServerOptions, 'proxy'> = {},
): Promise<RestrictedCluster> {
  const accounts = objects.filter(({kind}) => kind === 'ServiceAccount').map(({metadata}) => metadata.name);
  const rights = new Map(
    accounts.map(name => [
      userOf(name),
      allowedBy(
        rolesOf(objects, name)
          .map(role => dump(role))
          .join('---\n'),
      ),
    ]),
  );
  const server = await startBundleCluster(capturePath(capture), {
    ...options,
    tokens: Object.fromEntries(accounts.map(name => [name, {user: userOf(name)}])),
    allow: (request, {name}) => rights.get(name)?.(request) ?? false,
  });
  const admin = readFileSync(server.kubeconfig, 'utf8');
  return {
    server,
    kubeconfigOf: account => {
      const file = join(server.kubeconfig, `../${account}`);
      writeFileSync(file, admin.replace('admin-token', account));
      return file;
    },
    [Symbol.asyncDispose]: () => server.close(),
  };
}

function userOf(account: string): string {
  return `system:serviceaccount:svc-trace:${account}`;
}

/** Those that are given to a ServiceAccount. */
function rolesOf(objects: readonly AppliedObject[], account: string): readonly Role[] {
  const bindings = objects.filter(({kind}) => kind.endsWith('Binding')) as readonly object[] as readonly Binding[];
  return bindings
    .filter(({subjects}) => subjects.some(({name}) => name === account))
    .flatMap(({roleRef, metadata}) => {
      const namespace = roleRef.kind === 'Role' ? metadata.namespace : undefined;
      return objects.filter(
        role => role.kind === roleRef.kind && role.metadata.name === roleRef.name && role.metadata.namespace === namespace,
      ) as readonly object[] as readonly Role[];
    });
}

/** What a ServiceAccount may do and did not, as `verb group/resource`; what writes reports is not among it. */
export function unused(objects: readonly AppliedObject[], account: string, requests: readonly LoggedRequest[]): readonly string[] {
  const own = requests.filter(({user}) => user?.name === userOf(account));
  const asked = new Set(own.flatMap(({resource}) => (resource === null ? [] : wordsOf(resource))));
  return rolesOf(objects, account)
    .flatMap(({rules}) => rules)
    .filter(({apiGroups}) => !apiGroups.some(group => /reports|wgpolicy/.test(group)))
    .flatMap(({apiGroups: [group = ''], resources, verbs}) =>
      resources.flatMap(resource => verbs.map(verb => `${verb} ${group}/${resource}`)),
    )
    .filter(words => !asked.has(words));
}

/** The upgrade of an exec is a GET, and Kubernetes asks for "create" as well since 1.35. */
function wordsOf({verb, group, resource, subresource}: NonNullable<LoggedRequest['resource']>): readonly string[] {
  const target = `${group}/${subresource === '' ? resource : `${resource}/${subresource}`}`;
  return subresource === 'exec' ? [`get ${target}`, `create ${target}`] : [`${verb} ${target}`];
}
