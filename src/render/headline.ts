import type {Finding, ServiceName, Since} from '../model/finding.ts';
import {namesServices, type Report, type ReportedService} from '../model/report.ts';
import {groupBy} from '../model/lists.ts';
import {namespacedName, plural} from '../model/text.ts';
import {programOf, sinceOf, sinceOfNodes} from './block-texts.ts';
import {
  addressIn,
  causeBlocks,
  type FindingBlock,
  freshFindings,
  isStated,
  membersOf,
  onceForEachNode,
  portText,
  severityOf,
} from './finding-blocks.ts';
import {endpointCount, isOfAllFamilies, whatHappens} from './headline-words.ts';

/** One cause of errors or warnings: which Services or nodes, where, and what happens. */
export interface Cause {
  readonly code: string;
  readonly severity: Finding['severity'];
  readonly family: Finding['family'];
  readonly nodes: readonly string[];
  /** Empty if it affects all Services of its nodes. */
  readonly services: readonly ServiceName[];
  readonly since?: Since;
  /** The rules of its nodes are older than the API, as their findings show together. */
  readonly isOutdated: boolean;
  /** `shop/web on node-a: pod web-2 gets no traffic`. Not escaped. */
  readonly message: string;
  /** What it has in common with others that are no more causes beside it: one rule, or an endpoint that was replaced. */
  readonly roots: readonly string[];
  /** It names no Service as its own. */
  readonly isOfNode: boolean;
  /** The same with the code; without it where only the rules show the cause, and the code is that of one of its effects. */
  readonly text: string;
}

type CausesInput = Pick<Report, 'findings'> & Partial<Report>;

/** The worst first. What a baseline knows, and infos, are none. The same on other nodes is one, whatever else their findings say. */
export function causesOf(report: CausesInput, readAt: string | undefined): readonly Cause[] {
  const told = causeBlocks(freshFindings(report.findings)).map(block => {
    const shown = ofAsked(block, report.services ?? []);
    const more = (block.finding.affects?.length ?? 0) - (shown.finding.affects?.length ?? 0);
    const what = inFamily(whatText(shown, readAt, report), shown, report);
    return {block, nodes: block.nodes, what, placeOn: (nodes: readonly string[]) => placeText({...shown, nodes}, report, more)};
  });
  const keyOf = ({block, what, placeOn}: (typeof told)[number]): string =>
    JSON.stringify([block.finding.code, block.finding.family, severityOf(block), placeOn([]), what]);
  return groupBy(told, keyOf)
    .flatMap(onceForEachNode)
    .flatMap(alike => {
      const [first] = alike;
      if (first === undefined) return [];
      const {block, what, placeOn} = first;
      const {code, family, service} = block.finding;
      const nodes = [...new Set(alike.flatMap(one => one.nodes))].sort();
      const message = `${placeOn(nodes)}: ${what}`;
      return {
        code,
        severity: severityOf(block),
        family,
        nodes,
        services: servicesOf(alike.flatMap(one => membersOf(one.block))),
        since: sinceOfNodes(block) ?? undefined,
        isOutdated: block.reason === 'older-rules',
        message,
        roots: alike.flatMap(one => rootsOf(one.block)),
        isOfNode: service === undefined,
        text: block.reason === 'older-rules' ? message : `${message} (${code})`,
      };
    });
}

function rootsOf(block: FindingBlock): readonly string[] {
  const {finding, effects} = block;
  const {code, service, variant, port, family, endpoint, actual = []} = finding;
  const isReplaced = code === 'ST202' || code === 'ST203' || variant === 'lacks-backend' || variant === 'has-backend';
  const rule = actual[0]?.text;
  return [
    ...(rule !== undefined && ['ST202', 'ST203', 'ST206', 'ST303', 'ST401', 'ST402'].includes(code) ? [[rule]] : []),
    ...(isReplaced && effects.length === 0 ? [['replaced', service, port, family]] : []),
    // A pod that several Services lack, or of which they have another address.
    ...(endpoint !== undefined && effects.length === 0 && ['ST202', 'ST204'].includes(code) && endpointCount(block) === 1
      ? [['pod', addressIn(endpoint)]]
      : []),
  ].map(root => JSON.stringify(root));
}

