/** A kubeconfig in the structure of its file, with lists indexed by name. Paths are absolute; field names are those of the file. */
export interface Kubeconfig {
  /** Empty if none is set. */
  readonly currentContext: string;
  readonly clusters: ReadonlyMap<string, Cluster>;
  readonly users: ReadonlyMap<string, User>;
  readonly contexts: ReadonlyMap<string, Context>;
}

export interface Cluster {
  readonly server?: string;
  readonly 'tls-server-name'?: string;
  readonly 'insecure-skip-tls-verify'?: boolean;
  readonly 'certificate-authority'?: string;
  readonly 'certificate-authority-data'?: string;
  readonly 'proxy-url'?: string;
  readonly 'disable-compression'?: boolean;
  readonly extensions?: readonly {readonly name: string; readonly extension: unknown}[] | null;
}

export interface User {
  readonly 'client-certificate'?: string;
  readonly 'client-certificate-data'?: string;
  readonly 'client-key'?: string;
  readonly 'client-key-data'?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly username?: string;
  readonly password?: string;
  readonly as?: string;
  readonly 'as-uid'?: string;
  readonly 'as-groups'?: readonly string[] | null;
  readonly 'as-user-extra'?: Readonly<Record<string, readonly string[]>> | null;
  readonly 'auth-provider'?: {readonly name: string; readonly config?: Readonly<Record<string, string>> | null} | null;
  readonly exec?: ExecConfig | null;
  /** The file that the user was read from; not a field of it. */
  readonly origin?: string;
}

/** A credential plugin: a program that prints an ExecCredential. */
export interface ExecConfig {
  readonly apiVersion?: string;
  readonly command?: string;
  readonly args?: readonly string[] | null;
  readonly env?: readonly {readonly name: string; readonly value: string}[] | null;
  readonly installHint?: string;
  readonly provideClusterInfo?: boolean;
  readonly interactiveMode?: string;
}

export interface Context {
  readonly cluster?: string;
  readonly user?: string;
  readonly namespace?: string;
}

export const emptyKubeconfig: Kubeconfig = {currentContext: '', clusters: new Map(), users: new Map(), contexts: new Map()};

/** A kubeconfig that cannot be used, or flags that contradict it: wrong use. The message says what was tried and what to do. */
export class KubeconfigError extends Error {
  override readonly name = 'KubeconfigError';
}
