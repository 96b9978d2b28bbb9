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

/** kubectl's own flags, `connectionFlags` and `-n`. An undefined or empty value means that the flag was not given. */
export interface ConnectionFlags {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly cluster?: string | undefined;
  readonly user?: string | undefined;
  readonly namespace?: string | undefined;
  readonly 'request-timeout'?: string | undefined;
  readonly server?: string | undefined;
  readonly token?: string | undefined;
  readonly as?: string | undefined;
  readonly 'as-group'?: readonly string[] | undefined;
  readonly 'as-uid'?: string | undefined;
  /** `KEY=VALUE`. */
  readonly 'as-user-extra'?: readonly string[] | undefined;
  readonly 'certificate-authority'?: string | undefined;
  readonly 'client-certificate'?: string | undefined;
  readonly 'client-key'?: string | undefined;
  readonly 'insecure-skip-tls-verify'?: boolean | undefined;
  readonly 'tls-server-name'?: string | undefined;
  readonly 'proxy-url'?: string | undefined;
}

const units: Readonly<Record<string, number>> = {h: 3_600_000, m: 60_000, s: 1000, ms: 1, us: 0.001, µs: 0.001, ns: 0.000_001};

/**
 * Parses `--request-timeout` like kubectl: seconds, or a Go duration such as `1m30s`. In milliseconds, 0 for no limit; null if it is
 * neither. A timer of Node.js fires at once after more than 24.8 days: longer durations are that.
 */
export function parseTimeout(text: string): number | null {
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, longestTimer);
  const parts = [...text.matchAll(/(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|ns)/gy)];
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text) return null;
  const milliseconds = parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (units[unit] ?? 0), 0);
  return Math.min(Math.ceil(milliseconds), longestTimer);
}

const longestTimer = 2 ** 31 - 1;
