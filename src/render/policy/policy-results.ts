import {plural} from '../../model/text/plural.ts';
import type {Finding, ServiceName} from '../../model/finding.ts';
import type {NodeReport, Report} from '../../model/report.ts';
import {escapeText} from '../escape.ts';
import {groupFindings} from '../group-findings.ts';
import {nodeReference, ownResult, type PolicyResult, resultOfGroup, serviceReference} from './policy-result.ts';

interface PolicyResults {
  /** About nodes, the cluster, and Services of namespaces without a Service in scope. */
  readonly cluster: readonly PolicyResult[];
  /** About the Services of each namespace in scope. */
  readonly namespaces: ReadonlyMap<string, readonly PolicyResult[]>;
}

/**
 * All results of a report: one for each finding, and a `pass` for each Service and each node without errors and warnings, or a `skip` if it
 * was not checked, so that a resolved finding turns green. Infos only if `verbose`.
 */
export function policyResults(report: Report, verbose: boolean): PolicyResults {
  const own = ownFindings(report.findings.filter(({severity}) => severity !== 'info' || verbose));
  const namespaces = new Map<string, PolicyResult[]>();
  const unclear = doubt(report);
  for (const service of report.services) {
    const found = own.ofService(service);
    const results = namespaces.get(service.namespace) ?? [];
    namespaces.set(service.namespace, results);
    results.push(...found.results, ...(found.isLoud ? [] : [serviceResult(service, report, unclear)]));
  }
  return {
    cluster: [
      ...own.ofCluster(),
      ...report.nodes.flatMap(node => {
        const found = own.ofNode(node.name);
        return [...found.results, ...nodeResults(node, found)];
      }),
      ...own.others(report),
    ],
    namespaces,
  };
}

interface OwnResults {
  readonly results: PolicyResult[];
  /** There is an error or warning. */
  isLoud: boolean;
}

const nothing: Readonly<OwnResults> = {results: [], isLoud: false};

/** The results of findings, by subject. A finding on many nodes is one result of the Service, and one of each node that it concerns. */
function ownFindings(findings: readonly Finding[]) {
  const found = new Map<string, OwnResults>();
  const add = (key: string, result: PolicyResult): void => {
    const known = found.get(key) ?? {results: [], isLoud: false};
    found.set(key, known);
    known.results.push(result);
    known.isLoud ||= result.result !== 'pass';
  };
  const aboutServices = findings.filter(({service}) => service !== undefined);
  for (const group of groupFindings(aboutServices)) add(keyOf(group.finding), resultOfGroup(group));
  for (const finding of findings) {
    if (finding.service !== undefined) continue;
    add(keyOf(finding), resultOfGroup({finding, nodes: finding.node === undefined ? [] : [finding.node]}));
  }
  return {
    ofCluster: () => (found.get(keyOf({})) ?? nothing).results,
    ofNode: (node: string) => found.get(keyOf({node})) ?? nothing,
    ofService: (service: ServiceName) => found.get(keyOf({service})) ?? nothing,
    /** Findings about Services and nodes that were not requested, such as deleted Services. */
    others: ({services, nodes}: Report): readonly PolicyResult[] => {
      const asked = new Set([keyOf({}), ...services.map(service => keyOf({service})), ...nodes.map(({name}) => keyOf({node: name}))]);
      return [...found].flatMap(([key, {results}]) => (asked.has(key) ? [] : results));
    },
  };
}

function keyOf({service, node}: Pick<Finding, 'service' | 'node'>): string {
  return JSON.stringify(service === undefined ? ['node', node ?? null] : ['service', service.namespace, service.name]);
}

/** The text of a `pass` is the same in every run, whatever the number of nodes. */
function serviceResult(service: ServiceName, {summary}: Report, unclear: string | null): PolicyResult {
  const reference = serviceReference(service);
  if (unclear !== null) return ownResult('service-programmed', 'skip', `no findings for this Service alone, but ${unclear}`, reference);
  const where = summary.sampledFrom === undefined ? 'on every node' : 'on every node of a sample';
  return ownResult('service-programmed', 'pass', `in sync ${where}`, reference);
}

/** Why a Service without a finding of its own may still be out of sync; null if it is in sync. */
function doubt({nodes, findings, summary}: Report): string | null {
  if (summary.nodesUnread > 0) return `${plural(summary.nodesUnread, 'node')} not checked`;
  const whole = findings.filter(({severity, service, known}) => severity === 'error' && service === undefined && !known);
  if (whole.length > 0) {
    const codes = [...new Set(whole.map(({code}) => code))].join(', ');
    return `an error affects all Services of a node (${codes})`;
  }
  if (summary.verdict === 'incomplete' || findings.some(isUnseen)) return 'part of the scope could not be read';
  return nodes.some(({status}) => status === 'checked') ? null : 'no node was checked';
}

function isUnseen({code, severity, service}: Finding): boolean {
  return code.startsWith('ST9') && severity !== 'info' && service === undefined;
}

/** An unread node is always reported, whatever codes were excluded. */
function nodeResults(
  {name, status, reason = 'the node was not checked'}: NodeReport,
  {results, isLoud}: OwnResults,
): readonly PolicyResult[] {
  const reference = nodeReference(name);
  if (status === 'unread')
    return results.some(({result}) => result === 'error') ? [] : [ownResult('node-read', 'error', escapeText(reason), reference)];
  if (isLoud) return [];
  if (status === 'unsupported') return [ownResult('node-read', 'skip', escapeText(reason), reference)];
  return [ownResult('node-read', 'pass', 'checked', reference)];
}
