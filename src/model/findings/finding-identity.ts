import type {Finding} from '../finding.ts';

/** The identity of a finding across runs: everything except message and line numbers. */
export function identityOf({
  code,
  node,
  family,
  service,
  port,
  entry,
  endpoint,
}: Omit<Finding, 'severity' | 'name' | 'message' | 'remedy'>): string {
  return JSON.stringify([
    code,
    node ?? null,
    family ?? null,
    service?.namespace ?? null,
    service?.name ?? null,
    port?.name ?? null,
    port?.protocol ?? null,
    entry?.kind ?? null,
    entry?.address ?? null,
    endpoint ?? null,
  ]);
}
