import {readFileSync, writeFileSync} from 'node:fs';
import {delimiter, join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {describe, expect, onTestFinished, test} from 'vitest';
import {type ConnectionFlags, KubeconfigError} from '../../../src/collect/kube/kubeconfig.ts';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {type ApiServer, type LoggedRequest, startApiServer} from '../../stand-in/api-server.ts';
import {certificate, certificateFile} from '../../stand-in/certificates.ts';
import {folderWith, kubeconfig} from './files.ts';
import {startProxy, startSocks} from './proxies.ts';
import {kubectl as anyKubectl, testWith} from '../../require.ts';

// Holds this client against what kubectl 1.36 did with the same kubeconfigs and flags, which is recorded.
// SVC_TRACE_KUBECTL=kubectl npx vitest run test/collect/kube/kubectl.test.ts holds the recording, and the stand-in, against a real kubectl;
// with SVC_TRACE_RECORD=1 it is recorded again (npm run format fixes its style).
const kubectl = process.env['SVC_TRACE_KUBECTL'];
const file = join(import.meta.dirname, 'kubectl.recorded.json');
const recording = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;

/** What kubectl did, as recorded; where there is a kubectl, the recording must still be right. */
async function recorded(key: string, ask: () => Promise<unknown>): Promise<unknown> {
  if (kubectl === undefined) return recording[key];
  const answer: unknown = JSON.parse(JSON.stringify(await ask()));
  if (process.env['SVC_TRACE_RECORD']) {
    recording[key] = answer;
    writeFileSync(file, `${JSON.stringify(recording, null, 2)}\n`);
  }
  expect(answer).toEqual(recording[key]);
  return answer;
}

const pod = {
  metadata: {name: 'kube-proxy-a', namespace: 'kube-system'},
  spec: {nodeName: 'node-a', containers: [{name: 'kube-proxy', image: 'x'}]},
  status: {phase: 'Running'},
};

async function start(): Promise<ApiServer> {
  const server = await startApiServer({objects: {pods: [pod]}, tokens: {mine: {user: 'ann'}, 'ann:secret': {user: 'ann'}}});
  onTestFinished(() => server.close());
  return server;
}

describe('like kubectl', () => {
  const run = (args: readonly string[], environment: NodeJS.ProcessEnv) =>
    execa(kubectl ?? anyKubectl, [...args], {
      env: {PATH: process.env['PATH'], HOME: '/nonexistent', ...environment} as Record<string, string>,
      extendEnv: false,
      reject: false,
      stdin: 'ignore',
    });

  test('files of KUBECONFIG are merged', async () => {
    const folder = folderWith({
      a: {...kubeconfig('x', {cluster: {'certificate-authority': 'pki/a.crt'}, user: {token: 'a'}}), 'current-context': ''},
      'sub/b': {
        ...kubeconfig('x', {cluster: {server: 'https://b', 'tls-server-name': 'b'}, user: {token: 'b'}, context: {namespace: 'b'}}),
        'current-context': 'y',
      },
      c: kubeconfig('y', {
        context: {namespace: 'c'},
        user: {token: '', tokenFile: 'token'},
        cluster: {'certificate-authority': 'pki/a.crt'},
      }),
      d: {...kubeconfig('z'), users: [], 'current-context': 'x'},
      'pki/a.crt': 'PEM',
      token: 'from the file',
    });
    const KUBECONFIG = ['none', 'a', 'sub/b', 'c', 'd'].map(name => join(folder, name)).join(delimiter);
    for (const context of [undefined, 'x', 'y']) {
      const theirs = await recorded(`merge ${context ?? 'current'}`, async () => {
        const args = ['config', 'view', '--minify', '--raw', '-o', 'json', ...(context ? ['--context', context] : [])];
        return summary(JSON.parse((await run(args, {KUBECONFIG})).stdout) as Minified);
      });
      const ours = loadConnection({context}, {environment: {KUBECONFIG}});
      const {authorization} = await ours.credentials.current();
      expect({
        context: /"(.*)"/.exec(ours.description)?.[1],
        server: ours.server.href,
        namespace: ours.namespace,
        serverName: ours.trust.serverName,
        ca: ours.trust.ca !== null,
        token: authorization === 'Bearer from the file' ? 'token file' : authorization?.replace('Bearer ', ''),
      }).toEqual(theirs);
    }
  });

  test.each<[string, object, ConnectionFlags, readonly string[]]>([
    ['a token', {token: 'mine'}, {}, []],
    ['--token', {token: 'other'}, {token: 'mine'}, ['--token=mine']],
    ['a password', {username: 'ann', password: 'secret'}, {}, []],
    ['a client certificate', {'client-certificate': certificateFile('client.crt'), 'client-key': certificateFile('client.key')}, {}, []],
    [
      'impersonation by the file',
      {token: 'mine', as: 'jörg', 'as-uid': '7', 'as-groups': ['a', 'b'], 'as-user-extra': {'x.example/y z%': ['1', '2']}},
      {},
      [],
    ],
    [
      'impersonation by flags',
      {token: 'mine', as: 'x', 'as-groups': ['a']},
      {as: 'eve', 'as-group': ['g', 'h'], 'as-uid': '9'},
      ['--as=eve', '--as-group=g', '--as-group=h', '--as-uid=9'],
    ],
    [
      'extra of a user to impersonate',
      {token: 'mine', as: 'x', 'as-user-extra': {a: ['9'], z: ['8']}},
      {as: 'eve', 'as-user-extra': ['a=1', 'a=2', 'Ab/c=d=e']},
      ['--as=eve', '--as-user-extra=a=1', '--as-user-extra=a=2', '--as-user-extra=Ab/c=d=e'],
    ],
    ['--tls-server-name', {token: 'mine'}, {'tls-server-name': 'localhost'}, ['--tls-server-name=localhost']],
  ])('with %s the requests are the same as those of kubectl', async (name, user, flags, args) => {
    const server = await start();
    const folder = folderWith({
      config: kubeconfig('a', {cluster: {server: server.url, 'certificate-authority': server.ca}, user: {token: '', ...user}}),
    });
    const KUBECONFIG = join(folder, 'config');
    const theirs = await recorded(name, async () => {
      await run(['get', '--raw', '/version', ...args], {KUBECONFIG});
      return server.requests.splice(0).map(said);
    });
    const api = createKubeApi(loadConnection(flags, {environment: {KUBECONFIG}}));
    await api.get('/version').catch(() => {});
    api.close();
    expect(server.requests.map(said)).toEqual(theirs);
  });

  const token = {apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status: {token: 'mine'}};
  test.each<[string, object]>([
    ['a token file before a token', {token: 'other', tokenFile: 'token'}],
    ['a token before a plugin', {token: 'mine', exec: {apiVersion: token.apiVersion, command: './fails', interactiveMode: 'Never'}}],
    ['the token of a plugin', {token: '', exec: {apiVersion: token.apiVersion, command: './plugin', interactiveMode: 'IfAvailable'}}],
    [
      'a plugin with arguments and variables',
      {
        token: '',
        exec: {
          apiVersion: token.apiVersion,
          command: 'sh',
          args: ['-c', 'echo "$ANSWER"'],
          env: [{name: 'ANSWER', value: JSON.stringify(token)}],
          interactiveMode: 'Never',
        },
      },
    ],
    [
      'a plugin that answers in another version',
      {token: '', exec: {apiVersion: 'client.authentication.k8s.io/v1beta1', command: './plugin', interactiveMode: 'Never'}},
    ],
  ])('%s is used', async (name, user) => {
    const server = await start();
    const folder = folderWith({
      config: kubeconfig('a', {cluster: {server: server.url, 'certificate-authority': server.ca}, user}),
      token: 'mine\n',
      plugin: `#!/bin/sh\necho '${JSON.stringify(token)}'\n`,
      fails: '#!/bin/sh\nexit 1\n',
    });
    const KUBECONFIG = join(folder, 'config');
    const theirs = await recorded(name, async () => {
      await run(['get', '--raw', '/version'], {KUBECONFIG});
      return server.requests.splice(0).map(said);
    });
    const api = createKubeApi(loadConnection({}, {environment: {KUBECONFIG, PATH: process.env['PATH']}, interactive: false}));
    await api.get('/version').catch(() => {});
    api.close();
    expect(server.requests.map(said)).toEqual(theirs);
  });

  test('a proxy gets the same requests, and none bypasses it', async () => {
    const server = await start();
    const proxy = await startProxy();
    const socks = await startSocks();
    for (const [name, url] of [
      ['http', `http://ann:s%20t@127.0.0.1:${proxy.port}`],
      ['socks5', `socks5://127.0.0.1:${socks}`],
    ] as const) {
      const cluster = {server: server.url, 'certificate-authority': server.ca, 'proxy-url': url};
      const KUBECONFIG = join(folderWith({config: kubeconfig('a', {cluster, user: {token: 'mine'}})}), 'config');
      const asked = () => ({proxy: proxy.seen.splice(0).map(withoutPort), server: server.requests.splice(0).map(said)});
      const theirs = await recorded(`proxy ${name}`, async () => {
        await run(['get', '--raw', '/version'], {KUBECONFIG});
        return asked();
      });
      const api = createKubeApi(loadConnection({}, {environment: {KUBECONFIG}}));
      await api.get('/version');
      api.close();
      expect(asked()).toEqual(theirs);
    }
  });

  const execPlugin = {apiVersion: 'client.authentication.k8s.io/v1beta1', command: 'x'};
  test.each<[string, Parameters<typeof kubeconfig>[1], ConnectionFlags, readonly string[]]>([
    ['both forms of the authority', {cluster: {'certificate-authority-data': 'eA=='}}, {}, []],
    ['an authority that is ignored', {cluster: {'insecure-skip-tls-verify': true}}, {}, []],
    ['a token and a password', {user: {username: 'ann', password: 'secret'}}, {}, []],
    ['a certificate without a key', {user: {'client-certificate-data': 'eA=='}}, {}, []],
    ['groups without a user', {user: {'as-groups': ['a']}}, {}, []],
    ['a plugin without a command', {user: {token: '', exec: {apiVersion: execPlugin.apiVersion}}}, {}, []],
    [
      'a plugin of an unknown version',
      {user: {token: '', exec: {...execPlugin, apiVersion: 'client.authentication.k8s.io/v1alpha1'}}},
      {},
      [],
    ],
    [
      'a v1 plugin without interactiveMode',
      {user: {token: '', exec: {...execPlugin, apiVersion: 'client.authentication.k8s.io/v1'}}},
      {},
      [],
    ],
    ['a plugin and an auth-provider', {user: {exec: execPlugin, 'auth-provider': {name: 'oidc'}}}, {}, []],
    ['a removed auth-provider', {user: {token: '', 'auth-provider': {name: 'gcp'}}}, {}, []],
    ['a numeric token', {user: {token: 123}}, {}, []],
    ['a proxy of another kind', {cluster: {'proxy-url': 'ftp://x'}}, {}, []],
    ['a missing context', {}, {context: 'nope'}, ['--context=nope']],
    ['a missing cluster', {}, {cluster: 'nope'}, ['--cluster=nope']],
    ['a missing user', {}, {user: 'nope'}, ['--user=nope']],
    ['a context of a missing cluster', {context: {cluster: 'nope'}}, {}, []],
  ])('%s is refused before anything is sent', async (name, {cluster, ...parts} = {}, flags, args) => {
    const server = await start();
    const trusted = {server: server.url, 'certificate-authority': server.ca, ...cluster};
    const KUBECONFIG = join(folderWith({config: kubeconfig('a', {...parts, cluster: trusted})}), 'config');
    const refused = await recorded(
      `${name} refused`,
      async () => (await run(['get', '--raw', '/version', ...args], {KUBECONFIG})).exitCode !== 0,
    );
    expect(refused).toBe(true);
    expect(() => loadConnection(flags, {environment: {KUBECONFIG}, serviceAccountFolder: '/nonexistent'})).toThrow(KubeconfigError);
    expect(server.requests).toEqual([]);
  });

  const told = '#!/bin/sh\nprintf %s "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/told"\nexit 1\n';
  const extensions = [
    {name: 'client.authentication.k8s.io/exec', extension: {audience: 'x'}},
    {name: 'other', extension: 1},
  ];
  test.each<[string, object, object]>([
    ['v1', {}, {interactiveMode: 'IfAvailable'}],
    ['v1', {}, {interactiveMode: 'Never', provideClusterInfo: true}],
    [
      'v1beta1',
      {'tls-server-name': 'inner', 'proxy-url': 'http://127.0.0.1:2', 'disable-compression': true, extensions},
      {provideClusterInfo: true},
    ],
    ['v1', {'certificate-authority': undefined, 'insecure-skip-tls-verify': true}, {interactiveMode: 'Never', provideClusterInfo: true}],
  ])('a credential plugin of %s with %j and %j gets the same input', async (version, cluster, exec) => {
    const plugin = {apiVersion: `client.authentication.k8s.io/${version}`, command: './plugin', ...exec};
    const address = {server: 'https://127.0.0.1:1', 'certificate-authority': 'ca.crt', ...cluster};
    const config = kubeconfig('a', {cluster: address, user: {token: '', exec: plugin}});
    const folder = folderWith({config, plugin: told, 'ca.crt': certificate('ca.crt')});
    const KUBECONFIG = join(folder, 'config');
    const toldTo = () => JSON.parse(readFileSync(join(folder, 'told'), 'utf8')) as unknown;
    const theirs = await recorded(`told ${version} ${JSON.stringify({cluster, exec})}`, async () => {
      await run(['get', '--raw', '/version'], {KUBECONFIG});
      return toldTo();
    });
    const {credentials} = loadConnection({}, {environment: {KUBECONFIG, PATH: process.env['PATH']}, interactive: false});
    await expect(credentials.current()).rejects.toThrow(/exit code 1/);
    expect(toldTo()).toEqual(theirs);
  });

  testWith(['kubectl'], 'the stand-in API server answers kubectl get and exec, with exit codes', async () => {
    const server = await start();
    const environment = {KUBECONFIG: server.kubeconfig};
    const raw = await run(['get', '--raw', '/api/v1/namespaces/kube-system/pods?limit=5'], environment);
    expect(JSON.parse(raw.stdout)).toMatchObject({kind: 'PodList', items: [{metadata: {name: 'kube-proxy-a'}}]});
    const exec = await run(['exec', '-n', 'kube-system', 'kube-proxy-a', '--', 'sh', '-c', 'echo out; echo err >&2; exit 7'], environment);
    expect(exec).toMatchObject({stdout: 'out', stderr: expect.stringContaining('err'), exitCode: 7});
    expect(server.requests.at(-1)).toMatchObject({resource: {subresource: 'exec'}, argv: ['sh', '-c', 'echo out; echo err >&2; exit 7']});
  });
});

function withoutPort(text: string): string {
  return text.replace(/:\d+/, '');
}

interface Minified {
  readonly 'current-context': string;
  readonly clusters: readonly {readonly cluster: Record<string, string>}[];
  readonly users: readonly {readonly user: Record<string, string>}[];
  readonly contexts: readonly {readonly context: {readonly namespace?: string}}[];
}

function summary({'current-context': context, clusters, users, contexts}: Minified): object {
  const cluster = clusters[0]?.cluster ?? {};
  const user = users[0]?.user ?? {};
  return {
    context,
    server: new URL(cluster['server'] ?? '').href,
    namespace: contexts[0]?.context.namespace ?? 'default',
    serverName: cluster['tls-server-name'] ?? null,
    ca: cluster['certificate-authority'] !== undefined,
    token: user['tokenFile'] ? 'token file' : user['token'],
  };
}

function said({method, path, user, headers}: LoggedRequest): object {
  const {authorization} = headers;
  return {method, path, user, authorization: authorization ?? null};
}
