import {someOf} from '../../model/text/some-of.ts';
import type {ConnectionFlags} from './connection-options.ts';
import {type Cluster, type Context, type Kubeconfig, KubeconfigError, type User} from './kubeconfig.ts';

/** The result of flags and kubeconfig. */
export interface ChosenContext {
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
export function chooseContext(config: Kubeconfig, flags: ConnectionFlags): ChosenContext {
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
    throw new KubeconfigError(`there is no context "${name}" in the kubeconfig. ${known('contexts', config.contexts)}`);
  return context;
}

function clusterOf(config: Kubeconfig, context: Context, flags: ConnectionFlags): Cluster {
  const name = flags.cluster || context.cluster || '';
  const cluster = config.clusters.get(name);
  if (cluster !== undefined) return cluster;
  if (flags.cluster) throw new KubeconfigError(`there is no cluster "${name}" in the kubeconfig. ${known('clusters', config.clusters)}`);
  return {};
}

/**
 * A context may name a user that does not exist. kubectl then asks for a name and a password; here requests are anonymous, and a refusal
 * says why.
 */
function userOf(config: Kubeconfig, name: string, flags: ConnectionFlags): User {
  const user = config.users.get(name);
  if (user === undefined && flags.user) {
    throw new KubeconfigError(`there is no user "${name}" in the kubeconfig. ${known('users', config.users)}`);
  }
  return user ?? {};
}

function known(what: string, entries: ReadonlyMap<string, unknown>): string {
  const names = [...entries.keys()];
  if (names.length === 0) return `It has no ${what}.`;
  return `Its ${what}: ${someOf(names, {max: 10})}.`;
}

/** A flag about trust replaces everything the file says about trust; `--server` also drops the file's tls-server-name. */
function withClusterFlags(cluster: Cluster, flags: ConnectionFlags): Cluster {
  const {server, tlsServerName, certificateAuthority, insecureSkipTlsVerify, proxyUrl} = flags;
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
  const {token, clientCertificate, clientKey} = flags;
  return given({
    ...user,
    ...(token ? {token, tokenFile: undefined} : {}),
    ...(clientCertificate ? {'client-certificate': clientCertificate, 'client-certificate-data': undefined} : {}),
    ...(clientKey ? {'client-key': clientKey, 'client-key-data': undefined} : {}),
    ...impersonatedUser(user, flags),
  });
}

/** Extra is merged by key; for all other fields a flag replaces the value of the file. */
export function impersonatedUser(user: User, {as, asGroups, asUid, asUserExtra}: ConnectionFlags): User {
  return {
    ...(as ? {as} : {}),
    ...(asGroups?.length ? {'as-groups': asGroups} : {}),
    ...(asUid ? {'as-uid': asUid} : {}),
    ...(asUserExtra ? {'as-user-extra': {...user['as-user-extra'], ...asUserExtra}} : {}),
  };
}

type Given<T> = {[K in keyof T]: Exclude<T[K], undefined>};

function given<T extends object>(value: T): Given<T> {
  return Object.fromEntries(Object.entries(value).filter(([, content]) => content !== undefined)) as Given<T>;
}
