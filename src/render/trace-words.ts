import type {RuleText} from '../model/ruleset.ts';
import {entryText} from '../model/service-port.ts';
import type {CountedRule, EndpointTrace, EntryTrace, PortTrace, UnservedAddress} from '../model/service-trace.ts';
import {plural, servicePortText, namespacedName, someOf} from '../model/text.ts';
import type {Finding} from '../model/finding.ts';

/** `namespace/name:port`, as kube-proxy names a Service port. Not escaped. */
export function portName({service, port}: PortTrace): string {
  return servicePortText(service, port);
}

export function portAndProtocol({port}: PortTrace): string {
  return port.port === 0 ? port.protocol : `port ${port.port}/${port.protocol}`;
}

/** `load-balancer IP 203.0.113.9:80: no rules: ipMode is Proxy…`. Not escaped. */
export function unservedText(address: UnservedAddress): string {
  return `${unservedName(address)}: ${noRulesText(address)}`;
}

export function unservedName({kind, address, port}: UnservedAddress): string {
  if (address === null && kind === 'loadBalancerIP') return 'load-balancer IP';
  return port === 0 ? 'node port' : entryText({kind, address, port});
}

export function noRulesText({reason}: UnservedAddress): string {
  return `no rules: ${reason}`;
}

/** What is wrong with an endpoint of an entry, or its expected share. */
export function shouldBe(endpoint: EndpointTrace, entry: EntryTrace): string {
  const {mark, share, expectedShare, masquerade} = endpoint;
  if (mark === 'missing') return isPassedOver(entry) ? mark : 'gets none';
  if (mark === 'stale') return isOfOthers(endpoint.rewrite) ? 'by a rule of another program' : mark;
  if (mark !== 'wrong' || expectedShare === null) return mark;
  if (percent(expectedShare) !== percent(share)) return `should be ${percent(expectedShare)}`;
  return Math.abs(expectedShare - (share ?? 0)) > 1e-4 ? mark : `should ${masquerade ? 'not ' : ''}be masqueraded`;
}

/** kube-proxy's rules send packets to other endpoints: those of this one are missing. Otherwise they may exist, and not be reached. */
function isPassedOver({endpoints, end}: EntryTrace): boolean {
  const isStopped = end !== null && end.verdict !== 'passed';
  return !isStopped && endpoints.some(({share, rewrite}) => share !== 0 && !isOfOthers(rewrite));
}

/** Whether it is a rule in a table or chain that is not kube-proxy's. */
function isOfOthers(rule: CountedRule | null): boolean {
  if (rule === null) return false;
  return rule.table === 'nat' ? !rule.chain.startsWith('KUBE-') : /^(?:ip6?|inet) (?!kube-proxy$)/.test(rule.table);
}

/** How a path ends that reaches no endpoint. Not escaped. */
export function endText({verdict, reason, rule}: NonNullable<EntryTrace['end']>, mark: EntryTrace['mark']): string {
  const words = {
    // kube-proxy itself rejects only packets to Services without endpoints.
    rejected: mark === 'ok' ? 'refused (no endpoints)' : `refused (${reason ?? 'REJECT'})`,
    // Without a rule it is the kernel itself.
    dropped: `dropped${rule === null && reason !== undefined ? '' : ' (DROP)'}${reason === undefined ? '' : `: ${reason}`}`,
    undecided: `undetermined: ${reason ?? ''}`,
    passed: `not rewritten: ${reason ?? 'no rule matches'}`,
  };
  return words[verdict];
}

/** `?` if the share is unknown. */
export function percent(share: number | null): string {
  return share === null ? '?' : `${Math.round(share * 1000) / 10}%`;
}

/** `12 packets`; empty if the dump has no counters. */
export function packetsText({packets, connections, rounded}: Pick<CountedRule, 'packets' | 'connections' | 'rounded'>): string {
  if (connections !== undefined) return plural(connections, 'connection');
  return packets === undefined ? '' : `${rounded ? 'about ' : ''}${plural(packets, 'packet')}`;
}

/** Details that are shown for the first node of a group only. */
export function ofFirstNode(group: readonly PortTrace[]): string {
  const [first] = group;
  if (first === undefined || group.length < 2) return '';
  const rules = first.entries
    .flatMap(({steps, endpoints, end}) => [...steps, ...endpoints.flatMap(({pick, rewrite}) => [pick, rewrite]), end?.rule])
    .filter(rule => rule !== null && rule !== undefined);
  const shown = [
    ...(rules.some(rule => dumpLine(rule) > 0) ? ['line numbers'] : []),
    ...(rules.some(rule => packetsText(rule) !== '') ? ['counters'] : []),
  ];
  return shown.length === 0 ? '' : `${shown.join(' and ')} of ${first.node}`;
}

/**
 * The line of a rule in the node's dump or in pasted text. 0 if it has none: rules in JSON are counted in their chain, and IPVS servers,
 * elements of ipsets, entries of Cilium's map and addresses are found by their key.
 */
export function dumpLine({table, line, isOrdinal}: Pick<RuleText, 'table' | 'line' | 'isOrdinal'>): number {
  return isOrdinal || keyed.has(table) ? 0 : line;
}

/** `nat`; `nat (legacy)` where the node has rules in both backends of iptables. */
export function tableName({table, backend}: Pick<RuleText, 'table' | 'backend'>): string {
  return backend === undefined ? table : `${table} (${backend})`;
}

const keyed: ReadonlySet<string> = new Set(['ipvs', 'ipset', 'kube-ipvs0', 'cilium']);

/** ST101 says that connections are refused. Where an error of a node says that they hang, or still reach an address, it must not. */
export function withNotRefused(findings: readonly Finding[], leftOut: readonly Finding[] = []): readonly Finding[] {
  if (!findings.some(isOfEmptyService)) return findings;
  const errors = [...findings, ...leftOut].filter(
    ({severity, node, code}) => severity === 'error' && node !== undefined && codes.has(code),
  );
  if (errors.length === 0) return findings;
  const byService = Map.groupBy(errors, ({service}) => (service === undefined ? null : namespacedName(service)));
  return findings.map(finding => {
    if (!isOfEmptyService(finding) || finding.service === undefined) return finding;
    return corrected(finding, [...(byService.get(null) ?? []), ...(byService.get(namespacedName(finding.service)) ?? [])]);
  });
}

function isOfEmptyService({code}: Finding): boolean {
  return code === 'ST101';
}

/** They say that packets end elsewhere than in a refusal. */
const codes: ReadonlySet<string> = new Set(['ST203', 'ST212', 'ST301']);

function corrected(finding: Finding, errors: readonly Finding[]): Finding {
  const own = errors.filter(error => isAbout(error, finding));
  if (own.length === 0 || finding.ifNotRefused === undefined) return finding;
  const {message, remedy} = finding.ifNotRefused;
  const nodes = someOf([...new Set(own.flatMap(({node}) => node ?? []))], {max: 3, noun: 'node'});
  const because = [...new Set(own.map(({code}) => code))].join(', ');
  return {...finding, message: `${message}. Connections should be refused, and on ${nodes} are not (${because})`, remedy};
}

function isAbout({code, service, affects, family, port, variant}: Finding, empty: Finding): boolean {
  if (empty.service === undefined || (family !== undefined && empty.family !== undefined && family !== empty.family)) return false;
  const name = namespacedName(empty.service);
  if (service === undefined) return affects?.some(one => namespacedName(one) === name) ?? (code === 'ST301' && variant === 'no-refusal');
  return namespacedName(service) === name && (empty.port === undefined || port === undefined || empty.port.name === port.name);
}
