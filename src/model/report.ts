import type {Family} from './address.ts';
import type {Finding, ServiceName} from './finding.ts';
import type {Setting} from './proxy-config.ts';
import type {PortTrace} from './service-trace.ts';
import {partition} from './lists.ts';
import type {NodeLag} from './state-history.ts';
import {namespacedName, plural} from './text.ts';
import type {UnservedKind} from './service-port.ts';

/** Of a node whose rules stand alone. */
export const onlyRules = 'from rules alone: nothing to compare with';

/** Why rules that stand alone tell nothing of Services. */
export const printedByNft =
  "kube-proxy's rules of iptables as nft prints them, without the names of Services: paste what iptables-save prints";

/** The result of a run: the data behind every output format. */
export interface Report {
  readonly tool: {readonly name: string; readonly version: string};
  readonly summary: Summary;
  readonly nodes: readonly NodeReport[];
  readonly findings: readonly Finding[];
  /** Errors and warnings that `--only` and `--skip` leave out. They change no cell and no count of Services. */
  readonly leftOut?: readonly Finding[];
  /** The Services in scope that kube-proxy serves, for the matrix. */
  readonly services: readonly ReportedService[];
  /** The requested scope, as text: `namespace shop`. */
  readonly scope?: string;
  /** The packet paths to each port, if requested. */
  readonly traces: readonly PortTrace[];
  /** Set if there were rules and no API objects: nothing was compared. */
  readonly basis?: 'rules';
  /** Set if the run waited for the nodes, by `--wait`. */
  readonly wait?: WaitReport;
}

export interface ReportedService extends ServiceName {
  /** Left out where the Service does not say it. */
  readonly families?: readonly Family[];
  /** The nodes with an endpoint, if only clients of these nodes are served: its traffic policies are Local. */
  readonly onlyOn?: ReadonlySet<string>;
  readonly ports?: number;
}

/** How long nodes took to converge. Seconds are counted from the start of the run. */
export interface WaitReport {
  readonly limitSeconds: number;
  readonly seconds: number;
  /** How many checks were made. */
  readonly looks: number;
  /** In the end no finding failed the run, and every node was checked. */
  readonly clean: boolean;
  /** The nodes that can have kube-proxy rules. */
  readonly nodes: readonly NodeWait[];
}

export interface NodeWait {
  readonly name: string;
  /** The number of the check, from 1, in which the node was first in sync with the current Services; left out if there was none. */
  readonly look?: number;
  /** When that read of the node began. */
  readonly seconds?: number;
  /** It was not waited for: it cannot be read because of a permanent error. */
  readonly waitedFor?: false;
}

export interface Summary {
  /** `incomplete` if something could not be read and no other finding fails the run. */
  readonly verdict: 'ok' | 'findings' | 'incomplete';
  readonly errors: number;
  readonly warnings: number;
  readonly infos: number;
  readonly nodesChecked: number;
  readonly nodesUnread: number;
  /** Services in scope: the sum of the four counts below. */
  readonly services: number;
  /** Without an error or warning, on every node that was checked. */
  readonly servicesInSync: number;
  /** With an error or warning of their own, or on a node where an error affects all Services. */
  readonly servicesWithFindings: number;
  /** Services for which kube-proxy writes no rules, by reason. */
  readonly servicesWithoutRules: Readonly<Partial<Record<UnservedKind, number>>>;
  readonly servicesNotChecked: number;
  readonly servicePorts: number;
  /** Errors and warnings that `--only` and `--skip` leave out; left out if there are none. Counts of Services include them. */
  readonly notShown?: number;
  /** Those of them that are left out for one Service only. */
  readonly skipped?: readonly SkippedFinding[];
  /** Set by `--sample` if only some nodes were checked: the number of all nodes. */
  readonly sampledFrom?: number;
}

export interface SkippedFinding extends ServiceName {
  readonly code: string;
  /** `--skip CODE=NAMESPACE/NAME`, or the annotation of the Service. */
  readonly by: 'flag' | 'annotation';
}

