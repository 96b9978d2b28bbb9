/** A certificate, with those of its authorities after it, and its private key, as PEM. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}
