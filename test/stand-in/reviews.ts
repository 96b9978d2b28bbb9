import {randomBytes} from 'node:crypto';
import {apiAudience, audiencesOf, type TokenUser, type UserInfo, userOf} from './authentication.ts';
import type {ResourceRequest, UrlRequest} from './resources.ts';
import {type Answer, failure} from './status.ts';

type Tokens = Record<string, TokenUser>;

/** Says whose token it is, as the API server does: without audiences it is to be for the API server. */
export function tokenReview(body: object | null, tokens: Readonly<Tokens>): Answer {
  const {token = '', audiences = []} = (body as {spec?: {token?: string; audiences?: readonly string[]}} | null)?.spec ?? {};
  if (token === '') return failure(400, 'token is required for TokenReview in authentication');
  const asked = audiences.length === 0 ? [apiAudience] : audiences;
  const user = userOf(token, asked, tokens);
  const known = tokens[token];
  const status =
    user === null || known === undefined
      ? {user: {}, error: '[invalid bearer token, unknown]'}
      : {
          authenticated: true,
          user: {username: user.name, groups: user.groups},
          audiences: asked.filter(audience => audiencesOf(known).includes(audience)),
        };
  return {status: 201, body: {kind: 'TokenReview', apiVersion: 'authentication.k8s.io/v1', metadata: {}, spec: {token, audiences}, status}};
}

export interface Authorizer {
  readonly resource: (request: ResourceRequest, user: UserInfo) => boolean;
  readonly url: (request: UrlRequest, user: UserInfo) => boolean;
}

interface AccessSpec {
  readonly resourceAttributes?: Partial<ResourceRequest>;
  readonly nonResourceAttributes?: UrlRequest;
  readonly user?: string;
  readonly groups?: readonly string[];
}

/** Whether a user may do something: `user`, or the user that the review names if it is null. */
export function accessReview(body: object | null, user: UserInfo | null, authorizer: Authorizer): Answer {
  const spec = (body as {spec?: AccessSpec} | null)?.spec ?? {};
  const {resourceAttributes, nonResourceAttributes: url, user: name = '', groups = []} = spec;
  const who = user ?? {name, groups};
  const request = {verb: 'get', group: '', resource: '', subresource: '', namespace: '', name: '', ...resourceAttributes} as const;
  const allowed = url === undefined ? authorizer.resource(request, who) : authorizer.url(url, who);
  const kind = user === null ? 'SubjectAccessReview' : 'SelfSubjectAccessReview';
  return {status: 201, body: {kind, apiVersion: 'authorization.k8s.io/v1', metadata: {}, spec, status: {allowed}}};
}

/** Makes a token of a ServiceAccount and keeps it among the others. It looks like a JWT, whose claims say for whom it is. */
export function tokenRequest(body: object | null, {namespace, name}: ResourceRequest, tokens: Tokens): Answer {
  const {audiences = [apiAudience], expirationSeconds = 3600} =
    (body as {spec?: {audiences?: readonly string[]; expirationSeconds?: number}} | null)?.spec ?? {};
  if (expirationSeconds < 600)
    return failure(422, 'spec.expirationSeconds: Invalid value: may not specify a duration less than 10 minutes');
  const expires = Date.now() + expirationSeconds * 1000;
  const user = `system:serviceaccount:${namespace}:${name}`;
  const token = tokenFor(user, audiences, expires);
  tokens[token] = {
    user,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`],
    audiences,
    get expired() {
      return Date.now() > expires;
    },
  };
  const status = {token, expirationTimestamp: new Date(expires).toISOString()};
  return {status: 201, body: {kind: 'TokenRequest', apiVersion: 'authentication.k8s.io/v1', spec: {audiences, expirationSeconds}, status}};
}

/** A token that looks like a JWT, whose claims say whose it is, for whom, and until when (milliseconds since 1970). */
export function tokenFor(user: string, audiences: readonly string[], expires = Date.now() + 3_600_000): string {
  const parts = [{alg: 'RS256'}, {aud: audiences, sub: user, exp: Math.floor(expires / 1000)}];
  return [...parts.map(part => Buffer.from(JSON.stringify(part)).toString('base64url')), randomBytes(32).toString('base64url')].join('.');
}
