import {existsSync, readFileSync, statSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {someOf, withoutPassword} from '../../model/text.ts';
import {chooseProxy} from './choose-proxy.ts';
import {
  type ConnectionFlags,
  type Cluster,
  type Context,
  type ExecConfig,
  type Kubeconfig,
  KubeconfigError,
  type User,
} from './kubeconfig.ts';
import {fixedCredentials, pemOf} from './credentials/credentials.ts';
import {canAsk} from './credentials/exec-credentials.ts';
import {userCredentials} from './credentials/user-credentials.ts';
import type {Connection, Trust} from './kubectl-config.ts';
import {type LoadedKubeconfig, loadKubeconfig} from './load-kubeconfig.ts';
import {joinHostPort} from '../../model/address.ts';

/** The environment in which a kubeconfig is read. */
interface ConnectionEnvironment {
  readonly environment: NodeJS.ProcessEnv;
  readonly serviceAccountFolder: string;
  /** Whether a credential plugin may ask the user. */
  readonly interactive: boolean;
  /** The messages of credential plugins are not shown. */
  readonly quiet: boolean;
}

/**
 * The API server that kubectl would use with the same flags and environment. Reads files, sends no request. Throws KubeconfigError, which
 * is wrong use.
 */
export function loadConnection(flags: ConnectionFlags, settings: Partial<ConnectionEnvironment> = {}): Connection {
  const surroundings = {environment: process.env, serviceAccountFolder, interactive: canAsk(), quiet: false, ...settings};
  const chosen = contextIn(surroundings, flags);
  checkUser(chosen.user, chosen.userName);
  const server = serverOf(chosen.cluster);
  const shown = withoutPassword(server.href);
  const trust = trustOf(chosen.cluster);
  return {
    description: chosen.contextName === '' ? shown : `context "${chosen.contextName}" at ${shown}`,
    server,
    namespace: chosen.namespace || 'default',
    trust,
    proxy: chooseProxy(server, chosen.cluster['proxy-url'], surroundings.environment),
    compression: chosen.cluster['disable-compression'] !== true,
    impersonation: impersonationHeaders(chosen.user),
    credentials: credentialsFor(chosen, {server, trust, surroundings}),
    inPod: chosen.inPod ?? false,
  };
}

function contextIn({environment, serviceAccountFolder: folder}: ConnectionEnvironment, flags: ConnectionFlags): ChosenContext {
  const loaded = loadKubeconfig(flags.kubeconfig || undefined, environment);
  const chosen = chooseContext(loaded.config, flags);
  if (chosen.cluster.server) return chosen;
  const inCluster = chosen.contextName === '' ? inClusterContext(environment, folder, flags) : null;
  if (inCluster !== null) return inCluster;
  throw new KubeconfigError(whyNoServer(chosen, loaded));
}

function whyNoServer({contextName}: ChosenContext, {config, tried}: LoadedKubeconfig): string {
  if (contextName !== '') {
    const cluster = config.contexts.get(contextName)?.cluster ?? '';
    const what = config.clusters.has(cluster) ? 'has no server' : 'does not exist';
    return `the context "${contextName}" is of the cluster "${cluster}", which ${what}. Kubeconfig: ${tried}`;
  }
  if (config.contexts.size > 0) {
    const names = [...config.contexts.keys()].slice(0, 10).join(', ');
    return `no context is chosen: the kubeconfig (${tried}) has no current-context. Name one with --context: ${names}`;
  }
  return `no cluster to talk to. Looked for a kubeconfig at ${tried}, and this is no pod with a service account. Give one with --kubeconfig or KUBECONFIG, a server with --server, or a bundle with --from.`;
}

/** A server without a scheme is handled like in client-go's DefaultServerURL: TLS only if a TLS option is set. */
function serverOf(cluster: Cluster): URL {
  const {server = ''} = cluster;
  const secure = cluster['certificate-authority'] || cluster['certificate-authority-data'] || cluster['insecure-skip-tls-verify'];
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(server) ? server : `${secure ? 'https' : 'http'}://${server}`);
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw new KubeconfigError(`the server "${withoutPassword(server)}" is no URL that begins with https:// or http://`);
  }
  url.search = '';
  url.hash = '';
  return url;
}

