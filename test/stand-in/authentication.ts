import type {IncomingMessage} from 'node:http';
import type {TLSSocket} from 'node:tls';

export interface UserInfo {
  readonly name: string;
  readonly groups: readonly string[];
  readonly uid?: string;
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export interface TokenUser {
  readonly user: string;
  readonly groups?: readonly string[];
  /** Refused from then on, as a token is that has expired. */
  expired?: boolean;
  /** The audience of the token, by default the API server. */
  readonly audiences?: readonly string[];
}

/** Who asks: by token, password or client certificate, then by impersonation. Null where a credential is not accepted (401). */
export function authenticate(request: IncomingMessage, tokens: Readonly<Record<string, TokenUser>>): UserInfo | null {
  const user = byAuthorization(request.headers.authorization, tokens);
  if (user === null) return null;
  return impersonated(request, user ?? byCertificate(request) ?? {name: 'system:anonymous', groups: ['system:unauthenticated']});
}

/** The audience of the API server itself. */
export const apiAudience = 'https://kubernetes.default.svc.cluster.local';

/** Undefined where there is no such header. A password counts as the token `user:password`. */
function byAuthorization(header: string | undefined, tokens: Readonly<Record<string, TokenUser>>): UserInfo | null | undefined {
  if (header === undefined) return undefined;
  const [scheme, value = ''] = header.split(' ');
  return userOf(scheme === 'Basic' ? Buffer.from(value, 'base64').toString('utf8') : value, [apiAudience], tokens);
}

/** The user of a token for one of these audiences; null if the token is invalid. */
export function userOf(token: string, audiences: readonly string[], tokens: Readonly<Record<string, TokenUser>>): UserInfo | null {
  const known = tokens[token];
  if (known === undefined || known.expired) return null;
  if (!audiences.some(audience => audiencesOf(known).includes(audience))) return null;
  return {name: known.user, groups: [...(known.groups ?? []), 'system:authenticated']};
}

export function audiencesOf({audiences = [apiAudience]}: TokenUser): readonly string[] {
  return audiences;
}

function byCertificate({socket}: IncomingMessage): UserInfo | undefined {
  const {authorized, getPeerCertificate} = socket as TLSSocket;
  if (!authorized) return undefined;
  const {CN = '', O = []} = getPeerCertificate.call(socket).subject;
  return {name: [CN].flat().join(), groups: [...[O].flat(), 'system:authenticated']};
}

function impersonated({headersDistinct: headers}: IncomingMessage, user: UserInfo): UserInfo {
  const name = headers['impersonate-user']?.[0];
  if (name === undefined) return user;
  const uid = headers['impersonate-uid']?.[0];
  const prefix = 'impersonate-extra-';
  const extra = Object.entries(headers).filter(([header]) => header.startsWith(prefix));
  return {
    name: utf8(name),
    groups: [...(headers['impersonate-group'] ?? []).map(utf8), 'system:authenticated'],
    ...(uid === undefined ? {} : {uid}),
    extra: Object.fromEntries(extra.map(([header, values]) => [decodeURIComponent(header.slice(prefix.length)), (values ?? []).map(utf8)])),
  };
}

function utf8(text: string): string {
  return Buffer.from(text, 'latin1').toString('utf8');
}
