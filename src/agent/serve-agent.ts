import type {Server} from 'node:http';
import {hostname} from 'node:os';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import type {Clock} from '../run/clock.ts';
import {AccessGate} from './access-gate.ts';
import {type Pages, replaceCertificate, servePages} from './agent-server.ts';
import type {ListenAddress} from './listen-address.ts';
import {type CertificateFiles, ServingCertificate} from './serving-certificate.ts';
import type {ServingState} from './serving-metrics.ts';

/** HTTPS with authorization, or plain HTTP without. */
export type ServingMode = {readonly kind: 'https'; readonly files: CertificateFiles | null} | {readonly kind: 'http'};

interface AgentServing {
  readonly api: KubeApi;
  readonly node: string;
  readonly listen: ListenAddress;
  readonly mode: ServingMode;
  readonly clock: Clock;
  /** `state` is read at each scrape. */
  readonly pagesWith: (state: () => ServingState) => Pages;
  /** Called when the certificate or the reviews fail, and when reviews work again. */
  readonly onTrouble: (text: string) => void;
}

interface ServedAgent {
  readonly server: Server;
  /** For messages: `HTTPS, certificate in /tls/tls.crt`. */
  readonly description: string;
  /** Renews the certificate. Rejects with the signal's reason when that is aborted, and does not resolve. */
  run(signal: AbortSignal): Promise<never>;
}

/** Rejects if it cannot listen, or the certificate is invalid. */
export async function serveAgent(serving: AgentServing): Promise<ServedAgent> {
  return serving.mode.kind === 'http' ? servePlain(serving) : serveSecurely(serving, serving.mode.files);
}

async function servePlain({listen, clock, pagesWith}: AgentServing): Promise<ServedAgent> {
  const server = await servePages({
    listen,
    certificate: null,
    gate: null,
    pages: pagesWith(() => ({answers: new Map(), reviews: null, notAfter: null})),
  });
  return {
    server,
    description: 'plain HTTP, open to everyone',
    async run(signal) {
      for (;;) await clock.sleep(aDay, signal);
    },
  };
}

/** In milliseconds. */
const aDay = 86_400_000;

async function serveSecurely(
  {api, node, listen, clock, pagesWith, onTrouble}: AgentServing,
  files: CertificateFiles | null,
): Promise<ServedAgent> {
  // A zone (fe80::1%eth0) is no part of a name.
  const host = listen.host?.split('%', 1)[0];
  const names = [...new Set([node, hostname(), 'localhost', '127.0.0.1', '::1', ...(host === undefined ? [] : [host])])];
  const certificate = await ServingCertificate.open({files, names, clock});
  const gate = new AccessGate({
    api,
    onFailure: reason =>
      onTrouble(reason === null ? 'tokens are reviewed again' : `tokens cannot be reviewed, requests get 503: ${reason}`),
  });
  const answers = new Map<number, number>();
  const server = await servePages({
    ...{listen, gate, certificate: certificate.current},
    pages: pagesWith(() => ({answers, reviews: gate.reviews, notAfter: certificate.notAfter})),
    onAnswer: status => void answers.set(status, (answers.get(status) ?? 0) + 1),
  });
  return {
    server,
    description: `HTTPS, ${files === null ? 'self-signed certificate' : `certificate in ${files.cert}`}`,
    run: signal =>
      certificate.follow(
        {
          onChange: pair => replaceCertificate(server, pair),
          onTrouble: reason => onTrouble(`the new certificate is not used: ${reason}`),
        },
        signal,
      ),
  };
}
