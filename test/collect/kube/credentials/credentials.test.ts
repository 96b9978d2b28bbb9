import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {describe, expect, test, vi} from 'vitest';
import {ApiError} from '../../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../../src/collect/kube/load-connection.ts';
import {folderWith, kubeconfig} from '../files.ts';

const v1 = 'client.authentication.k8s.io/v1';
const node = process.execPath;

/** A plugin that records its input and prints the content of `answer.json` beside it. */
const plugin = `#!${node}
const {readFileSync, appendFileSync} = require('node:fs');
appendFileSync(__dirname + '/calls', JSON.stringify({args: process.argv.slice(2), info: JSON.parse(process.env.KUBERNETES_EXEC_INFO), color: process.env.COLOR}) + '\\n');
process.stdout.write(readFileSync(__dirname + '/answer.json'));
`;

function pluginFolder(status: object, {exec = {}, cluster = {}}: {exec?: object; cluster?: object} = {}): string {
  const user = {token: '', exec: {apiVersion: v1, command: './plugin.cjs', interactiveMode: 'IfAvailable', ...exec}};
  return folderWith({
    config: kubeconfig('a', {user, cluster}),
    'plugin.cjs': plugin,
    'answer.json': {kind: 'ExecCredential', apiVersion: v1, status},
    'ca.crt': 'PEM',
  });
}

/** One that has ended, and that nobody has waited for yet, does not run. */
function isRunning(id: number): boolean {
  return existsSync(`/proc/${id}/stat`) && !/\) Z /.test(readFileSync(`/proc/${id}/stat`, 'utf8'));
}

const credentialsIn = (folder: string, interactive = false) =>
  loadConnection({kubeconfig: join(folder, 'config')}, {environment: {PATH: process.env['PATH']}, interactive}).credentials;

const callsIn = (folder: string) =>
  readFileSync(join(folder, 'calls'), 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as {args: string[]; info: object; color?: string});

describe('a credential plugin', () => {
  test('that hangs is ended with what it has started', async () => {
    const hanging = '#!/bin/sh\nsleep 600 &\necho $! > "$(dirname "$0")/child"\nwait\n';
    const user = {token: '', exec: {apiVersion: v1, command: './plugin.sh', interactiveMode: 'Never'}};
    const folder = folderWith({config: kubeconfig('a', {user}), 'plugin.sh': hanging});
    const credentials = credentialsIn(folder);
    const asked = credentials.current();
    asked.catch(() => {});
    const child = await vi.waitUntil(
      () => existsSync(join(folder, 'child')) && readFileSync(join(folder, 'child'), 'utf8').trim(),
      600_000,
    );
    credentials.close?.();
    await expect(asked).rejects.toThrow(/plugin .* failed/);
    await vi.waitUntil(() => !isRunning(Number(child)), 600_000);
  });

  test('gives a token, is found beside the kubeconfig, and runs once for many requests', async () => {
    const folder = pluginFolder({token: 'T'});
    const credentials = credentialsIn(folder);
    const all = await Promise.all([credentials.current(), credentials.current(), credentials.current()]);
    expect(all.map(({authorization}) => authorization)).toEqual(['Bearer T', 'Bearer T', 'Bearer T']);
    expect(callsIn(folder)).toHaveLength(1);
  });

  test('gets its arguments and variables, and the cluster only if it requests it', async () => {
    const extensions = [{name: 'client.authentication.k8s.io/exec', extension: {audience: 'x'}}];
    const cluster = {'certificate-authority': 'ca.crt', 'tls-server-name': 'inner', extensions};
    const exec = {args: ['get', 'token'], env: [{name: 'COLOR', value: 'red'}], provideClusterInfo: true};
    const folder = pluginFolder({token: 'T'}, {cluster, exec});
    await credentialsIn(folder).current();
    expect(callsIn(folder)).toEqual([
      {
        args: ['get', 'token'],
        color: 'red',
        info: {
          kind: 'ExecCredential',
          apiVersion: v1,
          spec: {
            interactive: false,
            cluster: {
              server: 'https://a.example:6443',
              'tls-server-name': 'inner',
              'certificate-authority-data': Buffer.from('PEM').toString('base64'),
              config: {audience: 'x'},
            },
          },
        },
      },
    ]);
    const plain = pluginFolder({token: 'T'});
    await credentialsIn(plain).current();
    expect(callsIn(plain)[0]?.info).toEqual({kind: 'ExecCredential', apiVersion: v1, spec: {interactive: false}});
  });

  test.each([
    ['IfAvailable', true, true],
    ['IfAvailable', false, false],
    ['Always', true, true],
    ['Never', true, false],
  ])('with interactiveMode %s and a terminal (%s) may prompt: %s', async (interactiveMode, terminal, interactive) => {
    const folder = pluginFolder({token: 'T'}, {exec: {interactiveMode}});
    await credentialsIn(folder, terminal).current();
    expect(callsIn(folder)[0]?.info).toMatchObject({spec: {interactive}});
  });

  test('that must prompt and cannot is not run', async () => {
    const folder = pluginFolder({token: 'T'}, {exec: {interactiveMode: 'Always'}});
    await expect(credentialsIn(folder).current()).rejects.toThrow(/standard input is no terminal/);
  });

  test('is run again when its credential has expired, and not before', async () => {
    const folder = pluginFolder({token: 'old', expirationTimestamp: '2020-01-01T00:00:00Z'});
    const credentials = credentialsIn(folder);
    await credentials.current();
    answer(folder, {token: 'new', expirationTimestamp: '2999-01-01T00:00:00Z'});
    expect((await credentials.current()).authorization).toBe('Bearer new');
    await credentials.current();
    expect(callsIn(folder)).toHaveLength(2);
  });

  test('is run again once when the API server refuses its credential, however many requests were refused', async () => {
    const folder = pluginFolder({token: 'old'});
    const credentials = credentialsIn(folder);
    const refused = await credentials.current();
    answer(folder, {token: 'new'});
    expect(await Promise.all([credentials.renew(refused), credentials.renew(refused)])).toEqual([true, true]);
    expect((await credentials.current()).authorization).toBe('Bearer new');
    expect(callsIn(folder)).toHaveLength(2);
  });

  test('can give a client certificate', async () => {
    const folder = pluginFolder({clientCertificateData: 'C', clientKeyData: 'K'});
    expect(await credentialsIn(folder).current()).toEqual({authorization: null, certificate: {cert: 'C', key: 'K'}});
  });

  test('that is not installed is named, with the hint of the kubeconfig', async () => {
    const folder = pluginFolder({}, {exec: {command: 'no-such-plugin', installHint: 'Install it with krew.'}});
    await expect(credentialsIn(folder).current()).rejects.toThrow(
      /no-such-plugin.*is not installed, or not on PATH\nInstall it with krew\./,
    );
  });

  test('that fails is reported, and is run again the next time', async () => {
    const folder = pluginFolder({token: 'T'});
    writeFileSync(join(folder, 'plugin.cjs'), `#!${node}\nprocess.exit(3)`);
    const credentials = credentialsIn(folder);
    await expect(credentials.current()).rejects.toThrow(/plugin\.cjs of the kubeconfig failed: exit code 3/);
    writeFileSync(join(folder, 'plugin.cjs'), plugin);
    expect((await credentials.current()).authorization).toBe('Bearer T');
  });

  test.each([
    ['nothing', {}, /neither a token nor a client certificate/],
    ['a certificate without its key', {clientKeyData: 'K'}, /only one of certificate and key/],
  ])('that gives %s is an error', async (_, status, message) => {
    await expect(credentialsIn(pluginFolder(status)).current()).rejects.toThrow(message);
  });

  test.each([
    ['no JSON', 'a secret', /printed something that is no JSON$/],
    ['an object of another kind', '{}', /no ExecCredential/],
    ['an object of another version', JSON.stringify({kind: 'ExecCredential', apiVersion: `${v1}beta1`}), /answered in .*v1beta1/],
  ])('that prints %s is an error', async (_, text, message) => {
    const folder = pluginFolder({});
    writeFileSync(join(folder, 'answer.json'), text);
    await expect(credentialsIn(folder).current()).rejects.toThrow(message);
  });

  test('is not run if a token is given', async () => {
    const folder = pluginFolder({token: 'T'});
    const {credentials} = loadConnection({kubeconfig: join(folder, 'config'), token: 'mine'}, {environment: {}});
    expect((await credentials.current()).authorization).toBe('Bearer mine');
  });
});

