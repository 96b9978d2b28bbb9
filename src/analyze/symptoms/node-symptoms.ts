import type {ServedPort} from '../../model/endpoint.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {Hypothesis, NodeContext, SeenDetector} from '../../expect/node-context.ts';
import {contains, type Family, parseAddress, parseCidr} from '../../model/address.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {namespacedName, plural} from '../../model/text.ts';
import type {Symptom} from './symptom.ts';

/** Symptoms for a hypothesis: one wrong assumption of a kube-proxy that explains many differences. */

/** Pods are identified by other means than the settings say; null if they are not. */
export function otherDetectorThan(
  {family, detector, masqueradeAll}: Pick<NodeContext, 'family' | 'detector' | 'masqueradeAll'>,
  seen: SeenDetector,
): {readonly hypothesis: Hypothesis; readonly symptom: Symptom} | null {
  const found = describeDetector(seen);
  const configured = describeDetector(masqueradeAll ? 'all' : detector);
  if (found === configured) return null;
  const detail = `the rules of most Services treat ${found} as pods, but kube-proxy's settings say ${configured}: kube-proxy runs with other settings than the ones that were read`;
  return {
    hypothesis: seen === 'all' ? {masqueradeAll: true} : {masqueradeAll: false, detector: seen},
    symptom: {kind: 'cluster-cidr-mismatch', family, port: null, detail, expected: [], actual: []},
  };
}

export function describeDetector(detector: SeenDetector): string {
  if (detector === 'all') return 'no clients (masqueradeAll)';
  if (detector.kind === 'none') return 'all clients (no masquerade rule)';
  return `clients ${detector.kind === 'cidr' ? `in ${detector.cidr}` : `behind ${detector.name}`}`;
}

export function nodeNameMismatch(
  {family, facts}: Pick<NodeContext, 'family' | 'facts'>,
  {name, ports}: {readonly name: string; readonly ports: readonly ServedPort[]},
): Symptom {
  const names = ports.slice(0, 3).map(({port}) => port.servicePortName);
  const such = `(${ports.length} Service ports, such as ${names.join(', ')})`;
  const detail =
    name === ''
      ? `none of the endpoints that the API places on ${facts.name} is treated as local ${such}: its kube-proxy runs under another node name`
      : `the endpoints that the API places on ${name} are treated as local, and not those on ${facts.name} ${such}: its kube-proxy runs as ${name}`;
  return {kind: 'node-name-mismatch', family, port: null, detail, expected: [], actual: []};
}

export function zoneUnknown({family}: Pick<NodeContext, 'family'>, ports: readonly ServedPort[]): Symptom {
  const names = ports.slice(0, 3).map(({port}) => port.servicePortName);
  const detail = `for all Services with topology hints the node uses the endpoints that a node without a zone would use (${ports.length}, such as ${names.join(', ')}): its kube-proxy does not know the node's zone`;
  return {kind: 'zone-unknown-to-kube-proxy', family, port: null, detail, expected: [], actual: []};
}

/**
 * One symptom for all of the chains that are left over and that no rule jumps to; none if there are no such chains. `inUse` has the targets
 * of all rules that are in use.
 */
export function orphanChains<C extends {readonly name: string; rules(): readonly RuleText[]}>(
  leftovers: readonly C[],
  {family, inUse, targetsOf}: {readonly family: Family; readonly inUse: Iterable<string>; targetsOf(chain: C): readonly string[]},
): readonly Symptom[] {
  const left = new Map(leftovers.map(chain => [chain.name, chain]));
  const queue: (readonly string[])[] = [];
  const reach = (target: string): void => {
    const chain = left.get(target);
    if (chain !== undefined && left.delete(target)) queue.push(targetsOf(chain));
  };
  for (const target of left.size === 0 ? [] : inUse) reach(target);
  for (let targets = queue.pop(); targets !== undefined; targets = queue.pop()) targets.forEach(reach);
  const orphans = [...left.values()];
  if (orphans.length === 0) return [];
  const detail = `${plural(orphans.length, 'chain')} of kube-proxy that no rule jumps to (such as ${orphans[0]?.name}): no traffic is affected, and the next full sync removes them`;
  const rules = orphans.slice(0, 3).flatMap(chain => chain.rules().slice(0, 1));
  const chains = orphans.map(({name}) => name);
  return [{kind: 'orphan-chain', family, port: null, detail, expected: [], actual: rules, chains}];
}

