import {delimiter, join} from 'node:path';
import {describe, expect, test} from 'vitest';
import {type ConnectionFlags, KubeconfigError} from '../../../src/collect/kube/kubeconfig.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {certificate, certificateFile} from '../../stand-in/certificates.ts';
import {folderWith, kubeconfig} from './files.ts';

const load = (environment: NodeJS.ProcessEnv, flags: ConnectionFlags = {}, serviceAccountFolder = '/nonexistent') =>
  loadConnection(flags, {environment: {HOME: '/nonexistent', ...environment}, serviceAccountFolder, interactive: false});

const loadFile = (content: object | string, flags: ConnectionFlags = {}, environment: NodeJS.ProcessEnv = {}) =>
  load({...environment, KUBECONFIG: join(folderWith({config: content}), 'config')}, flags);

const authorization = async (connection: ReturnType<typeof load>) => (await connection.credentials.current()).authorization;

describe('the files that are read', () => {
  test('of the files in KUBECONFIG the first that defines a name wins completely', async () => {
    const folder = folderWith({
      a: kubeconfig('x', {cluster: {server: 'https://a'}, user: {token: 'a'}}),
      b: {...kubeconfig('x', {cluster: {server: 'https://b', 'tls-server-name': 'b'}, context: {namespace: 'b'}}), 'current-context': 'y'},
      c: kubeconfig('y'),
    });
    const connection = load({KUBECONFIG: ['a', 'b', 'c'].map(name => join(folder, name)).join(delimiter)});
    expect(connection).toMatchObject({server: new URL('https://a'), namespace: 'default', trust: {serverName: null}});
    expect(await authorization(connection)).toBe('Bearer a');
  });

  test('current-context comes from the first file that has one', () => {
    const folder = folderWith({a: {...kubeconfig('a'), 'current-context': ''}, b: kubeconfig('b'), c: kubeconfig('c')});
    const connection = load({KUBECONFIG: ['a', 'b', 'c'].map(name => join(folder, name)).join(delimiter)});
    expect(connection.description).toBe('context "b" at https://b.example:6443/');
  });

  test('the password in the address of a server is shown nowhere', () => {
    const secret = (server: string) => load({KUBECONFIG: join(folderWith({a: kubeconfig('a', {cluster: {server}})}), 'a')});
    expect(secret('https://ann:hush@a.example:6443').description).toBe('context "a" at https://a.example:6443/');
    expect(() => secret('ftp://ann:hush@a.example')).toThrow('the server "ftp://a.example" is no URL');
  });

  test('files of KUBECONFIG that are missing, empty or without a name are skipped', () => {
    const folder = folderWith({a: '', b: kubeconfig('b')});
    const connection = load({KUBECONFIG: [join(folder, 'none'), '', join(folder, 'a'), join(folder, 'b')].join(delimiter)});
    expect(connection.server.host).toBe('b.example:6443');
  });

  test('an empty KUBECONFIG stands for ~/.kube/config', () => {
    const folder = folderWith({'.kube/config': kubeconfig('home')});
    expect(load({KUBECONFIG: '', HOME: folder}).server.host).toBe('home.example:6443');
  });

  test('a file given by --kubeconfig is the only one read, and must exist', () => {
    const folder = folderWith({a: kubeconfig('a'), b: kubeconfig('b')});
    expect(load({KUBECONFIG: join(folder, 'a')}, {kubeconfig: join(folder, 'b')}).server.host).toBe('b.example:6443');
    expect(() => load({}, {kubeconfig: join(folder, 'none')})).toThrow(/there is no kubeconfig .*none/);
  });

  test('without any file the error names the paths that were tried', () => {
    expect(() => load({KUBECONFIG: '/no/a:/no/b'})).toThrow(/no cluster.*\/no\/a \(not found\), \/no\/b \(not found\).*no pod/);
    expect(() => load({KUBECONFIG: '/no/a'})).toThrow(KubeconfigError);
  });

  test.each([
    ['a file that is not YAML', ': [', /cannot use the kubeconfig .*config/],
    ['a list in place of a mapping', '[]', /the file is no mapping/],
    ['a duplicate name in a list', {clusters: [{name: 'a'}, {name: 'a'}]}, /clusters has the name "a" twice/],
    ['a token that YAML takes for a number', 'users: [{name: a, user: {token: 0123}}]', /token of user "a" is not a string/],
  ])('%s is refused', (_, content, message) => {
    expect(() => loadFile(content)).toThrow(message);
  });

  test('an unreadable file is an error, not a missing file', () => {
    expect(() => load({KUBECONFIG: folderWith({})})).toThrow(/cannot read the kubeconfig/);
  });
});

