import {createPrivateKey, X509Certificate} from 'node:crypto';
import {readFile} from 'node:fs/promises';
import {errorText} from '../model/text/error-text.ts';
import type {Clock} from '../run/clock.ts';
import type {KeyPair} from './key-pair.ts';

export interface CertificateFiles {
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

/** The certificate of an agent: from files, which are read again, or self-signed. */
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
    return expiryOf(this.#current);
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

function expiryOf({cert}: KeyPair): number {
  return Date.parse(new X509Certificate(cert).validTo);
}
