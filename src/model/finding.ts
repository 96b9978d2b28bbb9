import type {Family} from './address.ts';
import type {ObjectMeta} from './api-objects.ts';
import type {RuleText} from './ruleset.ts';
import type {Entry, ServicePort} from './service-port.ts';
import {plural} from './text.ts';

/** The effect on packets: lost or sent to a wrong place (error), served but not as configured (warning), by design or harmless (info). */
export type Severity = 'error' | 'warning' | 'info';

export const severities: readonly Severity[] = ['error', 'warning', 'info'];

export interface ServiceName {
  readonly namespace: string;
  readonly name: string;
}

/** How reports name a Service, or another object of a namespace. */
export function nameOf({metadata: {namespace = 'default', name}}: {readonly metadata: ObjectMeta}): ServiceName {
  return {namespace, name};
}

/** How reports name a Service port. */
export function ofPort(port: ServicePort): Required<Pick<Observation, 'family' | 'service' | 'port'>> {
  return {
    family: port.family,
    service: {namespace: port.namespace, name: port.service},
    port: {name: port.portName, protocol: port.protocol, port: port.port},
  };
}

/** Ports of a Service, by name; a port without a name by its number. */
export interface AffectedService extends ServiceName {
  readonly ports: readonly string[];
}

/** A packet by its addresses. */
export interface SentPacket {
  readonly family: Family;
  readonly source: string;
  readonly destination: string;
  /** 0 where the protocol has none. */
  readonly port: number;
  readonly protocol: string;
}

/** Whose packets a finding is about. */
export interface AffectedSenders {
  /** In words: `10.244.11.32/27 (2 pods: shop/a, shop/b)`. */
  readonly text: string;
  /** One of the packets. */
  readonly example: SentPacket;
  /** Running pods among them, as `namespace/name`, where the senders are less than a whole kind. */
  readonly pods: readonly string[];
}

/** Who notices a finding, and how: pods of its node, or else other clients. */
export interface Hits {
  /** Of the effect, if it is another one for a single pod. */
  readonly verb?: 'send' | 'have' | 'lose';
  /** What follows them and the verb in a sentence: `2 of 3 connections for shop/web:http to 10.244.1.9:80`. */
  readonly effect: string;
  /** Running pods of the node with an address of their own; left out if the pods of the node were not read. */
  readonly pods?: number;
  /** In place of the pods: `clients of node port 30080`. */
  readonly who?: string;
  /** The share of their connections that reaches no usable endpoint, from 0 to 1: of the Service port, or of all Services, if known. */
  readonly share?: number;
}

/** `41 pods on node-a send 2 of 3 connections for shop/web:http to 10.244.1.9:80`. `nodes` in words, empty for all. */
export function hitsText({verb, effect, pods, who}: Hits, nodes: string): string {
  const does = verb === undefined ? effect : `${pods === 1 && who === undefined ? ofOne[verb] : verb} ${effect}`;
  if (who !== undefined) return nodes === '' ? `${who.charAt(0).toUpperCase()}${who.slice(1)} ${does}` : `On ${nodes}, ${who} ${does}`;
  return `${pods === undefined ? 'Pods' : plural(pods, 'pod')} on ${nodes} ${does}`;
}

const ofOne = {send: 'sends', have: 'has', lose: 'loses'} as const;

/** When the rules of a node stopped following the API (RFC 3339). A bound that is not known is left out. */
export interface Since {
  /** The newest change that the rules have. */
  readonly after?: string;
  /** The oldest change that they lack. */
  readonly before?: string;
}

/** What happens, where findings with one code differ in it: other code reads this in place of the message. */
export type Variant =
  // ST106, ST110
  | 'of-api-server'
  | 'port-of-node-program'
  // ST119
  | 'of-pods'
  | 'of-pod-networks'
  | 'of-nodes'
  | 'of-machine'
  // ST207
  | 'served-without-local-endpoint'
  | 'dropped-beside-local-endpoint'
  | 'address-of-no-node'
  | 'lost-replies'
  | 'bypass-missing'
  // ST207, ST210: what should be dropped is not, and reaches no endpoint.
  | 'not-dropped'
  // ST210
  | 'ranges-not-enforced'
  | 'allowed-client-dropped'
  | 'ranges-not-configured'
  // ST211
  | 'to-itself'
  | 'not-masqueraded'
  | 'masqueraded'
  // ST401
  | 'lost-host-port'
  // ST204: the packets arrive, without a translation.
  | 'dropped-by-pod'
  // ST216
  | 'misnamed-chain'
  // ST301, ST305: no Service works for pods at least, or for the node itself alone, or those without endpoints do not refuse.
  | 'never-ran'
  | 'no-service-works'
  | 'no-service-works-for-node'
  | 'addresses-not-accepted'
  | 'no-refusal'
  // ST305: IPVS serves Services all the same.
  | 'unmasqueraded'
  // ST305
  | 'filter-flushed'
  // ST502
  | 'every-sync-fails'
  // ST601
  | 'forwards-nothing'
  // ST611
  | 'no-route-to-services'
  | 'led-elsewhere'
  | 'tunnels-differ'
  | 'link-down'
  | 'refused-by-routing-rules'
  // ST202
  | 'ready-as-terminating'
  // ST206
  | 'left-to-nobody'
  // ST505, with the seconds
  | 'behind'
  // ST801
  | 'lacks-entry'
  | 'lacks-backend'
  | 'has-backend';