describe('the context', () => {
  test('is chosen by --context, and an unknown one is refused with the existing names', () => {
    const both = {
      ...kubeconfig('a'),
      contexts: [
        {name: 'a', context: {}},
        {name: 'z', context: {cluster: 'a', namespace: 'shop'}},
      ],
    };
    expect(loadFile(both, {context: 'z'})).toMatchObject({namespace: 'shop', server: {host: 'a.example:6443'}});
    expect(() => loadFile(both, {context: 'nope'})).toThrow('there is no context "nope" in the kubeconfig. Its contexts: a, z.');
  });

  test('is required: a kubeconfig without a current-context is refused with the existing names', () => {
    expect(() => loadFile({...kubeconfig('a'), 'current-context': ''})).toThrow(/no current-context.*--context: a/);
  });

  test('of an unknown cluster is reported', () => {
    expect(() => loadFile({...kubeconfig('a'), clusters: []})).toThrow(/the context "a" is of the cluster "a", which does not exist/);
  });

  test('has its cluster and user replaced by --cluster and --user', async () => {
    const two = {
      ...kubeconfig('a'),
      clusters: [...listOf('a', 'clusters'), ...listOf('b', 'clusters')],
      users: [...listOf('a', 'users'), ...listOf('b', 'users')],
    };
    const connection = loadFile(two, {cluster: 'b', user: 'b'});
    expect(connection.server.host).toBe('b.example:6443');
    expect(await authorization(connection)).toBe('Bearer token-of-b');
    expect(() => loadFile(two, {cluster: 'c'})).toThrow('there is no cluster "c" in the kubeconfig. Its clusters: a, b.');
    expect(() => loadFile(two, {user: 'c'})).toThrow('there is no user "c" in the kubeconfig. Its users: a, b.');
  });

  test('of an unknown user sends anonymous requests', async () => {
    expect(await authorization(loadFile({...kubeconfig('a'), users: []}))).toBeNull();
  });

  test('has its namespace overridden by --namespace, and falls back to default', () => {
    const config = kubeconfig('a', {context: {namespace: 'shop'}});
    expect(loadFile(config).namespace).toBe('shop');
    expect(loadFile(config, {namespace: 'other'}).namespace).toBe('other');
    expect(loadFile(kubeconfig('a')).namespace).toBe('default');
  });
});

describe('the server and its trusted certificates', () => {
  test('--server is sufficient without a kubeconfig', () => {
    expect(load({}, {server: 'https://host:1234/prefix'}).server.href).toBe('https://host:1234/prefix');
  });

  test('a server without a scheme is reached by TLS only if a TLS option is set', () => {
    expect(load({}, {server: 'host:8080'}).server.href).toBe('http://host:8080/');
    expect(load({}, {server: 'host:8443', 'insecure-skip-tls-verify': true}).server.href).toBe('https://host:8443/');
  });

  test('the path of the server is kept', () => {
    expect(loadFile(kubeconfig('a', {cluster: {server: 'https://rancher/k8s/clusters/c-1?x=y'}})).server.href).toBe(
      'https://rancher/k8s/clusters/c-1',
    );
  });

  test('relative paths are resolved against the folder of their file', () => {
    const folder = folderWith({
      'sub/config': kubeconfig('a', {cluster: {'certificate-authority': '../pki/ca.crt'}}),
      'pki/ca.crt': 'the authority',
    });
    expect(load({KUBECONFIG: join(folder, 'sub/config')}).trust.ca).toBe('the authority');
  });

  test('certificate-authority-data is decoded', () => {
    expect(loadFile(kubeconfig('a', {cluster: {'certificate-authority-data': Buffer.from('PEM').toString('base64')}})).trust.ca).toBe(
      'PEM',
    );
  });

  test('a missing certificate file is named', () => {
    expect(() => loadFile(kubeconfig('a', {cluster: {'certificate-authority': 'gone.crt'}}))).toThrow(
      /cannot read the certificate authority .*gone\.crt/,
    );
  });

  test.each([
    ['both forms of the authority', {'certificate-authority': '/x', 'certificate-authority-data': 'eA=='}],
    ['an authority that is not looked at', {'certificate-authority-data': 'eA==', 'insecure-skip-tls-verify': true}],
    ['a server of another kind', {server: 'ftp://x'}],
    ['a proxy of another kind', {'proxy-url': 'ftp://x'}],
  ])('%s is refused', (_, cluster) => {
    expect(() => loadFile(kubeconfig('a', {cluster}))).toThrow(KubeconfigError);
  });

  test('--insecure-skip-tls-verify drops the authority, --certificate-authority drops what the file says about trust', () => {
    const config = kubeconfig('a', {cluster: {'certificate-authority-data': 'eA=='}});
    expect(loadFile(config, {'insecure-skip-tls-verify': true}).trust).toEqual({ca: null, serverName: null, verify: false});
    const insecure = kubeconfig('a', {cluster: {'insecure-skip-tls-verify': true}});
    expect(loadFile(insecure, {'certificate-authority': certificateFile('ca.crt')}).trust).toMatchObject({
      ca: certificate('ca.crt'),
      verify: true,
    });
  });

  test('--server drops the tls-server-name of the file, --tls-server-name sets it', () => {
    const config = kubeconfig('a', {cluster: {'tls-server-name': 'inner'}});
    expect(loadFile(config).trust.serverName).toBe('inner');
    expect(loadFile(config, {server: 'https://b'}).trust.serverName).toBeNull();
    expect(loadFile(config, {server: 'https://b', 'tls-server-name': 'other'}).trust.serverName).toBe('other');
  });
});

