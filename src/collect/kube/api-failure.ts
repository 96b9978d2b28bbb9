import {X509Certificate} from 'node:crypto';
import {STATUS_CODES} from 'node:http';
import type {Credential} from './credentials/credentials.ts';
import {ApiError} from './kube-api.ts';
import type {Connection} from './kubectl-config.ts';
import type {ApiResponse} from './send-request.ts';
import {ProxyError} from './tunnel.ts';

/** The request that failed. */
export interface FailedRequest {
  /** As `describeRequest` describes it. */
  readonly what: string;
  readonly connection: Connection;
}

/** The error for an answer with another status than 2xx. */
export function refusal(response: ApiResponse, {what, connection}: FailedRequest, credential: Credential): ApiError {
  const {status} = response;
  const {message, reason} = statusOf(response.body);
  const said = `${status} ${STATUS_CODES[status] ?? ''}`.trim();
  const details = message === '' || message === STATUS_CODES[status] ? '' : `: ${message}`;
  const text = () => {
    if (status === 401)
      return `cannot ${what}: ${connection.server.host} does not accept ${connection.credentials.description} (${said}${details}). ${whyUnauthorized(credential)}`;
    if (status === 403) return `not allowed to ${what}${details}. ${isNobody(credential) ? noCredentials : whereToSeeWhatIsNeeded}`;
    if (status === 404) return `cannot ${what}: not found${details}.`;
    if (status === 429)
      return `cannot ${what}: the API server has too much to do (${said}${details}${toldToWait(response)}). Try again later, or with a smaller --concurrency.`;
    if (status >= 300 && status < 400)
      return `cannot ${what}: ${connection.server.host} answered ${said}${redirectTo(response)}. Is the server's address in the kubeconfig right?`;
    if (/error dialing backend|dial tcp/.test(message))
      return `cannot ${what}: the API server does not reach the kubelet of that node${details}.`;
    return `cannot ${what}: ${connection.server.host} answered ${said}${details}.`;
  };
  return new ApiError(text(), {status, reason, realm: realmOf(response), details: message});
}

function toldToWait({headers}: ApiResponse): string {
  const after = headers['retry-after'];
  return after === undefined ? '' : `; Retry-After: ${after}`;
}

/** Redirects are not followed: the token would go to another server. */
function redirectTo({headers}: ApiResponse): string {
  const {location = ''} = headers;
  return URL.canParse(location) ? ` and redirects to ${new URL(location).host}` : '';
}

/** The realm of WWW-Authenticate for bearer tokens; empty if there is none. */
export function realmOf({headers}: Pick<ApiResponse, 'headers'>): string {
  return /^Bearer .*?realm="([^"]*)"/i.exec(headers['www-authenticate'] ?? '')?.[1] ?? '';
}

const whereToSeeWhatIsNeeded = '"kubectl svc-trace access" says what is needed and prints the Role for it.';

function isNobody({authorization, certificate}: Credential): boolean {
  return authorization === null && certificate === null;
}

function whyUnauthorized(credential: Credential): string {
  const {authorization, certificate} = credential;
  if (isNobody(credential)) return noCredentials;
  const expired = certificate === null ? null : expiredSince(certificate.cert);
  if (expired !== null) return `The client certificate expired on ${expired}.`;
  const what = authorization === null ? 'The certificate' : authorization.startsWith('Basic') ? 'The password' : 'The token';
  return `${what} has expired, was revoked, or is of another cluster. Log in again.`;
}

const noCredentials = 'Nothing in the kubeconfig says who you are: log in, or choose another context or user.';

function expiredSince(cert: string): string | null {
  try {
    const {validTo} = new X509Certificate(cert);
    return Date.parse(validTo) < Date.now() ? validTo : null;
  } catch {
    return null;
  }
}

/** A Status object, or the first line of what a proxy in front of the API server sent instead. */
function statusOf(body: Buffer): {readonly message: string; readonly reason: string} {
  const text = body.toString('utf8');
  try {
    const {message, reason} = JSON.parse(text) as {message?: unknown; reason?: unknown};
    return {message: typeof message === 'string' ? message : '', reason: typeof reason === 'string' ? reason : ''};
  } catch {
    return {message: /^\s*</.test(text) ? '' : (text.trim().split('\n', 1)[0] ?? '').slice(0, 200), reason: ''};
  }
}

/** Whether an answer is from the API server itself, not from a backend: a Status object, or the plain text of old versions. */
export function isStatus(body: Buffer): boolean {
  return /^\s*(?:\{\s*"kind":\s*"Status"|error trying to reach service)/i.test(body.toString('latin1', 0, 100));
}

/** The error for a request without an answer. */
export function noAnswer(error: unknown, {what, connection}: FailedRequest): ApiError {
  if (error instanceof ApiError) return error;
  const why = explain(error, connection);
  return new ApiError(`cannot ${what}: ${why}`, {status: null, cause: error});
}

function explain(error: unknown, {server, description, trust}: Connection): string {
  const {code = '', name = '', message = String(error)} = error as NodeJS.ErrnoException;
  if (error instanceof ProxyError) return `${message}. Is proxy-url or HTTPS_PROXY right? NO_PROXY makes an exception.`;
  if (name === 'TimeoutError') return `${server.host} did not answer in time. --request-timeout says how long to wait.`;
  if (name === 'AbortError') return 'stopped.';
  if (code in tlsProblems) return `${tlsProblems[code]} (${code})`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const {subjectaltname: names} = (error as {readonly cert?: {readonly subjectaltname?: string}}).cert ?? {};
    const other = names === undefined || names === '' ? 'another name than' : `${names}, and not for`;
    return `the certificate of ${server.host} is for ${other} ${trust.serverName ?? server.hostname}. If it is the right server, name it with --tls-server-name.`;
  }
  if (/^ERR_SSL_.*ALERT/.test(code)) return `${server.host} does not accept the client certificate, or asks for one (${code}).`;
  if (code === 'EPROTO' || /^ERR_SSL_(?:WRONG|PACKET)/.test(code))
    return `${server.host} does not speak TLS. Is the server's port right, and https://?`;
  if (code === 'ECONNREFUSED')
    return `nothing listens at ${server.host} (ECONNREFUSED). Is the cluster running, and is this the right one: ${description}?`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `the name ${server.hostname} cannot be resolved (${code}). Is this the right cluster: ${description}? Is a VPN needed?`;
  if (['ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH'].includes(code))
    return `${server.host} does not answer (${code}). Is a VPN or a proxy needed?`;
  if (code === 'ECONNRESET' || code === 'EPIPE') return `${server.host} broke off the connection (${code}).`;
  return `${message}${code === '' ? '' : ` (${code})`}.`;
}

const untrusted =
  'the certificate of the API server is from an authority that the kubeconfig does not trust. Is the kubeconfig of this cluster, or of one that had this address before?';

const tlsProblems: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  CERT_SIGNATURE_FAILURE: untrusted,
  CERT_HAS_EXPIRED: 'the certificate of the API server has expired. Is the clock of this machine right?',
  CERT_NOT_YET_VALID: 'the certificate of the API server is not valid yet. Is the clock of this machine right?',
};