/** A node that holds no rule of any Service of this family; `what` ends in "none of the rules". */
export function noServiceRules(
  what: string,
  {context: {family}, ports}: {readonly context: {readonly family: Family}; readonly ports: readonly unknown[]},
): Symptom {
  const detail = `${what} of ${plural(ports.length, 'Service port')}: ${noServiceWorks(family)}`;
  return {kind: 'no-service-rules', variant: 'no-service-works', family, port: null, detail, expected: [], actual: []};
}

/** The detail of a symptom of base rules, whose effect the first line of a report tells. */
export function withEffect(what: string, gist: string): Pick<Symptom, 'detail' | 'gist'> {
  return {detail: `${what}: ${gist}`, gist};
}

/** The effect on a node that masquerades nothing. */
export const unmasqueraded = 'clients outside the cluster may get no reply, and a pod that reaches itself through a Service gets none';

/** The effect on a node that holds no rule of any Service of this family. */
export function noServiceWorks(family: Family): string {
  return `no Service works ${onNode(family)}`;
}

export function noNodePortAnswers(family: Family): string {
  return `no node port answers ${onNode(family)}`;
}

export function noAddressAnswers(family: Family): string {
  return `no cluster IP, load-balancer IP or external IP answers ${onNode(family)}`;
}

function onNode(family: Family): string {
  return `on this node${family === 'IPv6' ? ' over IPv6' : ''}`;
}

/**
 * The symptoms that hold even if not all Services were read: rules of a Service that was not read are not stale. Unattributed rules are
 * only reported if they affect the Services that were read.
 */
export function withinWhatWasRead(symptoms: readonly Symptom[], api: Scope): readonly Symptom[] {
  if (api.namespaces === undefined) return symptoms;
  const isRead = servicesRead(api);
  return symptoms.filter(({kind, port, service, severity}) => {
    if (port !== null) return true;
    if (kind === 'orphan-chain') return false;
    if (service !== undefined) return isRead(service);
    if (kind === 'stale-service') return false;
    return kind !== 'unexpected-rule' || (severity ?? 'info') !== 'info';
  });
}

type Scope = Pick<ApiObjects, 'services' | 'namespaces'>;

/** Whether a Service was read, or would have been if the API had it. */
export function servicesRead({services, namespaces}: Scope): (service: ServiceName) => boolean {
  const read = new Set((services ?? []).map(({metadata}) => namespacedName(metadata)));
  return service => namespaces === undefined || namespaces.includes(service.namespace) || read.has(namespacedName(service));
}

/** The network that detects pods contains none of the node's own pods. */
export function uncoveredPods({
  context: {detector, facts, family, masqueradeAll},
  ports,
}: {
  readonly context: NodeContext;
  readonly ports: readonly ServedPort[];
}): readonly Symptom[] {
  const network = detector.kind === 'cidr' ? parseCidr(detector.cidr) : null;
  const own = facts.podCIDRs.flatMap(text => parseCidr(text) ?? []).filter(cidr => cidr.family === family);
  if (network === null || own.length === 0 || masqueradeAll) return [];
  if (own.some(cidr => contains(network, {family, value: cidr.base}))) return [];
  const service = ports.find(({port}) => contains(network, parseAddress(port.clusterIP) ?? {family, value: -1n}))?.port;
  const what = service === undefined ? '' : `holds the cluster IPs of Services (${service.clusterIP}), and `;
  const detail = `clusterCIDR ${network.text} ${what}does not hold the pods of this node (${own.map(({text}) => text).join(', ')}): their traffic to Services is masqueraded`;
  return [{kind: 'cluster-cidr-mismatch', cause: 'setting', family, port: null, detail, expected: [], actual: []}];
}