describe('a token file', () => {
  test('is read for each request, and its last token is used while it cannot be read', async () => {
    const folder = folderWith({config: kubeconfig('a', {user: {token: 'spare', tokenFile: 'token'}})});
    const credentials = credentialsIn(folder);
    expect((await credentials.current()).authorization).toBe('Bearer spare');
    writeFileSync(join(folder, 'token'), 'one\n');
    const first = await credentials.current();
    expect(first.authorization).toBe('Bearer one');
    expect(await credentials.renew(first)).toBe(false);
    writeFileSync(join(folder, 'token'), 'two\n');
    expect(await credentials.renew(first)).toBe(true);
    writeFileSync(join(folder, 'token'), '');
    expect((await credentials.current()).authorization).toBe('Bearer two');
  });

  test('that does not exist is an error', async () => {
    const folder = folderWith({config: kubeconfig('a', {user: {token: '', tokenFile: 'none'}})});
    await expect(credentialsIn(folder).current()).rejects.toThrow(ApiError);
  });
});

describe('an OIDC token', () => {
  const oidc = (claims: object) => {
    const token = `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`;
    return {
      token,
      folder: folderWith({config: kubeconfig('a', {user: {token: '', 'auth-provider': {name: 'oidc', config: {'id-token': token}}}})}),
    };
  };

  test('is used for as long as it is valid', async () => {
    const {token, folder} = oidc({exp: Date.now() / 1000 + 60});
    expect((await credentialsIn(folder).current()).authorization).toBe(`Bearer ${token}`);
  });

  test('that has expired and cannot be renewed is reported with what is missing', async () => {
    await expect(credentialsIn(oidc({exp: 1}).folder).current()).rejects.toThrow(/has expired.*no refresh-token.*Log in again/);
  });
});

function answer(folder: string, status: object): void {
  writeFileSync(join(folder, 'answer.json'), JSON.stringify({kind: 'ExecCredential', apiVersion: v1, status}));
}
