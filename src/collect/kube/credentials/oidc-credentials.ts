import {bearer, type ClientCertificate, type Credentials} from './credentials.ts';
import {ApiError} from '../kube-api.ts';
import {KubeconfigError, type User} from '../kubeconfig.ts';
import {type OidcClient, refreshOidcToken} from './refresh-oidc-token.ts';
import {writeAuthProvider} from './write-auth-provider.ts';
import {errorText} from '../../../model/text/error-text.ts';

interface OidcUser {
  readonly name: string;
  /** The user's `auth-provider` is set; `origin` is the file that new tokens are written to. */
  readonly user: User;
  readonly certificate: ClientCertificate | null;
  readonly environment: NodeJS.ProcessEnv;
}

/**
 * The OIDC token of the kubeconfig. If it has expired, it is renewed with the refresh token and written back, because an issuer may accept
 * each refresh token only once. Follows client-go's oidc plugin.
 */
export function oidcCredentials({name, user, certificate, environment}: OidcUser): Credentials {
  const provider = user['auth-provider'];
  if (provider?.name !== 'oidc') throw new KubeconfigError(droppedProvider(provider?.name ?? ''));
  let config: OidcConfig = provider.config ?? {};
  let renewal: Promise<OidcConfig> | null = null;
  return {
    description: 'the OIDC token in the kubeconfig',
    fixed: null,
    async current() {
      if (isExpired(config['id-token'] ?? '', Date.now())) {
        renewal ??= renewed(config, {userName: name, origin: user.origin, environment}).finally(() => {
          renewal = null;
        });
        config = await renewal;
      }
      return {authorization: bearer(config['id-token'] ?? ''), certificate};
    },
    renew: async () => false,
  };
}

type OidcConfig = Readonly<Record<string, string>>;

function droppedProvider(name: string): string {
  return `the kubeconfig uses the auth-provider "${name}", which kubectl has dropped as well. Use the credential plugin that took its place${
    replacements[name] ?? ''
  }.`;
}

const replacements: Readonly<Record<string, string>> = {gcp: ': gke-gcloud-auth-plugin', azure: ': kubelogin'};

interface Renewal {
  readonly userName: string;
  readonly origin: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
}

/** Rejects with an ApiError that says what to do. */
async function renewed(config: OidcConfig, {userName, origin, environment}: Renewal): Promise<OidcConfig> {
  try {
    const {idToken, refreshToken} = await refreshOidcToken(clientOf(config), environment);
    const tokens = {'id-token': idToken, ...(refreshToken === null ? {} : {'refresh-token': refreshToken})};
    if (origin !== undefined) writeAuthProvider(origin, {userName, config: tokens});
    return {...config, ...tokens};
  } catch (error) {
    const reason = errorText(error);
    const state = config['id-token'] ? 'has expired' : 'is missing';
    throw new ApiError(`the OIDC token in the kubeconfig ${state}, and could not be renewed: ${reason}. Log in again.`, {
      ...{status: null, reason: 'Unauthorized', cause: error},
    });
  }
}

function clientOf(config: OidcConfig): OidcClient {
  const required = (field: string): string => config[field] || missing(field);
  return {
    refreshToken: required('refresh-token'),
    issuer: required('idp-issuer-url'),
    clientId: required('client-id'),
    clientSecret: config['client-secret'] ?? '',
    authority: {file: config['idp-certificate-authority'], data: config['idp-certificate-authority-data']},
  };
}

function missing(field: string): never {
  throw new Error(`its auth-provider has no ${field}`);
}

/** Ten seconds early, like client-go's oidc plugin. A token that is not a JWT is left to the API server to check. */
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
