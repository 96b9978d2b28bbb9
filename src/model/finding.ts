import type {Family} from './address.ts';
import type {RuleText} from './ruleset.ts';
import type {Entry} from './service-port.ts';

/** The effect on packets: lost or sent to a wrong place (error), served but not as configured (warning), by design or harmless (info). */
export type Severity = 'error' | 'warning' | 'info';

export const severities: readonly Severity[] = ['error', 'warning', 'info'];

export interface ServiceName {
  readonly namespace: string;
  readonly name: string;
}

/** Ports of a Service, by name; a port without a name by its number. */
export interface AffectedService extends ServiceName {
  readonly ports: readonly string[];
}

/** Whose packets a finding is about. */
export interface AffectedSenders {
  /** In words: `10.244.11.32/27 (2 pods: shop/a, shop/b)`. */
  readonly text: string;
  /** One of the packets. */
  readonly example: {
    readonly family: Family;
    readonly source: string;
    readonly destination: string;
    readonly port: number;
    readonly protocol: string;
  };
  /** Running pods among them, as `namespace/name`, where the senders are less than a whole kind. */
  readonly pods: readonly string[];
}

/** The result of a check. The code and its properties are added when it becomes a Finding. */
export interface Observation {
  /** Set if it is not the usual severity of the check. */
  readonly severity?: Severity;
  readonly node?: string;
  readonly family?: Family;
  readonly service?: ServiceName;
  readonly port?: {readonly name: string; readonly protocol: string; readonly port: number};
  readonly entry?: Entry;
  /** `ip:port`. */
  readonly endpoint?: string;
  /** The Services that a finding of the node concerns. */
  readonly affects?: readonly AffectedService[];
  readonly senders?: AffectedSenders;
  readonly message: string;
  /** Rules that are expected and missing. */
  readonly expected?: readonly RuleText[];
  /** Rules that are on the node. */
  readonly actual?: readonly RuleText[];
  /** The remedy; the check's own remedy if left out. */
  readonly remedy?: string;
  /** A command line for the remedy, or to confirm the finding, where there is one that is right as it stands. */
  readonly command?: string;
  /** How many usable endpoints the Service port has, if `endpoint` is one of them. */
  readonly endpoints?: number;
}

export interface Finding extends Observation {
  /** It is in the baseline: it is shown, and not counted. */
  readonly known?: true;
  /** Of a finding that is left out of the report: what leaves it out for this Service, in place of for all. */
  readonly skippedBy?: 'flag' | 'annotation';
  readonly code: string;
  readonly name: string;
  readonly severity: Severity;
  readonly remedy: string;
}

/** The findings that two runs have in common. */
interface PairedFindings {
  /** Findings of the later run that were in the earlier one. */
  readonly stayed: ReadonlySet<Finding>;
  readonly came: readonly Finding[];
  readonly went: readonly Finding[];
}

/**
 * Pairs the findings of two runs, one to one: if there are two now and there was one before, only one is known. Findings with equal
 * messages are paired first; message and line numbers may differ. `fits` restricts the pairs further.
 */
export function pairFindings(
  before: readonly Finding[],
  after: readonly Finding[],
  fits: (before: Finding, after: Finding) => boolean,
): PairedFindings {
  if (before.length === 0) return {stayed: new Set(), came: after, went: []};
  const left = Map.groupBy(before, identityOf);
  const stayed = new Set<Finding>();
  const pair = (finding: Finding, isSame: (other: Finding) => boolean): void => {
    const others = left.get(identityOf(finding)) ?? [];
    const at = others.findIndex(other => fits(other, finding) && isSame(other));
    if (at < 0) return;
    others.splice(at, 1);
    stayed.add(finding);
  };
  for (const finding of after) pair(finding, ({message}) => message === finding.message);
  for (const finding of after) if (!stayed.has(finding)) pair(finding, () => true);
  return {stayed, came: after.filter(finding => !stayed.has(finding)), went: [...left.values()].flat()};
}

/** A finding of a higher severity than before is a new one. */
export function isNoWorse(before: Finding, after: Finding): boolean {
  return severities.indexOf(after.severity) >= severities.indexOf(before.severity);
}

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
