import {errorText} from '../../../model/text.ts';
import {readTextFile} from '../../text-file.ts';
import {KubeconfigError} from '../kubeconfig.ts';

/** The identity for requests. Queried before each request, because tokens expire during a run. */
export interface Credentials {
  /** A description for messages: `the token of user "admin"`. */
  readonly description: string;
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

/** Credentials that never change. */
export function fixedCredentials(description: string, {authorization = null, certificate = null}: Partial<Credential> = {}): Credentials {
  const credential = {authorization, certificate};
  return {description, current: async () => credential, renew: async () => false};
}

export function bearer(token: string): string {
  return `Bearer ${token.trim()}`;
}

export function basic(username: string, password = ''): string {
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