describe('the identity', () => {
  test('a token is sent unchanged; --token replaces it and that of a token file', async () => {
    expect(await authorization(loadFile(kubeconfig('a')))).toBe('Bearer token-of-a');
    expect(await authorization(loadFile(kubeconfig('a', {user: {tokenFile: '/none'}}), {token: 'other'}))).toBe('Bearer other');
  });

  test('a user name and password are sent as basic authentication', async () => {
    const config = kubeconfig('a', {user: {token: '', username: 'ann', password: 'p:w'}});
    expect(await authorization(loadFile(config))).toBe(`Basic ${Buffer.from('ann:p:w').toString('base64')}`);
  });

  test('a client certificate comes from files or data, and flags replace it', async () => {
    const user = {token: '', 'client-certificate-data': 'eA==', 'client-key-data': 'eQ=='};
    const connection = loadFile(kubeconfig('a', {user}));
    expect((await connection.credentials.current()).certificate).toEqual({cert: 'x', key: 'y'});
    const flags = {'client-certificate': certificateFile('client.crt'), 'client-key': certificateFile('client.key')};
    expect((await loadFile(kubeconfig('a', {user}), flags).credentials.current()).certificate?.cert).toBe(certificate('client.crt'));
  });

  test('no secret is sent to a server without TLS', async () => {
    expect(await authorization(loadFile(kubeconfig('a', {cluster: {server: 'http://a'}})))).toBeNull();
  });

  test.each([
    ['a token and a password', {username: 'a', password: 'b'}, /both a token and a user name/],
    ['a certificate without a key', {'client-certificate-data': 'eA=='}, /no client-key/],
    [
      'two certificates',
      {'client-certificate-data': 'eA==', 'client-certificate': '/x', 'client-key': '/y'},
      /both client-certificate and/,
    ],
    ['groups without a user to impersonate', {'as-groups': ['a']}, /no user \(--as\)/],
    ['a plugin without a command', {exec: {apiVersion: 'client.authentication.k8s.io/v1beta1'}}, /no command/],
    [
      'a plugin of an unknown version',
      {exec: {apiVersion: 'client.authentication.k8s.io/v1alpha1', command: 'x'}},
      /apiVersion "client.*v1alpha1"/,
    ],
    [
      'a v1 plugin that does not say whether it asks',
      {exec: {apiVersion: 'client.authentication.k8s.io/v1', command: 'x'}},
      /interactiveMode/,
    ],
    [
      'a plugin and an auth-provider',
      {exec: {apiVersion: 'client.authentication.k8s.io/v1beta1', command: 'x'}, 'auth-provider': {name: 'oidc'}},
      /both exec/,
    ],
    ['an auth-provider that kubectl no longer supports', {token: '', 'auth-provider': {name: 'gcp'}}, /gke-gcloud-auth-plugin/],
  ])('%s is refused', (_, user, message) => {
    expect(() => loadFile(kubeconfig('a', {user}))).toThrow(message);
  });

  test('impersonation takes user, groups, uid and extra, from the file and from flags', () => {
    const user = {as: 'jörg', 'as-groups': ['a', 'b'], 'as-uid': '7', 'as-user-extra': {'scopes.example.com/x y': ['1', '2']}};
    expect(loadFile(kubeconfig('a', {user})).impersonation).toEqual({
      'Impersonate-User': Buffer.from('jörg').toString('latin1'),
      'Impersonate-Group': ['a', 'b'],
      'Impersonate-Uid': '7',
      'Impersonate-Extra-scopes.example.com%2Fx%20y': ['1', '2'],
    });
    expect(loadFile(kubeconfig('a'), {as: 'eve', 'as-group': ['g'], 'as-uid': 'u'}).impersonation).toEqual({
      'Impersonate-User': 'eve',
      'Impersonate-Group': ['g'],
      'Impersonate-Uid': 'u',
    });
  });
});

describe('in a pod', () => {
  const environment = {KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443'};
  const account = {token: 'pod-token\n', 'ca.crt': 'pod authority', namespace: 'shop'};

  test('the service account is used where there is no kubeconfig', async () => {
    const connection = load(environment, {}, folderWith(account));
    expect(connection).toMatchObject({server: new URL('https://[fd00::1]:443'), namespace: 'shop', trust: {ca: 'pod authority'}});
    expect(await authorization(connection)).toBe('Bearer pod-token');
  });

  test('flags change it, and a kubeconfig overrides it', async () => {
    const folder = folderWith({...account, config: kubeconfig('a')});
    const connection = load(environment, {token: 'mine', namespace: 'other', as: 'eve'}, folder);
    expect(connection).toMatchObject({namespace: 'other', impersonation: {'Impersonate-User': 'eve'}});
    expect(await authorization(connection)).toBe('Bearer mine');
    expect(load({...environment, KUBECONFIG: join(folder, 'config')}, {}, folder).server.host).toBe('a.example:6443');
  });
});

function listOf(name: string, list: string): readonly object[] {
  return kubeconfig(name)[list] as readonly object[];
}
