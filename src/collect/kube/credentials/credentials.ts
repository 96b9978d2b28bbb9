import {errorText} from '../../../model/text.ts';
import {readTextFile} from '../../text-file.ts';
import {KubeconfigError} from '../kubeconfig.ts';

/** The identity for requests. Queried before each request, because tokens expire during a run. */
export interface Credentials {
  /** A description for messages: `the token of user "admin"`. */
  readonly description: string;
  /** Null if the credential changes during a run. */
  readonly fixed: FixedCredential | null;
  /** Rejects with an ApiError if there are no credentials. */
  current(): Promise<Credential>;
  /** Call it when the API server refused this credential. Resolves to true if a retry with the current one is useful. */
  renew(refused: Credential): Promise<boolean>;
  /** Ends what still runs to get them. */
  readonly close?: () => void;
}

export interface Credential {
  /** Value of the Authorization header; null if there is none. */
  readonly authorization: string | null;
  readonly certificate: ClientCertificate | null;
}

/** Both as PEM. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

/** A credential in the fields that client-node accepts. */
interface FixedCredential extends Credential {
  readonly token: string | null;
  readonly password: {readonly username: string; readonly password: string} | null;
}

/** Credentials that never change. */
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

/** PEM from base64 text or from a file; null if neither is given. Throws KubeconfigError if the file cannot be read. */
export function pemOf(data: string | undefined, file: string | undefined, what: string): string | null {
  if (data) return Buffer.from(data, 'base64').toString('utf8');
  if (!file) return null;
  try {
    return readTextFile(file);
  } catch (error) {
    throw new KubeconfigError(`cannot read the ${what} ${file}: ${errorText(error)}`, {cause: error});
  }
}
