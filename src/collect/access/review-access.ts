import pLimit from 'p-limit';
import {isUrl, type Permission, type ReviewedPermission} from '../../model/access.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {nodeProxyNames} from './transport-permissions.ts';

const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';

/** Asks the API server whether this user has these permissions; changes nothing. Rejects with an ApiError if there is no answer. */
export async function reviewAccess(api: KubeApi, permissions: readonly Permission[]): Promise<readonly ReviewedPermission[]> {
  const limit = pLimit(parallel);
  const reviewed = await Promise.all(
    permissions.map(permission => limit(async () => ({...permission, allowed: await mayI(api, permission)}))),
  );
  return Promise.all(reviewed.map(permission => (isRefusedNodeProxy(permission) ? reviewByName(api, permission) : permission)));
}

const parallel = 8;

function isRefusedNodeProxy({resource, subresource, name, allowed}: ReviewedPermission): boolean {
  return resource === 'nodes' && subresource === 'proxy' && name === undefined && !allowed;
}

/** A Role with `resourceNames` refuses the resource as a whole. Unchanged where the nodes may not be listed, or none is allowed. */
async function reviewByName(api: KubeApi, permission: ReviewedPermission): Promise<ReviewedPermission> {
  const names = (await nodeNames(api)).slice(0, maxNodes).flatMap(nodeProxyNames);
  const limit = pLimit(parallel);
  const answers = await Promise.all(names.map(name => limit(() => mayI(api, {...permission, name}))));
  const allowed = names.filter((_, index) => answers[index]);
  if (allowed.length === 0) return permission;
  return {...permission, allowed: allowed.length === names.length, byName: {allowed, asked: names.length}};
}

/** Two reviews for each: enough to tell a Role for every node from one for some. */
const maxNodes = 50;

async function nodeNames(api: KubeApi): Promise<readonly string[]> {
  try {
    const {items} = await api.list<{readonly metadata?: {readonly name?: unknown}}>('/api/v1/nodes');
    return items.flatMap(({metadata}) => (typeof metadata?.name === 'string' ? [metadata.name] : []));
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return [];
    throw error;
  }
}

async function mayI(api: KubeApi, {verb, group, resource, subresource, namespace, name}: Permission): Promise<boolean> {
  if (isUrl(resource)) return isAllowed(api, {nonResourceAttributes: {verb, path: resource}});
  const resourceAttributes = {
    ...{verb, group, resource},
    ...(subresource === undefined ? {} : {subresource}),
    ...(namespace === null ? {} : {namespace}),
    ...(name === undefined ? {} : {name}),
  };
  return isAllowed(api, {resourceAttributes});
}

async function isAllowed(api: KubeApi, spec: object): Promise<boolean> {
  const review = {apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec};
  const {status} = await api.create<{readonly status?: {readonly allowed?: boolean}}>(path, review);
  return status?.allowed === true;
}
