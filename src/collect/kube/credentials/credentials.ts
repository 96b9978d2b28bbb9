/** Who makes a request. Asked for before each request, because tokens expire while a run lasts. */
export interface Credentials {
  /** In words, for messages: `the token of user "admin"`. */
  readonly description: string;
  /** Null where the credential changes while a run lasts. */
  readonly fixed: FixedCredential | null;
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

/** A credential in the parts that client-node takes. */
interface FixedCredential extends Credential {
  readonly token: string | null;
  readonly password: {readonly username: string; readonly password: string} | null;
}

/** Credentials that stay what they are. */
export function fixedCredentials(
  description: string,
  {token = null, password = null, certificate = null}: Partial<Omit<FixedCredential, 'authorization'>> = {},
): Credentials {
  const authorization = token !== null ? bearer(token) : password !== null ? basic(password) : null;
  const fixed = {authorization, certificate, token: token?.trim() ?? null, password};
  return {description, fixed, current: async () => fixed, renew: async () => false};
}

export function bearer(token: string): string {
  return `Bearer ${token.trim()}`;
}

function basic({username, password}: {readonly username: string; readonly password: string}): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}
