/** Who makes a request. Asked for before each request, because tokens expire while a run lasts. */
export interface Credentials {
  /** In words, for messages: `the token of user "admin"`. */
  readonly description: string;
  /** Rejects with an ApiError when there are none to be had. */
  current(): Promise<Credential>;
  /** The API server refused this credential. True when it is worth asking again with the one that is current now. */
  renew(refused: Credential): Promise<boolean>;
}

export interface Credential {
  /** Value of the Authorization header; null for none. */
  readonly authorization: string | null;
  readonly certificate: ClientCertificate | null;
}

/** Both as PEM. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

/** Credentials that stay what they are. */
export function fixedCredentials(description: string, credential: Credential): Credentials {
  return {description, current: async () => credential, renew: async () => false};
}

export function bearer(token: string): string {
  return `Bearer ${token.trim()}`;
}
