import type {ServedPort} from '../../model/endpoint.ts';
import {whyNotServed} from '../../expect/cluster/cluster-view.ts';
import type {NodeContext} from '../../expect/node-context.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {Difference, RuleText} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {PortSymptom, SymptomList} from './symptom-list.ts';
import type {Symptom, SymptomKind} from './symptom.ts';

interface StaleService {
  /** As `servicePortName` of a Service port, or what else its rules are named by. */
  readonly name: string;
  /** Its packets still reach an endpoint, or are those of another Service port, which is checked; else they are refused. */
  readonly packets: 'served' | 'of-another-port' | 'refused';
  readonly rules: readonly RuleText[];
}

interface StaleIn {
  readonly context: Pick<NodeContext, 'family' | 'version'>;
  readonly ports: readonly ServedPort[];
  readonly services: readonly ServiceObject[];
}

/** A Service port that the API does not have, or that kube-proxy should not serve, and the node still answers for. */
export function staleService(stale: StaleService, {context, ports, services}: StaleIn): Symptom {
  const {name, packets, rules} = stale;
  const {family, version} = context;
  const service = serviceOf(name);
  const base = {kind: 'stale-service', family, port: null, expected: [], actual: rules.slice(0, 6)} as const;
  const said = {...base, severity: packets === 'refused' ? 'info' : 'error', service: service ?? undefined} as const;
  if (ports.some(({port}) => port.servicePortName === name))
    return {...said, detail: `a rule for ${name} leads to a chain that is none of its own`};
  const does = `the node still ${packets === 'refused' ? 'refuses packets' : 'answers'} for ${name}`;
  if (ports.some(({port}) => port.namespace === service?.namespace && port.service === service?.name)) {
    if (packets === 'of-another-port')
      return {
        ...said,
        severity: 'info',
        detail: `the node still has rules for ${name}, whose packets are those of another port of the Service now`,
      };
    const detail = `${does}: no such port of the Service is in the API (any more)`;
    return {...said, detail, gist: 'a port that the API no longer has still answers'};
  }
  const object = services.find(({metadata}) => metadata.namespace === service?.namespace && metadata.name === service?.name);
  if (object === undefined) return {...said, detail: `${does}: the API has no such Service (any more)`};
  const why = whyNotServed(object, version) ?? `the Service has no ${family} (any more)`;
  const gist = 'still answers, although kube-proxy should not serve it';
  return {...said, detail: `${does}, which it should not (any more): ${why}`, gist};
}

function serviceOf(name: string): ServiceName | null {
  const found = /^([^/]+)\/([^:]+)/.exec(name);
  return found === null ? null : {namespace: found[1] ?? '', name: found[2] ?? ''};
}

/** A rule that still answers, or refuses packets, at an address or port that is none of the Service port's entries. */
export function staleEntry(where: string, {answers, rule}: {readonly answers: boolean; readonly rule: RuleText}): PortSymptom {
  const state = answers ? 'still answers at' : 'still refuses packets to';
  const detail = `${state} ${where}, which is none of its entries in the API (any more)`;
  const gist = `${where} still answers, and the API no longer has it`;
  return {kind: 'stale-service', severity: answers ? 'error' : 'info', detail, gist, expected: [], actual: [rule]};
}

type DifferenceKind = Difference<unknown>['kind'];

/** Differences of one kind that no other symptom explains. */
export interface ResidualGroup<D> {
  readonly kind: DifferenceKind;
  readonly differences: readonly D[];
  readonly symptom: SymptomKind;
  /** Follows "a rule of KUBE-SERVICES" or "3 rules of KUBE-SERVICES" in a message. */
  readonly state: string;
  readonly evidence: {readonly expected: readonly RuleText[]; readonly actual: readonly RuleText[]};
}

/** Differences as evidence: some missing rules, and some that are there. */
export function evidenceOf(
  differences: readonly {readonly kind: DifferenceKind; readonly rule: RuleText}[],
  most = 4,
): ResidualGroup<unknown>['evidence'] {
  const rules = (missing: boolean): readonly RuleText[] =>
    differences.flatMap(({kind, rule}) => ((kind === 'missing') === missing ? [rule] : [])).slice(0, most);
  return {expected: rules(true), actual: rules(false)};
}

