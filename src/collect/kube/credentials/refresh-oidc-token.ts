import type {RequestOptions} from 'node:https';
import {chooseProxy} from '../choose-proxy.ts';
import {KubectlConfig} from '../kubectl-config.ts';
import {type ApiResponse, sendRequest} from '../send-request.ts';
import {pemOf} from '../pem.ts';
import {fixedCredentials} from './credentials.ts';

/** A client of an OpenID Connect issuer. */
export interface OidcClient {
  readonly refreshToken: string;
  readonly issuer: string;
  readonly clientId: string;
  /** Empty for a public client. */
  readonly clientSecret: string;
  /** The authority that signed the issuer's certificate, if the system does not know it. */
  readonly authority: {readonly file: string | undefined; readonly data: string | undefined};
}

interface OidcTokens {
  readonly idToken: string;
  /** Null if the previous one stays valid. */
  readonly refreshToken: string | null;
}

/** Requests a new token from the issuer: finds its token endpoint, then authenticates in a header and, if that is refused, in the body. */
export async function refreshOidcToken(client: OidcClient, environment: NodeJS.ProcessEnv): Promise<OidcTokens> {
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
      ...{description: url.href, server: url, namespace: '', trust: {ca, serverName: null, verify: true}},
      ...{proxy: chooseProxy(url, undefined, environment), compression: false, impersonation: {}, credentials: fixedCredentials('none')},
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
  const value = status === 200 ? jsonOf(body)[field] : null;
  return typeof value === 'string' && value !== '' ? value : null;
}

/** The issuer's error code: `invalid_grant` for a refresh token that is no longer valid. */
function errorOf({body}: ApiResponse): string {
  const {error, error_description: description} = jsonOf(body);
  const parts = [error, description].filter(part => typeof part === 'string');
  return parts.length === 0 ? '' : ` (${parts.join(': ')})`;
}

function jsonOf(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}
