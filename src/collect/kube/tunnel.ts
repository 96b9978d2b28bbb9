import http, {type Agent, type ClientRequestArgs} from 'node:http';
import https from 'node:https';
import type {Socket} from 'node:net';
import type {Duplex} from 'node:stream';
import {hostOf} from './choose-proxy.ts';
import {errorText} from '../../model/text.ts';
import {joinHostPort} from '../../model/address.ts';

interface TunnelTarget {
  readonly host: string;
  readonly port: number;
  readonly authorities: readonly string[];
}

/** A proxy that refused to connect, or could not. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
}

type Created = (error: Error | null, stream: Duplex) => void;

/**
 * Makes an agent of client-node connect through a proxy. client-node's own proxy agents are wrong in cases that matter: its SOCKS agent
 * checks the certificate of a server with an IP address against `localhost`, and resolves names locally; its HTTP agent accepts no IPv6
 * address, of the server or of the proxy. Neither distinguishes an error of the proxy from one of the API server. The authorities are for a
 * proxy with TLS, as PEM.
 */
export function tunnelThrough(proxy: URL, agent: Agent, authorities: readonly string[]): void {
  const direct = agent.createConnection.bind(agent);
  const isSecure = agent instanceof https.Agent;
  agent.createConnection = (options: ClientRequestArgs, created?: Created) => {
    openTunnel(proxy, {host: options.host ?? '', port: Number(options.port), authorities}).then(
      socket => created?.(null, isSecure ? (direct({...options, socket} as ClientRequestArgs) as Duplex) : socket),
      (error: Error) => created?.(error, undefined as unknown as Duplex),
    );
    return undefined;
  };
}

/** Resolves to a connection through the proxy, before any TLS with the destination. Rejects with a ProxyError. */
async function openTunnel(proxy: URL, destination: TunnelTarget): Promise<Socket> {
  try {
    if (!proxy.protocol.startsWith('socks5')) return await throughConnect(proxy, destination);
    const {throughSocks} = await import('./socks-tunnel.ts');
    return await throughSocks(proxy, destination, patience);
  } catch (error) {
    const reason = errorText(error);
    throw new ProxyError(
      `the proxy ${proxy.protocol}//${proxy.host} does not connect to ${destination.host}:${destination.port}: ${reason}`,
      {cause: error},
    );
  }
}

/** Milliseconds. */
const patience = 30_000;

function throughConnect(proxy: URL, {host, port, authorities}: TunnelTarget): Promise<Socket> {
  const target = joinHostPort(host, port);
  const client = proxy.protocol === 'https:' ? https : http;
  const request = client.request({
    host: hostOf(proxy),
    port: proxy.port || (proxy.protocol === 'https:' ? 443 : 80),
    method: 'CONNECT',
    path: target,
    headers: {host: target, ...proxyAuthorization(proxy)},
    agent: false,
    ...(client === https ? {ca: [...authorities]} : {}),
    timeout: patience,
  });
  return new Promise((resolve, reject) => {
    request.once('connect', ({statusCode, statusMessage}, socket: Socket, head) => {
      if (statusCode === 200) {
        socket.setTimeout(0);
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
        return;
      }
      socket.destroy();
      reject(new Error(`it answered ${statusCode} ${statusMessage}`));
    });
    request.once('timeout', () => request.destroy(new Error(`no answer within ${patience / 1000} s`)));
    request.once('error', reject);
    request.end();
  });
}

function proxyAuthorization({username, password}: URL): Record<string, string> {
  if (username === '' && password === '') return {};
  const plain = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return {'proxy-authorization': `Basic ${Buffer.from(plain).toString('base64')}`};
}
