import {createPrivateKey, X509Certificate} from 'node:crypto';
import {readFile} from 'node:fs/promises';
import type {Server} from 'node:http';
import {hostname} from 'node:os';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import {errorText} from '../model/text.ts';
import {metric, sample} from '../render/ci/prometheus.ts';
import type {Clock} from '../run/clock.ts';
import {AccessGate, type ReviewCounts} from './access-gate.ts';
import {type Pages, replaceCertificate, servePages, type ListenAddress} from './agent-server.ts';
import type {KeyPair} from './self-signed-certificate.ts';

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
    listen,
    gate,
    certificate: certificate.current,
    pages: pagesWith(() => ({answers, reviews: gate.reviews, notAfter: certificate.notAfter})),
    onAnswer: status => void answers.set(status, (answers.get(status) ?? 0) + 1),
  });
  return {
    server,
    description: `HTTPS, ${files === null ? 'self-signed certificate' : `certificate in ${files.cert}`}`,
    run: signal =>
      certificate.follow(
        {onChange: pair => replaceCertificate(server, pair), onTrouble: reason => onTrouble(`the new certificate is not used: ${reason}`)},
        signal,
      ),
  };
}

/** Answers, reviews and the certificate. */
export interface ServingState {
  /** Answers to requests that need a token, by HTTP status. */
  readonly answers: ReadonlyMap<number, number>;
  /** Null if no token is needed. */
  readonly reviews: ReviewCounts | null;
  /** When the certificate expires, in milliseconds since 1970; null for plain HTTP. */
  readonly notAfter: number | null;
}

export function servingMetrics({answers, reviews, notAfter}: ServingState): readonly string[] {
  const statuses = [...answers].toSorted(([a], [b]) => a - b);
  return [
    metric(
      'svc_trace_agent_requests_total',
      'Answers to requests that need a token, by HTTP status.',
      statuses.map(([code, count]) => sample({code: String(code)}, count)),
    ),
    metric(
      'svc_trace_agent_token_reviews_total',
      'Reviews of tokens by the API server: answered or failed.',
      reviews === null ? [] : [sample({result: 'answered'}, reviews.answered), sample({result: 'failed'}, reviews.failed)],
    ),
    metric(
      'svc_trace_agent_certificate_expiry_timestamp_seconds',
      'When the certificate expires.',
      notAfter === null ? [] : [sample({}, notAfter / 1000)],
    ),
  ];
}

interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

interface CertificateOptions {
  /** Null for a self-signed certificate. */
  readonly files: CertificateFiles | null;
  /** Names and addresses of a self-signed certificate. */
  readonly names: readonly string[];
  readonly clock: Clock;
}

/**
 * The certificate of an agent: from files, which are read again, or self-signed.
 * @internal
 */
export class ServingCertificate {
  readonly #options: CertificateOptions;
  #current: KeyPair;
  #trouble: string | null = null;

  private constructor(options: CertificateOptions, current: KeyPair) {
    this.#options = options;
    this.#current = current;
  }

  /** Rejects if the files cannot be read, or are not a certificate and its key. */
  static async open(options: CertificateOptions): Promise<ServingCertificate> {
    return new ServingCertificate(options, await fresh(options));
  }

  get current(): KeyPair {
    return this.#current;
  }

  /** When it expires, in milliseconds since 1970. */
  get notAfter(): number {
    return Date.parse(new X509Certificate(this.#current.cert).validTo);
  }

  /**
   * Reads the files every ten seconds, like controller-runtime's certwatcher: a mounted Secret changes by replacing a symbolic link,
   * which file watches miss. An invalid certificate does not replace the current one. Rejects with the signal's reason when it is
   * aborted, and does not resolve.
   */
  async follow(
    {onChange, onTrouble}: {readonly onChange: (pair: KeyPair) => void; readonly onTrouble: (reason: string) => void},
    signal: AbortSignal,
  ): Promise<never> {
    for (;;) {
      await this.#options.clock.sleep(pace, signal);
      const before = this.#current;
      const trouble = await this.#renew();
      if (trouble !== null && trouble !== this.#trouble) onTrouble(trouble);
      this.#trouble = trouble;
      if (this.#current !== before) onChange(this.#current);
    }
  }

  /** Null, or the reason why the certificate could not be renewed. */
  async #renew(): Promise<string | null> {
    const {files, clock} = this.#options;
    if (files === null && this.notAfter - clock.now() > month) return null;
    try {
      const pair = await fresh(this.#options);
      if (pair.cert !== this.#current.cert || pair.key !== this.#current.key) this.#current = pair;
      return null;
    } catch (error) {
      return errorText(error);
    }
  }
}

/** In milliseconds. */
const [pace, month] = [10_000, 30 * 24 * 3_600_000];

async function fresh({files, names, clock}: CertificateOptions): Promise<KeyPair> {
  if (files === null) {
    const {selfSignedCertificate} = await import('./self-signed-certificate.ts');
    return selfSignedCertificate(names, clock.now());
  }
  const [cert, key] = await Promise.all([readFile(files.cert, 'utf8'), readFile(files.key, 'utf8')]);
  if (!isPair(cert, key, files)) throw new Error(`the key in ${files.key} is not that of the certificate in ${files.cert}`);
  return {cert, key};
}

/** Throws if one of the two is invalid. */
function isPair(cert: string, key: string, files: CertificateFiles): boolean {
  const certificate = parsed(files.cert, 'certificate', () => new X509Certificate(cert));
  return certificate.checkPrivateKey(parsed(files.key, 'private key without a password', () => createPrivateKey(key)));
}

function parsed<T>(file: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new Error(`${file} contains no ${what} (PEM)`, {cause: error});
  }
}
