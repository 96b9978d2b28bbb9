import https, {type RequestOptions} from 'node:https';
import type {Agent} from 'node:http';
import tls from 'node:tls';
import {KubeConfig} from '@kubernetes/client-node/dist/config.js';
import type {Credential, Credentials} from './credentials/credentials.ts';
import {tunnelThrough} from './tunnel.ts';

/** How to reach one API server, and with which identity. */
export interface Connection {
  /** A description for messages: `context "kind" at https://127.0.0.1:6443`. */
  readonly description: string;
  /** Its path is a prefix of every request's path. */
  readonly server: URL;
  /** The default namespace. */
  readonly namespace: string;
  readonly trust: Trust;
  /** Null if the API server is reached directly. */
  readonly proxy: URL | null;
  readonly compression: boolean;
  readonly impersonation: Readonly<Record<string, string | readonly string[]>>;
  readonly credentials: Credentials;
  /** Whether the credentials are those of the pod that this runs in. Default: false. */
  readonly inPod?: boolean;
}

export interface Trust {
  /** Certificates of authorities as PEM; null for the system's. */
  readonly ca: string | null;
  /** The name the certificate must have; null for the server's own. */
  readonly serverName: string | null;
  readonly verify: boolean;
}

/** The name by which client-node finds our authenticator. Its own authenticators are tried first, and must not know the name. */
const ownProvider = 'svc-trace';

/**
 * client-node's KubeConfig with one cluster, one user and one context, chosen as kubectl chooses them. Every request, stream and exec gets
 * its TLS options, headers and agent from `applyToHTTPSOptions`. Added to client-node: keep-alive connections, the system's authorities,
 * complete impersonation, credentials that expire, proxies.
 */
export class KubectlConfig extends KubeConfig {
  readonly connection: Connection;
  /** By client certificate: that of a credential plugin changes during a run. */
  readonly #agents = new Map<string, Agent>();
  /** The credential of requests with these options. */
  readonly #applied = new WeakMap<object, Credential>();

  constructor(connection: Connection) {
    super();
    this.connection = connection;
    this.addAuthenticator({
      isAuthProvider: ({authProvider}) => authProvider?.name === ownProvider,
      applyAuthentication: (_user, options) => this.#authenticate(options as RequestOptions),
    });
    this.loadFromClusterAndUser(clusterOf(connection), {name: 'user', authProvider: {name: ownProvider}});
  }

  override async applyToHTTPSOptions(options: Parameters<KubeConfig['applyToHTTPSOptions']>[0]): Promise<void> {
    await super.applyToHTTPSOptions(options);
    Object.assign(options, {
      headers: {...options.headers, ...this.connection.impersonation},
      agent: this.#keptAgent(options as RequestOptions),
    });
  }

  /** The credential of a request that was sent with these options. */
  credentialOf(options: object): Credential {
    return this.#applied.get(options) ?? {authorization: null, certificate: null};
  }

  /** Closes keep-alive connections, and ends a credential plugin. */
  close(): void {
    this.connection.credentials.close?.();
    for (const agent of this.#agents.values()) agent.destroy();
  }

  async #authenticate(options: RequestOptions): Promise<void> {
    const credential = await this.connection.credentials.current();
    const {authorization, certificate} = credential;
    Object.assign(options, certificate ?? {});
    if (authorization !== null) Object.assign(options, {headers: {...options.headers, Authorization: authorization}});
    this.#applied.set(options, credential);
  }

  /** client-node keeps one agent for the user, created with the certificate of the first request. */
  #keptAgent(options: RequestOptions): Agent {
    const certificate = String(options.cert ?? '');
    const kept = this.#agents.get(certificate);
    if (kept !== undefined) return kept;
    const agent = this.#agents.size === 0 ? (options.agent as Agent) : new https.Agent((options.agent as https.Agent).options);
    keepConnections(agent, options);
    const {proxy, trust} = this.connection;
    if (proxy !== null) tunnelThrough(proxy, agent, authoritiesOf(trust));
    this.#agents.set(certificate, agent);
    return agent;
  }
}

function keepConnections(agent: Agent, {ca, cert, key}: RequestOptions): void {
  Object.assign(agent, {keepAlive: true});
  if (!(agent instanceof https.Agent)) return;
  // Created once: reading certificates takes longer than everything else about a connection.
  const secureContext = tls.createSecureContext({ca: ca ?? systemAuthorities(), cert, key});
  Object.assign(agent.options, {keepAlive: true, secureContext});
}

/** Like kubectl, trusts a proxy with TLS by the same authorities as the API server; one that the system trusts is trusted as well. */
function authoritiesOf({ca}: Trust): string[] {
  return [...systemAuthorities(), ...(ca === null ? [] : [ca])];
}

/** Node.js trusts only its own list unless told otherwise; kubectl trusts the system's. */
function systemAuthorities(): string[] {
  return [...tls.getCACertificates('default'), ...tls.getCACertificates('system')];
}

/** Without the proxy: see `tunnelThrough`. */
function clusterOf({server, trust}: Connection): KubeConfig['clusters'][number] {
  return {
    name: 'cluster',
    server: server.href.replace(/\/$/, ''),
    // client-node refuses a server without TLS unless this is set.
    skipTLSVerify: !trust.verify || server.protocol === 'http:',
    caData: trust.ca === null ? undefined : Buffer.from(trust.ca).toString('base64'),
    tlsServerName: trust.serverName ?? undefined,
  };
}