function trustOf(cluster: Cluster): Trust {
  const {'certificate-authority': file, 'certificate-authority-data': data, 'insecure-skip-tls-verify': insecure = false} = cluster;
  if (file && data)
    throw new KubeconfigError('the cluster has both certificate-authority and certificate-authority-data: only one is allowed');
  if (insecure && (file || data)) {
    throw new KubeconfigError('the cluster has both a certificate-authority and insecure-skip-tls-verify: only one is allowed');
  }
  return {ca: pemOf(data, file, 'certificate authority'), serverName: cluster['tls-server-name'] || null, verify: !insecure};
}

/** As in client-go, secrets are never sent over a connection without encryption. */
function credentialsFor(
  {userName, user, cluster}: ChosenContext,
  {server, trust, surroundings}: {readonly server: URL; readonly trust: Trust; readonly surroundings: ConnectionEnvironment},
): Connection['credentials'] {
  if (server.protocol === 'http:') return fixedCredentials('no credentials (http)');
  const {environment, interactive, quiet} = surroundings;
  return userCredentials({name: userName, user}, {environment, interactive, quiet, cluster: clusterInfo(cluster, trust)});
}

/** `spec.cluster` of an ExecCredential. Its `config` is the extension that client-go reserves for it. */
function clusterInfo(cluster: Cluster, {ca}: Trust): object {
  const config = cluster.extensions?.find(({name}) => name === 'client.authentication.k8s.io/exec')?.extension;
  return {
    server: cluster.server,
    ...(cluster['tls-server-name'] ? {'tls-server-name': cluster['tls-server-name']} : {}),
    ...(cluster['insecure-skip-tls-verify'] ? {'insecure-skip-tls-verify': true} : {}),
    ...(ca === null ? {} : {'certificate-authority-data': Buffer.from(ca).toString('base64')}),
    ...(cluster['proxy-url'] ? {'proxy-url': cluster['proxy-url']} : {}),
    ...(cluster['disable-compression'] ? {'disable-compression': true} : {}),
    config: config ?? null,
  };
}

/** Throws KubeconfigError if a user of a kubeconfig contradicts itself. Follows client-go's validateAuthInfo. */
function checkUser(user: User, name: string): void {
  const problems = [
    ...methodProblems(user),
    ...certificateProblems(user),
    ...(user.exec ? execProblems(user, user.exec) : []),
    ...impersonationProblems(user),
  ];
  if (problems.length > 0) throw new KubeconfigError(`the kubeconfig's user "${name}" cannot be used: ${problems.join('; ')}`);
}

function methodProblems(user: User): readonly string[] {
  return user.token && (user.username || user.password) ? ['it has both a token and a user name with a password: only one is allowed'] : [];
}

function certificateProblems(user: User): readonly string[] {
  const problems: string[] = [];
  const {'client-certificate': cert, 'client-certificate-data': certData, 'client-key': key, 'client-key-data': keyData} = user;
  if (!cert && !certData) return problems;
  if (cert && certData) problems.push('it has both client-certificate and client-certificate-data');
  if (key && keyData) problems.push('it has both client-key and client-key-data');
  if (!key && !keyData) problems.push('it has a client certificate but no client-key');
  return problems;
}

function execProblems(user: User, exec: ExecConfig): readonly string[] {
  const problems: string[] = [];
  if (user['auth-provider']) problems.push('it has both exec and auth-provider');
  if (!exec.command) problems.push('its exec has no command');
  if (exec.env?.some(({name}) => !name)) problems.push('its exec has a variable without a name');
  if (!execVersions.includes(exec.apiVersion ?? '')) {
    problems.push(`its exec has the apiVersion "${exec.apiVersion ?? ''}", and ${execVersions.join(' and ')} are known`);
  } else if (exec.interactiveMode === undefined ? exec.apiVersion === execVersions[0] : !interactiveModes.includes(exec.interactiveMode)) {
    problems.push(`its exec has the interactiveMode "${exec.interactiveMode ?? ''}", which must be one of ${interactiveModes.join(', ')}`);
  }
  return problems;
}