/** The result of a check. The code and its properties are added when it becomes a Finding. */
export interface Observation {
  /** Set if it is not the usual severity of the check. */
  readonly severity?: Severity | undefined;
  readonly node?: string;
  readonly family?: Family;
  readonly service?: ServiceName;
  readonly port?: {readonly name: string; readonly protocol: string; readonly port: number};
  readonly entry?: Entry;
  /** `ip:port`. */
  readonly endpoint?: string;
  /** Whose tables it is about, if not those of kube-proxy. */
  readonly program?: 'the Cilium agent';
  /** The Services that a finding of the node concerns. */
  readonly affects?: readonly AffectedService[];
  readonly senders?: AffectedSenders;
  /** All whose packets it hits in the same way, `senders` too, in words: `clients outside the cluster`. Left out if not known. */
  readonly hitSenders?: readonly string[] | undefined;
  /** The share of connections from pods of the node (or of `senders`) that reaches no usable endpoint because of it, from 0 to 1, if known. */
  readonly share?: number | undefined;
  /** The share is that of one of the Service ports. */
  readonly isShareOfOne?: boolean;
  readonly message: string;
  readonly variant?: Variant | undefined;
  /** What happens, in words of its own for the first line of a report, where neither the code nor the variant tells it. */
  readonly gist?: string | undefined;
  /** Of ST101: both texts without what says that connections are refused, which another finding may deny. */
  readonly ifNotRefused?: {readonly message: string; readonly remedy: string};
  /** Rules that are expected and missing. */
  readonly expected?: readonly RuleText[];
  /** Rules that are on the node. */
  readonly actual?: readonly RuleText[];
  /** In place of a rule, the base chain whose policy it is. */
  readonly policyOf?: Pick<RuleText, 'table' | 'chain' | 'backend'> | undefined;
  /** The remedy; the check's own remedy if left out. */
  readonly remedy?: string | undefined;
  /** A command line for the remedy, or to confirm the finding, where there is one that is right as it stands. */
  readonly command?: string;
  /** How many usable endpoints the Service port has, if `endpoint` is one of them. */
  readonly endpoints?: number;
  /** The pod of `endpoint`, as `namespace/name`, if the API has it. */
  readonly pod?: string;
}

export interface Finding extends Observation {
  /** It is in the baseline: it is shown, and not counted. */
  readonly known?: true;
  /** Of a finding that is left out of the report: what leaves it out for this Service, in place of for all. */
  readonly skippedBy?: 'flag' | 'annotation';
  readonly hits?: Hits;
  /** Set if the rules of the node are older than the API. */
  readonly since?: Since;
  readonly code: string;
  readonly name: string;
  readonly severity: Severity;
  readonly remedy: string;
}

/**
 * Pairs the findings of two runs, one to one: if there are two now and there was one before, only one is known. Findings with equal
 * messages are paired first; message and line numbers may differ. `fits` restricts the pairs further. `stayed`: findings of the later run
 * that were in the earlier one.
 */
export function pairFindings(before: readonly Finding[], after: readonly Finding[], fits: (before: Finding, after: Finding) => boolean) {
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

/**
 * Whether these findings of one node show rules that are what they were before changes in the API: what is new is missing, what is gone is
 * still there, and nothing else is wrong with its Services. Rules that were deleted or added by hand are seldom both, and on several Services.
 */
export function areOlder(findings: readonly Finding[]): boolean {
  const ofServices = findings.filter(({service, severity}) => service !== undefined && severity !== 'info');
  const codes = [...new Set(ofServices.map(({code}) => code))];
  const services = new Set(ofServices.map(({service}) => JSON.stringify(service)));
  return (
    services.size > 1 &&
    codes.every(code => missing.has(code) || remaining.has(code) || changed.has(code)) &&
    codes.some(code => missing.has(code)) &&
    codes.some(code => remaining.has(code))
  );
}

/** Whether kube-proxy's not having applied a change can cause a finding with this code. */
export function isMissedChange(code: string): boolean {
  return missing.has(code) || remaining.has(code) || changed.has(code);
}

/** A new Service, endpoint or entry, or the first endpoint, that the rules lack. */
const missing: ReadonlySet<string> = new Set(['ST201', 'ST202', 'ST206', 'ST213']);
/** A former endpoint or Service, or the last endpoint, that the rules still have. */
const remaining: ReadonlySet<string> = new Set(['ST203', 'ST205', 'ST212']);
/** Another traffic policy, affinity or source ranges than now. */
const changed: ReadonlySet<string> = new Set(['ST207', 'ST209', 'ST210']);
