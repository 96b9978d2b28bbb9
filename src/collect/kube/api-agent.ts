import http from 'node:http';
import https from 'node:https';
import type {Duplex} from 'node:stream';
import tls from 'node:tls';
import type {ApiConnection} from './connection.ts';
import type {ClientCertificate} from './credentials/credentials.ts';
import {openTunnel} from './tunnel.ts';

/** The agent that keeps connections to the API server open and brings them up: TLS, client certificate, proxy. */
export function apiAgent(
  {server, trust, proxy}: Pick<ApiConnection, 'server' | 'trust' | 'proxy'>,
  certificate: ClientCertificate | null,
): http.Agent {
  // Used last, used next: with little to do one connection stays in use and the others time out.
  const pool = {keepAlive: true, scheduling: 'lifo'} as const;
  if (server.protocol === 'http:') return proxy === null ? new http.Agent(pool) : new PlainTunnelAgent(proxy, pool);
  const options = {
    ...pool,
    // Made once: reading certificates takes longer than all else about a connection.
    secureContext: tls.createSecureContext({ca: trust.ca ?? systemAuthorities(), ...certificate}),
    rejectUnauthorized: trust.verify,
    ...(trust.serverName === null ? {} : {servername: trust.serverName}),
  };
  return proxy === null ? new https.Agent(options) : new TunnelAgent(proxy, options);
}

/** Node.js trusts only its own list unless told otherwise; kubectl trusts the system's. */
function systemAuthorities(): string[] {
  return [...tls.getCACertificates('default'), ...tls.getCACertificates('system')];
}

type Created = (error: Error | null, stream: Duplex) => void;

class TunnelAgent extends https.Agent {
  readonly #proxy: URL;

  constructor(proxy: URL, options: https.AgentOptions) {
    super(options);
    this.#proxy = proxy;
  }

  override createConnection(options: https.RequestOptions, created?: Created): undefined {
    createThrough(this.#proxy, options, socket => super.createConnection({...options, socket} as https.RequestOptions) as Duplex, created);
  }
}

class PlainTunnelAgent extends http.Agent {
  readonly #proxy: URL;

  constructor(proxy: URL, options: http.AgentOptions) {
    super(options);
    this.#proxy = proxy;
  }

  override createConnection(options: http.ClientRequestArgs, created?: Created): undefined {
    createThrough(this.#proxy, options, socket => socket, created);
  }
}

function createThrough(
  proxy: URL,
  {host, port}: http.ClientRequestArgs,
  finish: (socket: Duplex) => Duplex,
  created: Created | undefined,
): void {
  openTunnel(proxy, {host: host ?? '', port: Number(port)}).then(
    socket => created?.(null, finish(socket)),
    (error: Error) => created?.(error, undefined as unknown as Duplex),
  );
}
