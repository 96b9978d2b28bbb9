import {ApiError, type KubeApi} from '../kube/kube-api.ts';

/** `status.user` of a TokenReview. `spec` of a SubjectAccessReview has the same fields, but `user` for `username`. */
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
  const {status} = await api.create<TokenReview>(path, review, {signal, isReview: true});
  if (status === undefined) throw new ApiError('the answer of the API server is no TokenReview', {status: null});
  if (status.authenticated !== true || (isFor && !status.audiences?.includes(audience))) return null;
  const {username = '', ...user} = status.user ?? {};
  if (username === '') throw new ApiError('the TokenReview of the API server names no user', {status: null});
  return {username, ...user};
}

/** The claims of a JWT are not trusted: they only select the audience for the TokenReview. */
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
