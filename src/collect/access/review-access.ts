import {readFields} from '../../parse/attempt.ts';
import pLimit from 'p-limit';
import {isUrl, type Permission, type ReviewedPermission} from '../../model/permission.ts';
import {ApiError, type KubeApi} from '../kube/kube-api.ts';
import {kubeProxyPorts} from '../node/kube-proxy-pages.ts';

const accessReviews = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';

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
  // A node and a port, as they stand in the path of the request.
  const names = (await nodeNames(api)).slice(0, maxNodes).flatMap(node => kubeProxyPorts.map(port => `${node}:${port}`));
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
  const resourceAttributes = {verb, group, resource, subresource, namespace: namespace ?? undefined, name};
  return isAllowed(api, {resourceAttributes});
}

async function isAllowed(api: KubeApi, spec: object): Promise<boolean> {
  const review = {apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec};
  const {status} = await api.create<{readonly status?: {readonly allowed?: boolean}}>(accessReviews, review);
  return status?.allowed === true;
}

/** `status.user` of a TokenReview. `spec` of a SubjectAccessReview has the same fields, but `user` for `username`. */
interface TokenOwner {
  readonly username: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

const tokenReviews = '/apis/authentication.k8s.io/v1/tokenreviews';

interface TokenReview {
  readonly status?: {readonly authenticated?: boolean; readonly user?: Partial<TokenOwner>; readonly audiences?: readonly string[]};
}

/**
 * Asks the API server for the owner of a token; null if the token is invalid. Its audience must be `audience` or the API server. Rejects
 * with an ApiError if there is no answer. As in the webhook authenticator of k8s.io/apiserver, an answer without audiences does not
 * confirm `audience`.
 */
export async function reviewToken(
  api: KubeApi,
  token: string,
  {audience, signal}: {readonly audience: string; readonly signal: AbortSignal},
): Promise<TokenOwner | null> {
  const isFor = claimsAudience(token, audience);
  const spec = {token, ...(isFor ? {audiences: [audience]} : {})};
  const review = {apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec};
  const {status} = await api.create<TokenReview>(tokenReviews, review, {signal, isReview: true});
  if (status === undefined) throw new ApiError('the answer of the API server is no TokenReview', {status: null});
  if (status.authenticated !== true || (isFor && !status.audiences?.includes(audience))) return null;
  const {username = '', ...user} = status.user ?? {};
  if (username === '') throw new ApiError('the TokenReview of the API server names no user', {status: null});
  return {username, ...user};
}

/** The claims of a JWT are not trusted: they only select the audience for the TokenReview. */
function claimsAudience(token: string, audience: string): boolean {
  const [, payload = ''] = token.split('.');
  // Not every token is a JWT.
  const {aud} = readFields(Buffer.from(payload, 'base64url').toString('utf8'));
  return aud === audience || (Array.isArray(aud) && aud.includes(audience));
}

const reviews = '/apis/authorization.k8s.io/v1/subjectaccessreviews';

/** Asks the API server whether a user may get a non-resource URL, such as `/metrics`. Rejects with an ApiError if there is no answer. */
export async function mayGet(api: KubeApi, {username, ...user}: TokenOwner, path: string, signal: AbortSignal): Promise<boolean> {
  const spec = {nonResourceAttributes: {path, verb: 'get'}, user: username, ...user};
  const review = {apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec};
  const {status} = await api.create<{readonly status?: {readonly allowed?: boolean; readonly denied?: boolean}}>(reviews, review, {
    signal,
    isReview: true,
  });
  if (status === undefined) throw new ApiError('the answer of the API server is no SubjectAccessReview', {status: null});
  return status.allowed === true && status.denied !== true;
}
