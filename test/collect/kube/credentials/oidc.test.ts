import {readFileSync, statSync, writeFileSync} from 'node:fs';
import {createServer, type Server} from 'node:https';
import type {AddressInfo} from 'node:net';
import {join} from 'node:path';
import {CORE_SCHEMA, load} from 'js-yaml';
import {describe, expect, onTestFinished, test} from 'vitest';
import {loadConnection} from '../../../../src/collect/kube/load-connection.ts';
import {certificate, certificateFile} from '../../../stand-in/certificates.ts';
import {folderWith, kubeconfig} from '../files.ts';

interface Asked {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly form: Readonly<Record<string, string>>;
}

/** An issuer that answers requests for tokens with the given response, and records every request. */
async function issuer(answer: (asked: Asked) => readonly [status: number, body: object]) {
  const asked: Asked[] = [];
  const server: Server = createServer({cert: certificate('server.crt'), key: certificate('server.key')}, async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString('utf8');
    const path = request.url ?? '';
    if (path === '/realm/.well-known/openid-configuration') {
      response.end(JSON.stringify({token_endpoint: `${url}/token`}));
      return;
    }
    const one = {path, authorization: request.headers.authorization, form: Object.fromEntries(new URLSearchParams(body))};
    asked.push(one);
    const [status, content] = answer(one);
    response.writeHead(status, {'content-type': 'application/json'}).end(JSON.stringify(content));
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const url = `https://localhost:${(server.address() as AddressInfo).port}`;
  return {issuer: `${url}/realm/`, asked};
}

function tokenUntil(exp: number): string {
  return `e30.${Buffer.from(JSON.stringify({exp})).toString('base64url')}.x`;
}

const [expired, fresh] = [tokenUntil(1), tokenUntil(Date.now() / 1000 + 3600)];

/** A kubeconfig of which a user logs in with OIDC, and its credentials. */
function oidcUser(config: Readonly<Record<string, string>>) {
  const provider = {
    name: 'oidc',
    config: {'id-token': expired, 'client-id': 'kube', 'idp-certificate-authority': certificateFile('ca.crt'), ...config},
  };
  const folder = folderWith({
    config: kubeconfig('a', {user: {token: '', 'auth-provider': provider}, cluster: {extensions: [{name: 'kept', extension: {a: ['b']}}]}}),
  });
  const file = join(folder, 'config');
  const {credentials} = loadConnection({}, {environment: {KUBECONFIG: file}, interactive: false});
  return {credentials, file, provider};
}

function userIn(file: string): Readonly<Record<string, string>> {
  const document = load(readFileSync(file, 'utf8'), {schema: CORE_SCHEMA}) as {
    users: {user: {'auth-provider': {config: Record<string, string>}}}[];
  };
  return document.users[0]?.user['auth-provider'].config ?? {};
}

describe('an OIDC token that has expired', () => {
  test('is renewed once for all pending requests, and both new tokens are written back', async () => {
    const {issuer: url, asked} = await issuer(() => [200, {id_token: fresh, refresh_token: 'second'}]);
    const {credentials, file, provider} = oidcUser({'idp-issuer-url': url, 'refresh-token': 'first', 'client-secret': 'a b:c'});
    const before = statSync(file).mode;
    const all = await Promise.all([credentials.current(), credentials.current()]);
    expect(all.map(({authorization}) => authorization)).toEqual([`Bearer ${fresh}`, `Bearer ${fresh}`]);
    expect(asked).toEqual([
      {
        path: '/token',
        authorization: `Basic ${Buffer.from('kube:a%20b%3Ac').toString('base64')}`,
        form: {grant_type: 'refresh_token', refresh_token: 'first'},
      },
    ]);
    expect(userIn(file)).toEqual({...provider.config, 'id-token': fresh, 'refresh-token': 'second'});
    expect(load(readFileSync(file, 'utf8'))).toMatchObject({clusters: [{cluster: {extensions: [{name: 'kept', extension: {a: ['b']}}]}}]});
    expect(statSync(file).mode).toBe(before);
  });

  test('is renewed with the client in the body if the issuer accepts no header', async () => {
    const {issuer: url, asked} = await issuer(({authorization}) =>
      authorization === undefined ? [200, {id_token: fresh}] : [401, {error: 'invalid_client'}],
    );
    const {credentials, file} = oidcUser({'idp-issuer-url': url, 'refresh-token': 'stays', 'client-secret': 's'});
    expect((await credentials.current()).authorization).toBe(`Bearer ${fresh}`);
    expect(asked[1]?.form).toEqual({grant_type: 'refresh_token', refresh_token: 'stays', client_id: 'kube', client_secret: 's'});
    expect(userIn(file)['refresh-token']).toBe('stays');
  });

  test.each<[string, Readonly<Record<string, string>>, RegExp]>([
    ['an expired refresh token', {'refresh-token': 'old'}, /answered 400 without an id_token \(invalid_grant: expired\)\. Log in again/],
    ['no refresh token', {}, /its auth-provider has no refresh-token\. Log in again/],
    ['no client', {'refresh-token': 'x', 'client-id': ''}, /its auth-provider has no client-id/],
    ['an issuer that is not a URL', {'refresh-token': 'x', 'idp-issuer-url': 'nowhere'}, /idp-issuer-url nowhere is no URL/],
    [
      'an issuer whose certificate is not trusted',
      {'refresh-token': 'x', 'idp-certificate-authority': ''},
      /could not be renewed: .*certificate/,
    ],
  ])('with %s is an error with the reason, and the kubeconfig stays unchanged', async (_, config, says) => {
    const {issuer: url} = await issuer(() => [400, {error: 'invalid_grant', error_description: 'expired'}]);
    const {credentials, file} = oidcUser({'idp-issuer-url': url, ...config});
    const before = readFileSync(file, 'utf8');
    await expect(credentials.current()).rejects.toThrow(says);
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  test('is not renewed while another process holds the lock', async () => {
    const {issuer: url} = await issuer(() => [200, {id_token: fresh}]);
    const {credentials, file} = oidcUser({'idp-issuer-url': url, 'refresh-token': 'x'});
    writeFileSync(`${file}.lock`, '');
    await expect(credentials.current()).rejects.toThrow(/EEXIST.*config\.lock/);
    expect(userIn(file)['id-token']).toBe(expired);
  });
});
