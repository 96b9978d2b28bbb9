import {readFields} from '../../../parse/attempt.ts';
import {closeSync, openSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs';
import type {RequestOptions} from 'node:https';
import {CORE_SCHEMA, dump, load} from 'js-yaml';
import {errorText} from '../../../model/text.ts';
import {readTextFile} from '../../text-file.ts';
import {chooseProxy} from '../choose-proxy.ts';
import {ApiError} from '../kube-api.ts';
import {KubeconfigError, type User} from '../kubeconfig.ts';
import {KubectlConfig} from '../kubectl-config.ts';
import {type ApiResponse, sendRequest} from '../send-request.ts';
import {bearer, type ClientCertificate, type Credential, type Credentials, fixedCredentials, pemOf, basic} from './credentials.ts';
import {execCredentials, type PluginSurroundings} from './exec-credentials.ts';

/** The credentials of a kubeconfig user. As in client-go, a token takes precedence over a plugin, which does not run then. */
export function userCredentials({name, user}: {readonly name: string; readonly user: User}, plugin: PluginSurroundings): Credentials {
  const whose = name === '' ? '' : ` of user "${name}"`;
  const certificate = clientCertificate(user);
  if (user.tokenFile) return tokenFileCredentials(user.tokenFile, user.token || null, certificate);
  if (user.token) return fixedCredentials(`the token${whose}`, {authorization: bearer(user.token), certificate});
  if (user.username) return fixedCredentials(`the password${whose}`, {authorization: basic(user.username, user.password), certificate});
  if (user.exec) return execCredentials(user.exec, {...plugin, certificate});
  if (user['auth-provider']) return oidcCredentials(name, user, certificate, plugin.environment);
  if (certificate !== null) return fixedCredentials(`the client certificate${whose}`, {certificate});
  return fixedCredentials(name === '' ? 'no credentials' : `user "${name}", who has no credentials in the kubeconfig`);
}

function clientCertificate(user: User): ClientCertificate | null {
  const cert = pemOf(user['client-certificate-data'], user['client-certificate'], 'client certificate');
  const key = pemOf(user['client-key-data'], user['client-key'], 'client key');
  return cert === null || key === null ? null : {cert, key};
}

/** A token that another program renews in a file, such as a service account's: read again whenever it is needed. `fallback` is used until then. */
function tokenFileCredentials(file: string, fallback: string | null, certificate: ClientCertificate | null): Credentials {
  let last = fallback;
  const current = async (): Promise<Credential> => {
    last = tokenOf(file, last);
    return {authorization: bearer(last), certificate};
  };
  return {description: `the token in ${file}`, current, renew: async refused => (await current()).authorization !== refused.authorization};
}

function tokenOf(file: string, last: string | null): string {
  try {
    const token = readTextFile(file).trim();
    if (token !== '') return token;
    if (last !== null) return last;
  } catch (error) {
    if (last !== null) return last;
    throw new ApiError(`cannot read the token file ${file}: ${errorText(error)}`, {status: null, cause: error});
  }
  throw new ApiError(`the token file ${file} is empty`, {status: null});
}

/**
 * The OIDC token of the kubeconfig. If it has expired, it is renewed with the refresh token and written back, because an issuer may accept
 * each refresh token only once: to the file that the user's `origin` names. Follows client-go's oidc plugin.
 */
function oidcCredentials(name: string, user: User, certificate: ClientCertificate | null, environment: NodeJS.ProcessEnv): Credentials {
  const provider = user['auth-provider'];
  if (provider?.name !== 'oidc') throw new KubeconfigError(droppedProvider(provider?.name ?? ''));
  let config: OidcConfig = provider.config ?? {};
  let renewal: Promise<OidcConfig> | null = null;
  return {
    description: 'the OIDC token in the kubeconfig',
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
    if (origin !== undefined) writeAuthProvider(origin, userName, tokens);
    return {...config, ...tokens};
  } catch (error) {
    const reason = errorText(error);
    const state = config['id-token'] ? 'has expired' : 'is missing';
    throw new ApiError(`the OIDC token in the kubeconfig ${state}, and could not be renewed: ${reason}. Log in again.`, {
      status: null,
      reason: 'Unauthorized',
      cause: error,
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
  const {exp} = readFields(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
  return typeof exp === 'number' ? exp : null;
}

/**
 * Writes new tokens into a kubeconfig, beside what its auth-provider has, under kubectl's lock file. Throws if the file is locked, cannot be
 * written, or has no such user. Follows client-go's ModifyConfig.
 */
function writeAuthProvider(path: string, userName: string, config: Readonly<Record<string, string>>): void {
  const lock = `${path}.lock`;
  closeSync(openSync(lock, 'wx', 0o600));
  try {
    const document = load(readFileSync(path, 'utf8'), {schema: CORE_SCHEMA}) as KubeconfigFile;
    const provider = document.users?.find(({name}) => name === userName)?.user?.['auth-provider'];
    if (provider === undefined) throw new Error(`${path} has no auth-provider of the user "${userName}" any more`);
    provider.config = {...provider.config, ...config};
    writeFileSync(path, dump(document, {schema: CORE_SCHEMA, lineWidth: -1}), {mode: statSync(path).mode});
  } finally {
    rmSync(lock);
  }
}

interface KubeconfigFile {
  readonly users?: readonly {
    readonly name: string;
    readonly user?: {readonly 'auth-provider'?: {config?: Readonly<Record<string, string>> | null}};
  }[];
}

/** A client of an OpenID Connect issuer. */
interface OidcClient {
  readonly refreshToken: string;
  readonly issuer: string;
  readonly clientId: string;
  /** Empty for a public client. */
  readonly clientSecret: string;
  /** The authority that signed the issuer's certificate, if the system does not know it. */
  readonly authority: {readonly file: string | undefined; readonly data: string | undefined};
}

/**
 * Requests a new token from the issuer: finds its token endpoint, then authenticates in a header and, if that is refused, in the body.
 * `refreshToken`: null if the previous one stays valid.
 */
async function refreshOidcToken(client: OidcClient, environment: NodeJS.ProcessEnv) {
  const send = sender(client, environment);
  const discovery = URL.parse(`${client.issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
  if (discovery === null) throw new Error(`its idp-issuer-url ${client.issuer} is no URL`);
  const endpoint = URL.parse(textField(await send(discovery, {method: 'GET', headers: {}, body: null}), 'token_endpoint') ?? '');
  if (endpoint === null) throw new Error(`${discovery.href} names no token_endpoint`);
  const inHeader = await send(endpoint, tokenRequest(client, 'header'));
  const answer = inHeader.status === 200 ? inHeader : await send(endpoint, tokenRequest(client, 'body'));
  const idToken = textField(answer, 'id_token');
  if (idToken === null) throw new Error(`${endpoint.href} answered ${answer.status} without an id_token${errorOf(answer)}`);
  const refreshToken = textField(answer, 'refresh_token');
  return {idToken, refreshToken: refreshToken === client.refreshToken ? null : refreshToken};
}

interface Sent {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

function sender({authority}: OidcClient, environment: NodeJS.ProcessEnv): (url: URL, sent: Sent) => Promise<ApiResponse> {
  const ca = pemOf(authority.data, authority.file, "issuer's certificate authority");
  return async (url, sent) => {
    const config = new KubectlConfig({
      description: url.href,
      server: url,
      namespace: '',
      trust: {ca, serverName: null, verify: true},
      proxy: chooseProxy(url, undefined, environment),
      compression: false,
      impersonation: {},
      credentials: fixedCredentials('none'),
    });
    const options: RequestOptions = {};
    await config.applyToHTTPSOptions(options);
    const {agent} = options;
    return sendRequest({url, ...sent, agent, signal: AbortSignal.timeout(timeoutMs)}).finally(() => config.close());
  };
}

const timeoutMs = 30_000;

function tokenRequest({refreshToken, clientId, clientSecret}: OidcClient, identity: 'header' | 'body'): Sent {
  const form = new URLSearchParams({grant_type: 'refresh_token', refresh_token: refreshToken});
  const headers: Record<string, string> = {'content-type': 'application/x-www-form-urlencoded', accept: 'application/json'};
  if (identity === 'header') {
    const pair = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`;
    headers['authorization'] = `Basic ${Buffer.from(pair).toString('base64')}`;
  } else {
    form.set('client_id', clientId);
    if (clientSecret !== '') form.set('client_secret', clientSecret);
  }
  return {method: 'POST', headers, body: form.toString()};
}

/** Null if the answer was no success, or has no such field. */
function textField({status, body}: ApiResponse, field: string): string | null {
  const value = status === 200 ? readFields(body.toString('utf8'))[field] : null;
  return typeof value === 'string' && value !== '' ? value : null;
}

/** The issuer's error code: `invalid_grant` for a refresh token that is no longer valid. */
function errorOf({body}: ApiResponse): string {
  const {error, error_description: description} = readFields(body.toString('utf8'));
  const parts = [error, description].filter(part => typeof part === 'string');
  return parts.length === 0 ? '' : ` (${parts.join(': ')})`;
}