const execVersions = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];
const interactiveModes = ['Never', 'IfAvailable', 'Always'];

function impersonationProblems(user: User): readonly string[] {
  const more = user['as-uid'] || user['as-groups']?.length || Object.keys(user['as-user-extra'] ?? {}).length > 0;
  return more && !user.as ? ['groups, a uid or extra to impersonate are given, but no user (--as)'] : [];
}

/** The headers that ask the API server to act as someone else. Follows client-go's impersonatingRoundTripper. */
function impersonationHeaders(user: User): Readonly<Record<string, string | readonly string[]>> {
  if (!user.as) return {};
  return {
    'Impersonate-User': headerText(user.as),
    ...(user['as-uid'] ? {'Impersonate-Uid': headerText(user['as-uid'])} : {}),
    ...(user['as-groups']?.length ? {'Impersonate-Group': user['as-groups'].map(headerText)} : {}),
    ...Object.fromEntries(
      Object.entries(user['as-user-extra'] ?? {}).map(([key, values]) => [`Impersonate-Extra-${headerName(key)}`, values.map(headerText)]),
    ),
  };
}

/** Go sends UTF-8 in a header unchanged; Node.js needs a string with one character for each byte. */
function headerText(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** Keys such as `scopes.example.com/a` contain characters that are invalid in header names: these and `%` are percent-encoded. */
function headerName(key: string): string {
  return [...Buffer.from(key, 'utf8')]
    .map(byte =>
      /[A-Za-z0-9!#$&'*+.^_`|~-]/.test(String.fromCharCode(byte))
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
    )
    .join('');
}

/** The result of flags and kubeconfig. */
interface ChosenContext {
  /** Empty if there is none. */
  readonly contextName: string;
  readonly userName: string;
  readonly cluster: Cluster;
  readonly user: User;
  /** Empty if neither flag nor context names one. */
  readonly namespace: string;
  /** Whether the user is the service account of the pod that this runs in. Default: false. */
  readonly inPod?: boolean;
}

/** Follows client-go's DirectClientConfig: getContext, getCluster, getAuthInfo, with flags taking precedence. Throws KubeconfigError. */
function chooseContext(config: Kubeconfig, flags: ConnectionFlags): ChosenContext {
  const contextName = flags.context || config.currentContext;
  const context = contextOf(config, contextName);
  const userName = flags.user || context.user || '';
  return {
    contextName,
    userName,
    cluster: withClusterFlags(clusterOf(config, context, flags), flags),
    user: withUserFlags(userOf(config, userName, flags), flags),
    namespace: flags.namespace || context.namespace || '',
  };
}

function contextOf(config: Kubeconfig, name: string): Context {
  if (name === '') return {};
  const context = config.contexts.get(name);
  if (context === undefined)
    throw new KubeconfigError(`there is no context "${name}" in the kubeconfig. ${namesKnown('contexts', config.contexts)}`);
  return context;
}

function clusterOf(config: Kubeconfig, context: Context, flags: ConnectionFlags): Cluster {
  const name = flags.cluster || context.cluster || '';
  const cluster = config.clusters.get(name);
  if (cluster !== undefined) return cluster;
  if (flags.cluster)
    throw new KubeconfigError(`there is no cluster "${name}" in the kubeconfig. ${namesKnown('clusters', config.clusters)}`);
  return {};
}

/**
 * A context may name a user that does not exist. kubectl then asks for a name and a password; here requests are anonymous, and a refusal
 * says why.
 */
function userOf(config: Kubeconfig, name: string, flags: ConnectionFlags): User {
  const user = config.users.get(name);
  if (user === undefined && flags.user) {
    throw new KubeconfigError(`there is no user "${name}" in the kubeconfig. ${namesKnown('users', config.users)}`);
  }
  return user ?? {};
}

function namesKnown(what: string, entries: ReadonlyMap<string, unknown>): string {
  const names = [...entries.keys()];
  if (names.length === 0) return `It has no ${what}.`;
  return `Its ${what}: ${someOf(names, {max: 10})}.`;
}

/** A flag about trust replaces everything the file says about trust; `--server` also drops the file's tls-server-name. */
function withClusterFlags(cluster: Cluster, flags: ConnectionFlags): Cluster {
  const {
    server,
    'tls-server-name': tlsServerName,
    'certificate-authority': certificateAuthority,
    'insecure-skip-tls-verify': insecureSkipTlsVerify,
    'proxy-url': proxyUrl,
  } = flags;
  const {
    'certificate-authority': ca,
    'certificate-authority-data': caData,
    'insecure-skip-tls-verify': insecure,
    'tls-server-name': name,
    ...rest
  } = cluster;
  const trust =
    certificateAuthority || insecureSkipTlsVerify
      ? {'certificate-authority': certificateAuthority, 'insecure-skip-tls-verify': insecureSkipTlsVerify}
      : {'certificate-authority': ca, 'certificate-authority-data': caData, 'insecure-skip-tls-verify': insecure};
  return given({
    ...rest,
    ...trust,
    'tls-server-name': server || tlsServerName ? tlsServerName : name,
    server: server || cluster.server,
    'proxy-url': proxyUrl || cluster['proxy-url'],
  });
}

function withUserFlags(user: User, flags: ConnectionFlags): User {
  const {token, 'client-certificate': clientCertificate, 'client-key': clientKey} = flags;
  return given({
    ...user,
    ...(token ? {token, tokenFile: undefined} : {}),
    ...(clientCertificate ? {'client-certificate': clientCertificate, 'client-certificate-data': undefined} : {}),
    ...(clientKey ? {'client-key': clientKey, 'client-key-data': undefined} : {}),
    ...impersonatedUser(user, flags),
  });
}

/** Extra is merged by key; for all other fields a flag replaces the value of the file. */
function impersonatedUser(user: User, flags: ConnectionFlags): User {
  const {as, 'as-group': groups, 'as-uid': uid, 'as-user-extra': extra} = flags;
  return {
    ...(as ? {as} : {}),
    ...(groups?.length ? {'as-groups': groups} : {}),
    ...(uid ? {'as-uid': uid} : {}),
    ...(extra ? {'as-user-extra': {...user['as-user-extra'], ...extraOf(extra)}} : {}),
  };
}

/** A key may be repeated. kubectl ignores an argument that is not KEY=VALUE; here it is an error. */
function extraOf(pairs: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const extra: Record<string, string[]> = {};
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    if (at < 1) throw new KubeconfigError(`--as-user-extra: "${pair}" is not KEY=VALUE`);
    const key = pair.slice(0, at);
    extra[key] = [...(extra[key] ?? []), pair.slice(at + 1)];
  }
  return extra;
}

type Given<T> = {[K in keyof T]: Exclude<T[K], undefined>};

function given<T extends object>(value: T): Given<T> {
  return Object.fromEntries(Object.entries(value).filter(([, content]) => content !== undefined)) as Given<T>;
}

/** Where the kubelet mounts the service account of a pod. */
const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

/** The pod's own service account, as in client-go's inClusterClientConfig; null if this is not a pod. */
function inClusterContext(environment: NodeJS.ProcessEnv, folder: string, flags: ConnectionFlags): ChosenContext | null {
  const host = environment['KUBERNETES_SERVICE_HOST'];
  const port = environment['KUBERNETES_SERVICE_PORT'];
  const token = join(folder, 'token');
  if (!host || !port || !existsSync(token) || statSync(token).isDirectory()) return null;
  const ca = flags['certificate-authority'] || join(folder, 'ca.crt');
  return {
    inPod: true,
    contextName: '',
    userName: '',
    cluster: {
      server: `https://${joinHostPort(host, port)}`,
      ...(existsSync(ca) ? {'certificate-authority': ca} : {}),
    },
    user: {...(flags.token ? {token: flags.token} : {tokenFile: token}), ...impersonatedUser({}, flags)},
    namespace: flags.namespace || environment['POD_NAMESPACE'] || namespaceIn(join(folder, 'namespace')),
  };
}

function namespaceIn(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
}
