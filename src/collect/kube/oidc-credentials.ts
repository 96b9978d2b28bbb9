import {bearer, type ClientCertificate, type Credentials} from './credentials.ts';
import {ApiError} from './kube-api.ts';
import {KubeconfigError, type User} from './kubeconfig.ts';

type AuthProvider = NonNullable<User['auth-provider']>;

/**
 * The OIDC token that kubectl keeps in the kubeconfig, for as long as it is valid. It is not renewed here: an issuer may hand out
 * a new refresh token with each renewal, and only what writes it back into the kubeconfig may ask for one.
 */
export function oidcCredentials({name, config}: AuthProvider, certificate: ClientCertificate | null): Credentials {
  if (name !== 'oidc') {
    throw new KubeconfigError(
      `the kubeconfig uses the auth-provider "${name}", which kubectl has dropped as well. Use the credential plugin that took its place${
        replacements[name] ?? ''
      }.`,
    );
  }
  const token = config?.['id-token'] ?? '';
  return {
    description: 'the OIDC token in the kubeconfig',
    async current() {
      if (isExpired(token, Date.now())) {
        throw new ApiError(
          `the OIDC token in the kubeconfig ${token === '' ? 'is missing' : 'has expired'}. Let kubectl renew it (kubectl get --raw /version), or log in again.`,
          {status: null, reason: 'Unauthorized'},
        );
      }
      return {authorization: bearer(token), certificate};
    },
    renew: async () => false,
  };
}

const replacements: Readonly<Record<string, string>> = {gcp: ': gke-gcloud-auth-plugin', azure: ': kubelogin'};

/** Ten seconds early, as client-go's oidc plugin does. A token that is no JWT is left to the API server to judge. */
function isExpired(token: string, now: number): boolean {
  if (token === '') return true;
  const expiry = expiryOf(token);
  return expiry !== null && now > (expiry - 10) * 1000;
}

/** In seconds since 1970. */
function expiryOf(token: string): number | null {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
    const expiry = (claims as {exp?: unknown} | null)?.exp;
    return typeof expiry === 'number' ? expiry : null;
  } catch {
    return null;
  }
}
