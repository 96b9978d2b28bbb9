import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {dump} from 'js-yaml';
import {allowedBy, urlsAllowedBy} from '../collect/access/roles.ts';
import {capturePath} from '../fixtures.ts';
import {agentAudience} from '../../src/collect/agents/agent-tokens.ts';
import type {TokenUser} from '../stand-in/authentication.ts';
import {tokenFor} from '../stand-in/reviews.ts';
import type {ApiServer, ApiServerOptions, LoggedRequest} from '../stand-in/api-server.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import type {AppliedObject} from './apply-server.ts';

interface Binding extends AppliedObject {
  readonly roleRef: {readonly kind: string; readonly name: string};
  readonly subjects: readonly {readonly name: string}[];
}

interface Role extends AppliedObject {
  readonly rules: readonly {
    readonly apiGroups?: readonly string[];
    readonly resources?: readonly string[];
    readonly verbs: readonly string[];
  }[];
}

export interface RestrictedCluster extends AsyncDisposable {
  readonly server: ApiServer;
  /** A kubeconfig of a ServiceAccount. */
  readonly kubeconfigOf: (account: string) => string;
  /** A file with a token of a ServiceAccount that is for agents, as kubelet mounts it. */
  readonly tokenFileOf: (account: string) => string;
}

/** A cluster in which the ServiceAccounts of these objects may do what their Roles grant, and nothing else. */
export async function clusterOf(
  objects: readonly AppliedObject[],
  capture: string,
  options: Pick<ApiServerOptions, 'proxy'> = {},
): Promise<RestrictedCluster> {
  const accounts = objects.filter(({kind}) => kind === 'ServiceAccount').map(({metadata}) => metadata.name);
  const rights = new Map(
    accounts.map(name => {
      const roles = rolesOf(objects, name)
        .map(role => dump(role))
        .join('---\n');
      return [userOf(name), {resource: allowedBy(roles), url: urlsAllowedBy(roles)}];
    }),
  );
  const tokens: Record<string, TokenUser> = Object.fromEntries(accounts.map(name => [name, {user: userOf(name)}]));
  const projected = new Map<string, string>();
  for (const name of accounts) {
    const token = tokenFor(userOf(name), [agentAudience]);
    tokens[token] = {user: userOf(name), audiences: [agentAudience]};
    projected.set(name, token);
  }
  const server = await startBundleCluster(capturePath(capture), {
    ...options,
    tokens,
    allow: (request, {name}) => rights.get(name)?.resource(request) ?? false,
    allowUrl: (request, {name}) => name === 'admin' || (rights.get(name)?.url(request) ?? false),
  });
  const admin = readFileSync(server.kubeconfig, 'utf8');
  return {
    server,
    kubeconfigOf: account => {
      const file = join(server.kubeconfig, `../${account}`);
      writeFileSync(file, admin.replace('admin-token', account));
      return file;
    },
    tokenFileOf: account => {
      const file = join(server.kubeconfig, `../${account}-token`);
      writeFileSync(file, projected.get(account) ?? '');
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
    .filter(({apiGroups = []}) => !apiGroups.some(group => /reports|wgpolicy/.test(group)))
    .flatMap(({apiGroups: [group = ''] = [], resources = [], verbs}) =>
      resources.flatMap(resource => verbs.map(verb => `${verb} ${group}/${resource}`)),
    )
    .filter(words => !asked.has(words));
}

/** The upgrade of an exec is a GET, and Kubernetes asks for "create" as well since 1.35. */
function wordsOf({verb, group, resource, subresource}: NonNullable<LoggedRequest['resource']>): readonly string[] {
  const target = `${group}/${subresource === '' ? resource : `${resource}/${subresource}`}`;
  return subresource === 'exec' ? [`get ${target}`, `create ${target}`] : [`${verb} ${target}`];
}
