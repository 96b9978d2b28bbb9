import {plural} from '../../model/text/plural.ts';
import {entryText} from '../../model/entry.ts';
import type {Finding, ServiceName} from '../../model/finding.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {escapeText} from '../escape.ts';
import {nodeList} from '../node-list.ts';
import type {FindingGroup} from '../group-findings.ts';
import {docsOf} from '../json.ts';

/** The words of the API, the most severe first: not met, not evaluated, not met but not scored, skipped or excused, met. */
export const outcomes = ['fail', 'error', 'warn', 'skip', 'pass'] as const;

export type PolicyOutcome = (typeof outcomes)[number];

interface ResourceReference {
  readonly apiVersion: 'v1';
  readonly kind: 'Namespace' | 'Node' | 'Service';
  readonly name: string;
  readonly namespace?: string;
}

/** One result of a (Cluster)Report or (Cluster)PolicyReport: both APIs have these fields. */
export interface PolicyResult {
  readonly policy: string;
  readonly rule: string;
  readonly category?: string;
  readonly source: 'svc-trace';
  readonly result: PolicyOutcome;
  readonly scored?: boolean;
  readonly severity?: 'high' | 'medium' | 'low';
  readonly message: string;
  readonly resources?: readonly [ResourceReference];
  readonly properties?: Readonly<Record<string, string>>;
}

/** The same finding on many nodes is one result. Dashboards show only the first resource: the Service, or else the node. */
export function resultOfGroup({finding, nodes}: Pick<FindingGroup, 'finding' | 'nodes'>): PolicyResult {
  const {code, name, severity, service, node, message} = finding;
  const others = nodes.length > 1 ? ` (and on ${plural(nodes.length - 1, 'more node')})` : '';
  const outcome = outcomeOf(finding);
  return {
    ...{policy: code, rule: name, category: categoryOf(code), source: 'svc-trace', result: outcome, scored: outcome === 'fail'},
    severity: severities[severity],
    message: escapeText(message) + others,
    ...(service !== undefined ? {resources: [serviceReference(service)]} : node !== undefined ? {resources: [nodeReference(node)]} : {}),
    properties: propertiesOf(finding, nodes),
  };
}

/** A result without a finding: in sync, or not checked. There are many of these, so they are short. */
export function ownResult(rule: string, result: PolicyOutcome, message: string, resource?: ResourceReference): PolicyResult {
  return {
    ...{policy: 'svc-trace', rule, source: 'svc-trace', result, message},
    ...(resource === undefined ? {} : {resources: [resource]}),
  };
}

export function serviceReference({namespace, name}: ServiceName): ResourceReference {
  return {apiVersion: 'v1', kind: 'Service', namespace: escapeText(namespace), name: escapeText(name)};
}

export function nodeReference(name: string): ResourceReference {
  return {apiVersion: 'v1', kind: 'Node', name: escapeText(name)};
}

/** Findings in the baseline are excused, as by a policy exception. Infos pass. */
function outcomeOf({code, severity, known}: Finding): PolicyOutcome {
  if (known) return 'skip';
  if (severity === 'error') return 'fail';
  if (severity === 'info') return 'pass';
  return code.startsWith('ST9') ? 'error' : 'warn';
}

/** Not every version of the older API has `info`. */
const severities = {error: 'high', warning: 'medium', info: 'low'} as const;

function categoryOf(code: string): string {
  return categories[code.slice(0, 3)] ?? code;
}

const categories: Readonly<Record<string, string>> = {
  ST1: 'API objects',
  ST2: 'Service rules',
  ST3: 'Base rules',
  ST4: 'Third-party rules',
  ST5: 'Node and kube-proxy',
  ST9: 'Not checked',
};

function propertiesOf(finding: Finding, nodes: readonly string[]): Readonly<Record<string, string>> {
  const {code, family, port, entry, endpoint, expected = [], actual = [], remedy, known} = finding;
  const given: Readonly<Record<string, string>> = {
    nodes: nodeList(nodes),
    family: family ?? '',
    port: port === undefined ? '' : `${port.name === '' ? '' : `${escapeText(port.name)} `}${port.port}/${port.protocol}`,
    entry: entry === undefined ? '' : escapeText(entryText(entry)),
    endpoint: escapeText(endpoint ?? ''),
    expected: evidence(expected),
    found: evidence(actual),
    known: known ? 'in the baseline' : '',
    remedy: escapeText(remedy),
    docs: docsOf(code),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ''));
}

/** At most four rules, one on each line. */
function evidence(rules: readonly RuleText[]): string {
  return rules
    .slice(0, 4)
    .map(({table, line, text}) => {
      const rule = text.length > 400 ? `${text.slice(0, 400)}…` : text;
      return escapeText(`${line > 0 ? `line ${line}: ` : ''}${table} ${rule}`);
    })
    .join('\n');
}
