import pLimit from 'p-limit';
import {isUrl, type Permission, type ReviewedPermission} from '../../model/access.ts';
import type {KubeApi} from '../kube/kube-api.ts';

const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';

/** Asks the API server whether this user has these permissions; changes nothing. Rejects with an ApiError if there is no answer. */
export function reviewAccess(api: KubeApi, permissions: readonly Permission[]): Promise<readonly ReviewedPermission[]> {
  const limit = pLimit(8);
  return Promise.all(permissions.map(permission => limit(async () => ({...permission, allowed: await mayI(api, permission)}))));
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