/** The nodes that the table calls `outdated`, with the cause. */
export function outdatedNodes(report: Pick<Report, 'findings' | 'nodes'>, readAt?: string): ReadonlyMap<string, Cause> {
  const causes = causesOf(report, readAt).filter(({isOutdated}) => isOutdated);
  return new Map(causes.flatMap(cause => cause.nodes.map(node => [node, cause] as const)));
}

function servicesOf(findings: readonly Finding[]): readonly ServiceName[] {
  const own = findings.flatMap(({service, affects = []}) => [...(service === undefined ? [] : [service]), ...affects]);
  return [...new Map(own.map(({namespace, name}) => [namespacedName({namespace, name}), {namespace, name}])).values()];
}

/** In a report of one Service, what happens to it is asked, also where the cause affects others. */
function ofAsked(block: FindingBlock, services: readonly ReportedService[]): FindingBlock {
  const {finding} = block;
  const [asked, ...others] = services;
  const own = finding.affects?.filter(({namespace, name}) => namespace === asked?.namespace && name === asked.name) ?? [];
  return own.length === 0 || others.length > 0 ? block : {...block, finding: {...finding, affects: own}};
}

/** `shop/web and 2 more Services on node-a`; the nodes alone, if it is their fault. `unnamed` Services are affected beside those of the block. */
function placeText(block: FindingBlock, {nodes, services = []}: CausesInput, unnamed: number): string {
  const where = nodesText(block.nodes, nodes?.length);
  const {service: own, affects = []} = block.finding;
  const isOfOne = own === undefined && affects.length === 1 && namesServices(block.finding);
  if ((own === undefined && !isOfOne) || block.reason === 'older-rules' || block.effects.length > 0)
    return where === '' ? 'the cluster' : where;
  const named = isOfOne ? affects : [block, ...block.others].flatMap(({finding: {service}}) => service ?? []);
  const names = [...new Set(named.map(namespacedName))];
  const count = names.length - 1 + unnamed;
  const more = count === 0 ? '' : ` and ${plural(count, 'more Service')}`;
  return `${names[0]}${ofPort(block, services)}${more}${where === '' ? '' : ` on ${where}`}`;
}

/** `:dns`, if it is one of several ports of its Service, and nothing else says which. */
function ofPort(block: FindingBlock, services: readonly ReportedService[]): string {
  const {service, port, entry, code} = block.finding;
  if (service === undefined || port === undefined || entry !== undefined || port.name === '' || code === 'ST201') return '';
  const {ports = 1} = services.find(({namespace, name}) => namespace === service.namespace && name === service.name) ?? {};
  return ports > 1 && membersOf(block).every(member => portText(member) === portText(block.finding)) ? `:${port.name}` : '';
}

/** Names while they are few: `node-a, node-b`, `100 of 300 nodes`. */
function nodesText(names: readonly string[], nodeCount: number | undefined): string {
  if (names.length <= 3) return names.join(', ');
  if (nodeCount === undefined) return plural(names.length, 'node');
  return names.length === nodeCount ? `all ${nodeCount} nodes` : `${names.length} of ${nodeCount} nodes`;
}

function whatText(block: FindingBlock, readAt: string | undefined, report: CausesInput): string {
  const {finding, reason} = block;
  const since = sinceOf(block, readAt);
  if (isStated(finding))
    return since === null || finding.variant === 'behind' ? finding.gist : `${finding.gist}, and stopped applying changes ${since}`;
  if (since !== null) return `${programOf(block)} stopped applying changes ${since}`;
  if (reason === 'older-rules') return `${programOf(block)} no longer applies changes`;
  if (reason === 'flushed-filter')
    return "kube-proxy's rules in table filter are missing, packets that should be refused or dropped are not";
  return whatHappens(block, report);
}

/** Says that it is IPv6 alone, where a Service that it concerns has IPv4 too, and nothing else says so: a word or an address. */
function inFamily(text: string, block: FindingBlock, report: CausesInput): string {
  if (/IPv6|\[/.test(text) || membersOf(block).some(({family}) => family !== 'IPv6')) return text;
  if (block.finding.service === undefined && isOfAllFamilies(block, report)) return text;
  const {services: all = []} = report;
  const own = new Set(servicesOf(membersOf(block)).map(namespacedName));
  const concerned = own.size === 0 ? all : all.filter(service => own.has(namespacedName(service)));
  const lackIPv4 = concerned.length > 0 && concerned.every(({families}) => families?.includes('IPv4') === false);
  return lackIPv4 ? text : `${text} over IPv6`;
}