export interface NodeReport {
  readonly name: string;
  readonly status: 'checked' | 'unread' | 'unsupported';
  /** Why it was not checked. */
  readonly reason?: string;
  readonly proxyMode?: string;
  readonly kubeProxyVersion?: string;
  /** Left out if no tables of Cilium were compared. */
  readonly ciliumVersion?: string;
  readonly backend?: 'nft' | 'legacy';
  readonly families: readonly Family[];
  readonly rules: number;
  readonly chains: number;
  /** Of table nat, only the chains that packets to the requested Services can reach were read. `rules` and `chains` count those. */
  readonly read?: 'reachable';
  /** The kube-proxy settings that the expectation depends on, each with its source. */
  readonly settings: Readonly<Record<string, Setting<string>>>;
  /** How it was read, as text: by exec into which pod, with the tools of which image. Left out if unknown. */
  readonly via?: string;
  /** Optional files that could not be read, with the reason; left out if there are none. */
  readonly notRead?: readonly {readonly file: string; readonly reason: string}[];
  /** How far its rules lag behind the API; left out if no Service changed shortly before it was read, or Services were not followed. */
  readonly lag?: NodeLag;
}

/** For a report in which no node was checked, and none is unread. */
export function whyNothingChecked([first, ...more]: readonly NodeReport[]): string {
  if (first === undefined) return 'no node was checked: no nodes were found';
  const others = more.length === 0 ? '' : `, and ${plural(more.length, 'more node')}`;
  return `no node was checked: ${first.name}${others}: ${first.reason ?? 'kube-proxy does not serve it'}`;
}

export interface ServicesInScope {
  /** The Services that kube-proxy serves. */
  readonly served: readonly ReportedService[];
  readonly servicesWithoutRules: Summary['servicesWithoutRules'];
  /** The Services whose endpoints could not be read. */
  readonly unread: number;
}

type ServiceCounts = Pick<Summary, 'services' | 'servicesInSync' | 'servicesWithFindings' | 'servicesWithoutRules' | 'servicesNotChecked'>;

/** Counts every Service in scope once, so that the counts of a report add up. Findings known from a baseline count too: such a Service is not in sync. */
export function countServices(
  {served, servicesWithoutRules, unread}: ServicesInScope,
  findings: readonly Finding[],
  nodes: readonly NodeReport[],
): ServiceCounts {
  const own = new Set(
    findings.flatMap(({severity, service}) => (service === undefined || severity === 'info' ? [] : [namespacedName(service)])),
  );
  const [ofSome, ofAll] = partition(findings.filter(affectsAllServices), namesServices);
  const families = new Set(ofAll.map(({family}) => family));
  for (const {affects = []} of ofSome) for (const service of affects) own.add(namespacedName(service));
  const isChecked = nodes.some(({status}) => status === 'checked');
  const isAffected = (service: ReportedService): boolean =>
    own.has(namespacedName(service)) || [...families].some(family => concernsFamily({family}, service.families ?? []));
  const withFindings = served.filter(isAffected).length;
  const others = served.length - withFindings;
  return {
    services: served.length + sumOf(servicesWithoutRules) + unread,
    servicesInSync: isChecked ? others : 0,
    servicesWithFindings: withFindings,
    servicesWithoutRules,
    servicesNotChecked: (isChecked ? 0 : others) + unread,
  };
}

/** The number of Services without kube-proxy rules, whatever the reason. */
export function sumOf(byReason: Summary['servicesWithoutRules']): number {
  return Object.values(byReason).reduce((sum, number) => sum + number, 0);
}

/**
 * An error of a node as a whole affects every Service, unless it names those that it affects. One of a Service that the API does not have
 * (ST205) affects none of the others.
 */
export function affectsAllServices({code, severity, node, service}: Finding): boolean {
  return severity === 'error' && node !== undefined && service === undefined && code !== 'ST205' && code !== 'ST803';
}

/** An error of the node affects these Services alone. */
export function namesServices({affects}: Pick<Finding, 'affects'>): boolean {
  return affects !== undefined;
}

/** A fault of one family is no fault of a Service that has only the other; one whose families are not known may have both. */
export function concernsFamily({family}: {readonly family?: Family | undefined}, families: readonly Family[]): boolean {
  return family === undefined || families.length === 0 || families.includes(family);
}
