import {ApiError, type KubeApi} from '../kube/kube-api.ts';

/** Whose token it is, in the words of a TokenReview, which a SubjectAccessReview takes as they are. */
export interface TokenOwner {
  readonly username: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

const path = '/apis/authentication.k8s.io/v1/tokenreviews';

interface TokenReview {
  readonly status?: {
    readonly authenticated?: boolean;
    readonly user?: Partial<TokenOwner>;
    readonly audiences?: readonly string[];
  };
}

/**
 * Asks the API server whose token this is; null where it does not accept the token. A token may be for `audience` or for the API server
 * itself. Rejects with an ApiError when there is no answer. Follows the webhook authenticator of k8s.io/apiserver: an answer that
 * names no audience does not confirm one.
 */
export async function reviewToken(
  api: KubeApi,
  token: string,
  {audience, signal}: {readonly audience: string; readonly signal: AbortSignal},
): Promise<TokenOwner | null> {
  const isFor = claimsAudience(token, audience);
  const spec = {token, ...(isFor ? {audiences: [audience]} : {})};
  const review = {apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec};
  const {status} = await api.create<TokenReview>(path, review, {signal});
  if (status === undefined) throw new ApiError('the answer of the API server is no TokenReview', {status: null});
  if (status.authenticated !== true || (isFor && !status.audiences?.includes(audience))) return null;
  const {username = '', ...user} = status.user ?? {};
  if (username === '') throw new ApiError('the TokenReview of the API server names no user', {status: null});
  return {username, ...user};
}

/** What a JWT claims is not believed: it only decides for which audience the API server is asked. */
function claimsAudience(token: string, audience: string): boolean {
  const [, payload = ''] = token.split('.');
  try {
    const {aud} = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as {readonly aud?: unknown};
    return aud === audience || (Array.isArray(aud) && aud.includes(audience));
  } catch {
    // Not every token is a JWT.
    return false;
  }
}
