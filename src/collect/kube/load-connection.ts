import process from 'node:process';
import {type ChosenContext, chooseContext} from './choose-context.ts';
import {checkUser} from './check-user.ts';
import {chooseProxy} from './choose-proxy.ts';
import type {ConnectionFlags} from './connection-options.ts';
import {canAsk} from './credentials/exec-credentials.ts';
import {fixedCredentials} from './credentials/credentials.ts';
import {impersonationHeaders} from './impersonation.ts';
import {inClusterContext, serviceAccountFolder} from './in-cluster.ts';
import {type Cluster, KubeconfigError} from './kubeconfig.ts';
import {type Connection, KubectlConfig, type Trust} from './kubectl-config.ts';
import {type LoadedKubeconfig, loadKubeconfig} from './load-kubeconfig.ts';
import {pemOf} from './pem.ts';
import {userCredentials} from './credentials/user-credentials.ts';

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
export function loadConnection(flags: ConnectionFlags, given: Partial<ConnectionEnvironment> = {}): KubectlConfig {
  const surroundings = {environment: process.env, serviceAccountFolder, interactive: canAsk(), quiet: false, ...given};
  const chosen = contextIn(surroundings, flags);
  checkUser(chosen.user, chosen.userName);
  const server = serverOf(chosen.cluster);
  const trust = trustOf(chosen.cluster);
  return new KubectlConfig({
    description: chosen.contextName === '' ? server.href : `context "${chosen.contextName}" at ${server.href}`,
    server,
    namespace: chosen.namespace || 'default',
    trust,
    proxy: chooseProxy(server, chosen.cluster['proxy-url'], surroundings.environment),
    compression: chosen.cluster['disable-compression'] !== true,
    impersonation: impersonationHeaders(chosen.user),
    credentials: credentialsFor(chosen, {server, trust, surroundings}),
    inPod: chosen.inPod ?? false,
  });
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
    throw new KubeconfigError(`the server "${server}" is no URL that begins with https:// or http://`);
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

interface CredentialsContext {
  readonly server: URL;
  readonly trust: Trust;
  readonly surroundings: ConnectionEnvironment;
}

/** As in client-go, secrets are never sent over a connection without encryption. */
function credentialsFor(
  {userName, user, cluster}: ChosenContext,
  {server, trust, surroundings}: CredentialsContext,
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
