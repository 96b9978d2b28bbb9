/** kubectl's own flags. An undefined or empty value means that the flag was not given. */
export interface ConnectionFlags {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly cluster?: string | undefined;
  readonly user?: string | undefined;
  readonly namespace?: string | undefined;
  readonly server?: string | undefined;
  readonly token?: string | undefined;
  readonly as?: string | undefined;
  readonly asGroups?: readonly string[] | undefined;
  readonly asUid?: string | undefined;
  readonly asUserExtra?: Readonly<Record<string, readonly string[]>> | undefined;
  readonly certificateAuthority?: string | undefined;
  readonly clientCertificate?: string | undefined;
  readonly clientKey?: string | undefined;
  readonly insecureSkipTlsVerify?: boolean | undefined;
  readonly tlsServerName?: string | undefined;
  readonly proxyUrl?: string | undefined;
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
