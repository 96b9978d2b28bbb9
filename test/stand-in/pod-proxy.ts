import http, {type IncomingMessage, type ServerResponse} from 'node:http';
import https from 'node:https';
import type {StoredObject} from './object-store.ts';
import {type Answer, failure} from './status.ts';

/** Where a pod answers: a port of this machine, or a UNIX socket. */
export type PodAddress = {readonly port: number; readonly host?: string} | {readonly socketPath: string};

export interface ProxiedPod {
  readonly name: string;
  readonly port: string;
  readonly scheme: string;
}

/** `http:web-1:10270` as the API server takes it: scheme and port may be left out. */
export function proxiedPod(text: string): ProxiedPod {
  const parts = text.split(':');
  const [scheme = '', name = '', port = ''] = parts.length === 3 ? parts : ['', ...parts];
  return {scheme, name, port};
}

/**
 * Hands a request on to a pod and its answer back, as the subresource `proxy` does: without the header Authorization, which the API server
 * removes once it knows who asks, and over TLS without looking at the certificate where the scheme says https. What cannot be reached
 * is a 503.
 */
export function answerByProxy(pod: StoredObject, request: IncomingMessage, {response, path, address, scheme}: Proxying): void {
  const {authorization: _, host: _host, ...headers} = request.headers;
  const fail = (error: Error) => {
    const {status, body} = unreachable(pod, error);
    response.writeHead(status, {'content-type': 'application/json'}).end(JSON.stringify(body));
  };
  const tls = {rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1']};
  const options = {...address, path, method: request.method, headers, agent: false} as const;
  const onward = (scheme === 'https' ? https.request({...options, ...tls}) : http.request(options)).on('response', answer => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', fail).end();
  response.on('close', () => onward.destroy());
}

interface Proxying {
  readonly response: ServerResponse;
  /** On the pod. */
  readonly path: string;
  readonly address: PodAddress;
  readonly scheme: string;
}

function unreachable(pod: StoredObject, error: Error): Answer {
  const {code = ''} = error as NodeJS.ErrnoException;
  if (code in speaksOtherwise) return failure(503, `error trying to reach service: ${speaksOtherwise[code]}`);
  const reason = code === 'ECONNREFUSED' ? 'connect: connection refused' : error.message;
  return failure(503, `error trying to reach service: dial tcp ${podIP(pod)}: ${reason}`);
}

/** What Go's HTTP client says of a pod that does not speak what it was asked in. */
const speaksOtherwise: Readonly<Record<string, string>> = {
  EPROTO: 'http: server gave HTTP response to HTTPS client',
  ECONNRESET: 'EOF',
};

function podIP(pod: StoredObject): string {
  return (pod['status'] as {podIP?: string} | undefined)?.podIP ?? '';
}