/** A rule that refuses or drops packets, and that no other symptom explains. */
export function residualRefusal(
  rule: RuleText,
  {hasAny, changesOutcome}: {readonly hasAny: boolean; readonly changesOutcome: boolean},
): PortSymptom {
  const reach = changesOutcome ? 'it may be reached' : 'no packet reaches it as long as the nat rules are in place';
  const detail = hasAny
    ? `a rule refuses or drops its packets although it has endpoints; ${reach}`
    : 'a rule refuses or drops its packets in another way than kube-proxy does';
  return {kind: 'unexpected-reject', severity: changesOutcome ? 'error' : 'info', detail, expected: [], actual: [rule]};
}

/** Differences that no symptom so far explains. One cause is one finding: one that is more than information covers all others. */
export function unexplained<D extends {readonly rule: RuleText}>(symptoms: SymptomList, differences: readonly D[]): readonly D[] {
  // Health checks are no packets of the Service.
  if (symptoms.all.some(({kind, severity}) => severity !== 'info' && kind !== 'health-check-port-blocked')) return [];
  const said = new Set(symptoms.all.flatMap(({expected, actual}) => [...expected, ...actual]));
  return differences.filter(({rule}) => !said.has(rule));
}

/** Says which differences no other symptom explains; `harmless` tells their effect, and is null where traffic is affected. */
export function sayResidual<D extends {readonly kind: DifferenceKind; readonly rule: RuleText}>(
  symptoms: SymptomList,
  differences: readonly D[],
  {
    placeOf,
    count,
    harmless,
  }: {placeOf(rule: RuleText): string; count(group: readonly D[]): string; readonly harmless: (() => string) | null},
): void {
  for (const {kind, differences: group, symptom, state, evidence} of residualGroups<D>(differences)) {
    const places = [...new Set(group.map(({rule}) => placeOf(rule)))].slice(0, 3).join(', ');
    const detail = `${count(group)} of ${places} ${state}: ${harmless === null ? 'traffic is affected' : harmless()}`;
    symptoms.say({kind: symptom, severity: harmless === null ? 'error' : 'info', detail, ...evidence}, `left ${kind}`);
  }
}

/** Groups the differences by kind, missing rules first. */
export function residualGroups<D extends {readonly kind: DifferenceKind; readonly rule: RuleText}>(
  differences: readonly D[],
): readonly ResidualGroup<D>[] {
  return kinds.flatMap(([kind, symptom, state]) => {
    const group = differences.filter(difference => difference.kind === kind);
    if (group.length === 0) return [];
    const rules = group.slice(0, 6).map(({rule}) => rule);
    const evidence = kind === 'missing' ? {expected: rules, actual: []} : {expected: [], actual: rules};
    return [{kind, symptom, state: state[group.length === 1 ? 0 : 1], evidence, differences: group}];
  });
}

const kinds = [
  ['missing', 'missing-rule', ['is missing', 'are missing']],
  ['extra', 'unexpected-rule', ['was not written by kube-proxy', 'were not written by kube-proxy']],
  ['duplicate', 'duplicate-rule', ['is there twice', 'are duplicates']],
  ['reordered', 'unexpected-rule', ['is out of order', 'are out of order']],
] as const satisfies readonly (readonly [DifferenceKind, SymptomKind, state: readonly [one: string, more: string]])[];

/** Session affinity in rules that is not what the Service asks for: of so many seconds, if these are known; null where it is missing. */
export function otherAffinity(port: ServicePort, found: {readonly seconds: number | string | null} | null, rules: number): string {
  const configured = configuredAffinity(port);
  if (found === null) return `session affinity is missing in ${rules === 1 ? 'a rule' : 'rules'}: ${configured}`;
  return `session affinity${found.seconds === null ? '' : ` of ${found.seconds} s`} is programmed, and ${configured}`;
}

/** The session affinity that a Service asks for, for the end of a message. */
export function configuredAffinity({affinitySeconds}: ServicePort): string {
  return affinitySeconds === null ? 'none is configured' : `ClientIP for ${affinitySeconds} s is configured`;
}
