import type {Credentials} from './credentials/credentials.ts';

/** How to talk to one API server, as kubectl would with the same kubeconfig and flags. */
export interface ApiConnection {
  /** In words: `context "kind" at https://127.0.0.1:6443`. */
  readonly description: string;
  /** Its path is a prefix of every request's path. */
  readonly server: URL;
  /** The namespace where none is named. */
  readonly namespace: string;
  readonly trust: Trust;
  /** Null where the API server is reached directly. */
  readonly proxy: URL | null;
  readonly compression: boolean;
  readonly impersonation: Readonly<Record<string, string | readonly string[]>>;
  readonly credentials: Credentials;
}

export interface Trust {
  /** Certificates of authorities as PEM; null for those that the system trusts. */
  readonly ca: string | null;
  /** The name the certificate must have; null for the server's own. */
  readonly serverName: string | null;
  readonly verify: boolean;
}
